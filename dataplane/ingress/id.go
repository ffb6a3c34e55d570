// SPDX-License-Identifier: Apache-2.0

package ingress

import "strings"

const (
	uuidLength     = 36
	templatePrefix = "fsb-" // of sandboxes made from a template
)

// splitID takes the id of a sandbox off the front of text: a UUID in lower case, or fsb- and a UUID or
// a word. The id is "" when there is none.
func splitID(text string) (id, rest string) {
	if startsWithUUID(text) {
		return text[:uuidLength], text[uuidLength:]
	}
	word, ok := strings.CutPrefix(text, templatePrefix)
	if !ok {
		return "", text
	}
	end := uuidLength
	if !startsWithUUID(word) {
		end = strings.IndexFunc(word, func(c rune) bool { return !isLowerAlphanumeric(c) })
		if end < 0 {
			end = len(word)
		}
	}
	if end == 0 {
		return "", text
	}
	return text[:len(templatePrefix)+end], word[end:]
}

func startsWithUUID(text string) bool {
	if len(text) < uuidLength {
		return false
	}
	for i, c := range []byte(text[:uuidLength]) {
		switch i {
		case 8, 13, 18, 23:
			if c != '-' {
				return false
			}
		default:
			if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
				return false
			}
		}
	}
	return true
}

func isLowerAlphanumeric(c rune) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' }
