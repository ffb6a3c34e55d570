// SPDX-License-Identifier: Apache-2.0
package opensandbox;

import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

/** What cells may call to show something in the middle. */
public final class Display {
    static Wire wire;

    private Display() {}

    /** Shows forms by MIME type; bytes become base64. */
    public static void display(Map<String, ?> forms) {
        Map<String, Object> encoded = new HashMap<>();
        forms.forEach((kind, form) -> encoded.put(kind, form instanceof byte[] bytes
                ? Base64.getEncoder().encodeToString(bytes) : form));
        System.out.flush();
        System.err.flush();
        wire.show(encoded, Map.of());
    }

    /** Shows a value as text. */
    public static void display(Object value) {
        display(Map.of("text/plain", String.valueOf(value)));
    }
}
