// SPDX-License-Identifier: Apache-2.0
package opensandbox;

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** The connection with the daemon: JSON, one object on a line. */
final class Wire {
    private static final int CONNECTION = 3;
    private static final int ACKNOWLEDGEMENTS = 4;

    private final BufferedReader in;
    private final FileOutputStream out;
    private final FileInputStream acknowledgements;

    private Wire(FileDescriptor connection, FileDescriptor acknowledgements) {
        this.in = new BufferedReader(new InputStreamReader(new FileInputStream(connection), StandardCharsets.UTF_8));
        this.out = new FileOutputStream(connection);
        this.acknowledgements = new FileInputStream(acknowledgements);
    }

    static Wire open() throws ReflectiveOperationException {
        return new Wire(descriptor(CONNECTION), descriptor(ACKNOWLEDGEMENTS));
    }

    /** Java has no other way to a descriptor that was handed over. */
    private static FileDescriptor descriptor(int number) throws ReflectiveOperationException {
        FileDescriptor made = new FileDescriptor();
        Field field = FileDescriptor.class.getDeclaredField("fd");
        field.setAccessible(true);
        field.setInt(made, number);
        return made;
    }

    /** The next order, or null when the daemon has gone. */
    Map<String, Object> hear() {
        try {
            String line = in.readLine();
            return line == null ? null : Json.object(line);
        } catch (IOException error) {
            return null;
        }
    }

    /** Says a message; its type comes first. */
    synchronized void say(String type, Map<String, ?> content) {
        Map<String, Object> message = new LinkedHashMap<>();
        message.put("type", type);
        message.putAll(content);
        try {
            out.write((Json.text(message) + "\n").getBytes(StandardCharsets.UTF_8));
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    /** Says a result and waits until the daemon has sent it, so that output stays in order. */
    synchronized void show(Map<String, ?> forms, Map<String, ?> rest) {
        Map<String, Object> content = new HashMap<>(rest);
        content.put("data", forms);
        say("result", content);
        try {
            acknowledgements.read();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
