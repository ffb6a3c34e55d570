// SPDX-License-Identifier: Apache-2.0

package process

import "strings"

// parseEnvFile reads the format of the EXECD_ENVS file into vars. Each value may refer to what was
// set before it. Lines that make no sense are skipped: the file is appended to by shell text, and
// one bad line must not take the others away.
func parseEnvFile(text string, vars map[string]string) {
	text = strings.ReplaceAll(text, "\x00", "") // cannot be in an environment
	for text != "" {
		line, rest, _ := strings.Cut(text, "\n")
		name, value, isAssignment := strings.Cut(strings.TrimSpace(line), "=")
		name = strings.TrimSpace(strings.TrimPrefix(name, "export "))
		if strings.HasPrefix(name, "#") || !isAssignment || !IsVariableName(name) {
			text = rest
			continue
		}
		value = strings.TrimLeft(value, " \t")
		if !strings.HasPrefix(value, "'") && !strings.HasPrefix(value, `"`) {
			vars[name] = expandVariables(strings.TrimSpace(value), lookupIn(vars))
			text = rest
			continue
		}
		quote := value[0]
		start := strings.Index(text, "=") + 1
		start += strings.IndexByte(text[start:], quote) + 1
		body, after, isClosed := cutQuoted(text[start:], quote)
		trailer := strings.TrimSpace(firstLine(after))
		if !isClosed || trailer != "" && !strings.HasPrefix(trailer, "#") {
			text = rest
			continue
		}
		if quote == '"' {
			body = expandVariables(body, lookupIn(vars))
		}
		vars[name] = body
		_, text, _ = strings.Cut(after, "\n")
	}
}

// cutQuoted reads up to the closing quote. Double quotes know the escapes \n \r \t \\ \" and keep
// other backslashes; an escaped dollar sign is left for expandVariables.
func cutQuoted(text string, quote byte) (body, after string, isClosed bool) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == quote {
			return b.String(), text[i+1:], true
		}
		if c == '\n' && quote == '"' {
			return "", text, false
		}
		if c == '\\' && quote == '"' && i+1 < len(text) {
			if r, ok := escapes[text[i+1]]; ok {
				b.WriteByte(r)
				i++
				continue
			}
		}
		b.WriteByte(c)
	}
	return "", text, false
}

var escapes = map[byte]byte{'n': '\n', 'r': '\r', 't': '\t', '\\': '\\', '"': '"'}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func lookupIn(vars map[string]string) func(string) string {
	return func(name string) string { return vars[name] }
}

// expandVariables replaces $NAME and ${NAME}; any other dollar sign stands for itself.
func expandVariables(text string, value func(string) string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		name, rest := "", after
		if strings.HasPrefix(after, "{") {
			if inner, tail, closed := strings.Cut(after[1:], "}"); closed && IsVariableName(inner) {
				name, rest = inner, tail
			}
		} else {
			n := 0
			for n < len(after) && isNameByte(after[n], n == 0) {
				n++
			}
			name, rest = after[:n], after[n:]
		}
		if name == "" {
			b.WriteByte('$')
		} else {
			b.WriteString(value(name))
		}
		text = rest
	}
}

// IsVariableName reports whether a shell takes s as the name of a variable.
func IsVariableName(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isNameByte(s[i], i == 0) {
			return false
		}
	}
	return s != ""
}

func isNameByte(c byte, isFirst bool) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || !isFirst && c >= '0' && c <= '9'
}
