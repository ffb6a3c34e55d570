// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	// shortLength is that of the published form: 8 hex digits and the key's id.
	shortLength = 9
	// fullLength is that of our own form: 52 characters of base 32 and the key's id.
	fullLength = 53
	// minExpires36 and maxExpires36 bound the length of an expiry. Six digits begin in 1971.
	minExpires36 = 6
	maxExpires36 = 13
)

// lowerBase32 survives host names, which have no case.
var lowerBase32 = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// signature is what a signed route carries; the zero value is that of an unsigned one.
type signature struct {
	expires string // base 36 of the Unix second
	text    string // the digest and, as the last character, the id of the key
}

func (s signature) isPresent() bool { return s.text != "" }

// isShaped says that both parts could be those of a signed route.
func (s signature) isShaped() bool {
	if len(s.expires) < minExpires36 || len(s.expires) > maxExpires36 || s.expires[0] == '0' {
		return false
	}
	if len(s.text) != shortLength && len(s.text) != fullLength {
		return false
	}
	return !strings.ContainsFunc(s.expires, notAlphanumeric) && !strings.ContainsFunc(s.text, notAlphanumeric)
}

func notAlphanumeric(c rune) bool { return !isLowerAlphanumeric(c) }

// verifies says that the signature was made for this port of this sandbox with one of the keys, and
// has not expired.
func (s signature) verifies(c *Settings, id string, port uint16, now time.Time) bool {
	if !s.isShaped() {
		return false
	}
	digest, keyID := s.text[:len(s.text)-1], s.text[len(s.text)-1:]
	key, ok := c.signingKeys[keyID]
	if !ok {
		return false
	}
	var want string
	switch {
	case len(s.text) == fullLength:
		want = FullSignature(key, id, port, s.expires)
	case c.acceptsShortSignatures:
		want = ShortSignature(key, id, port, s.expires)
	default:
		return false
	}
	expires, err := strconv.ParseUint(s.expires, 36, 64)
	isCurrent := err == nil && expires <= math.MaxInt64 && int64(expires) > now.Unix()
	return subtle.ConstantTimeCompare([]byte(digest), []byte(want)) == 1 && isCurrent
}

// FullSignature is the digest of our own form of a signed route: HMAC-SHA256, whole, in base 32. The
// route carries it followed by the one-character id of the key.
func FullSignature(key []byte, id string, port uint16, expires36 string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write(canonical("full", id, port, expires36))
	return lowerBase32.EncodeToString(mac.Sum(nil))
}

// ShortSignature is the digest of the published form: 32 bits, which somebody patient can guess.
func ShortSignature(key []byte, id string, port uint16, expires36 string) string {
	text := canonical("short", id, port, expires36)
	framed := binary.BigEndian.AppendUint32(nil, uint32(len(key)))
	framed = append(framed, key...)
	framed = binary.BigEndian.AppendUint32(framed, uint32(len(text)))
	digest := sha256.Sum256(append(framed, text...))
	return hex.EncodeToString(digest[:4])
}

// canonical is what is signed. The form is part of it, so that no signature passes for the other form.
func canonical(form, id string, port uint16, expires36 string) []byte {
	return []byte("v1\n" + form + "\n" + id + "\n" + strconv.Itoa(int(port)) + "\n" + expires36 + "\n")
}
