// SPDX-License-Identifier: Apache-2.0
package opensandbox;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

/** As much JSON as the daemon speaks: Java has none of its own. */
final class Json {
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Reads an object. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> object(String text) {
        return (Map<String, Object>) new Json(text).value();
    }

    /** Writes maps, lists, strings, numbers, booleans and null; anything else as its text. */
    static String text(Object value) {
        if (value instanceof Double number && !Double.isFinite(number) || value instanceof Float real && !Float.isFinite(real)) {
            return "null"; // JSON has no such number
        }
        if (value == null || value instanceof Number || value instanceof Boolean) {
            return String.valueOf(value);
        }
        if (value instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(entry -> quoted(String.valueOf(entry.getKey())) + ":" + text(entry.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        if (value instanceof Iterable<?> items) {
            return StreamSupport.stream(items.spliterator(), false).map(Json::text).collect(Collectors.joining(",", "[", "]"));
        }
        return quoted(value.toString());
    }

    private static String quoted(String text) {
        StringBuilder made = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                made.append('\\').append(c);
            } else if (c < ' ' || c > '~') {
                made.append(String.format("\\u%04x", (int) c));
            } else {
                made.append(c);
            }
        }
        return made.append('"').toString();
    }

    private Object value() {
        switch (peek()) {
            case '{':
                return map();
            case '[':
                return list();
            case '"':
                return string();
            default:
                return word();
        }
    }

    private char peek() {
        while (Character.isWhitespace(text.charAt(at))) {
            at++;
        }
        return text.charAt(at);
    }

    private Map<String, Object> map() {
        Map<String, Object> made = new HashMap<>();
        for (at++; peek() != '}'; ) {
            String key = string();
            peek();
            at++; // the colon
            made.put(key, value());
            if (peek() == ',') {
                at++;
            }
            peek();
        }
        at++;
        return made;
    }

    private List<Object> list() {
        List<Object> made = new ArrayList<>();
        for (at++; peek() != ']'; ) {
            made.add(value());
            if (peek() == ',') {
                at++;
            }
        }
        at++;
        return made;
    }

    private String string() {
        StringBuilder made = new StringBuilder();
        for (at++; text.charAt(at) != '"'; at++) {
            char c = text.charAt(at);
            made.append(c == '\\' ? escaped(text.charAt(++at)) : c);
        }
        at++;
        return made.toString();
    }

    private char escaped(char c) {
        switch (c) {
            case 'n':
                return '\n';
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 3, at + 1), 16);
            default:
                return c;
        }
    }

    private Object word() {
        int begin = at;
        while (at < text.length() && ",]}".indexOf(text.charAt(at)) < 0) {
            at++;
        }
        String word = text.substring(begin, at).strip();
        switch (word) {
            case "true":
                return true;
            case "false":
                return false;
            case "null":
                return null;
            default:
                return Double.valueOf(word);
        }
    }
}
