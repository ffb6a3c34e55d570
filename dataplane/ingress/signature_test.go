// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"strconv"
	"strings"
	"testing"
	"time"
)

var signingKey = []byte("0123456789abcdef0123456789abcdef")

func signingSettings(acceptsShort bool) *Settings {
	return &Settings{signingKeys: map[string][]byte{"k": signingKey}, acceptsShortSignatures: acceptsShort}
}

func expiresIn(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 36) }

func TestSignaturesKeepTheirFormat(t *testing.T) {
	// Computed apart from this code, by the description in the package's comment.
	const wantFull, wantShort = "aqknsmoqtdde2fbizjcfw7zjamwfp4kac7giizvombidaxeaweuq", "896e6a35"
	if got := FullSignature(signingKey, testID, 8080, "zzzzzz"); got != wantFull {
		t.Errorf("full: got %s", got)
	}
	if got := ShortSignature(signingKey, testID, 8080, "zzzzzz"); got != wantShort {
		t.Errorf("short: got %s", got)
	}
}

func TestASignatureHoldsForItsPortAndTimeOnly(t *testing.T) {
	c, now := signingSettings(false), time.Now()
	expires := expiresIn(time.Hour)
	text := FullSignature(signingKey, testID, 8080, expires) + "k"
	good := signature{expires, text}
	if !good.verifies(c, testID, 8080, now) {
		t.Fatal("a good signature was refused")
	}
	flipped := "b" + text[1:]
	if text[0] == 'b' {
		flipped = "a" + text[1:]
	}
	past := expiresIn(-time.Second)
	for name, verifies := range map[string]bool{
		"another port":    good.verifies(c, testID, 8081, now),
		"another sandbox": good.verifies(c, strings.Replace(testID, "0", "1", 1), 8080, now),
		"later":           good.verifies(c, testID, 8080, now.Add(time.Hour)),
		"another expiry":  signature{expiresIn(2 * time.Hour), text}.verifies(c, testID, 8080, now),
		"another digest":  signature{expires, flipped}.verifies(c, testID, 8080, now),
		"an unknown key":  signature{expires, text[:len(text)-1] + "j"}.verifies(c, testID, 8080, now),
		"in the past":     signature{past, FullSignature(signingKey, testID, 8080, past) + "k"}.verifies(c, testID, 8080, now),
		"leading zero":    signature{"0" + expires, FullSignature(signingKey, testID, 8080, "0"+expires) + "k"}.verifies(c, testID, 8080, now),
		"no keys":         good.verifies(new(Settings), testID, 8080, now),
		"nothing":         signature{}.verifies(c, testID, 8080, now),
	} {
		if verifies {
			t.Errorf("accepted: %s", name)
		}
	}
}

func TestShortSignaturesNeedPermission(t *testing.T) {
	expires := expiresIn(time.Hour)
	s := signature{expires, ShortSignature(signingKey, testID, 8080, expires) + "k"}
	if s.verifies(signingSettings(false), testID, 8080, time.Now()) {
		t.Error("accepted without permission")
	}
	if !s.verifies(signingSettings(true), testID, 8080, time.Now()) {
		t.Error("refused with permission")
	}
}
