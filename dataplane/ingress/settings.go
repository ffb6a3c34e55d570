// SPDX-License-Identifier: Apache-2.0

package ingress

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// keyHashes are the SHA-256 sums of API keys. Looking one up takes a time that depends on the sum
// only, of which nobody can choose the first bytes.
type keyHashes map[[sha256.Size]byte]struct{}

func (k keyHashes) hasKey(key string) bool {
	if len(k) == 0 || key == "" {
		return false
	}
	_, ok := k[sha256.Sum256([]byte(key))]
	return ok
}

// parseKeyHashes keeps a list that is absent (nil) apart from one that is empty, which has nobody's key.
func parseKeyHashes(hashes []string) (keyHashes, error) {
	if hashes == nil {
		return nil, nil
	}
	parsed := make(keyHashes, len(hashes))
	for _, text := range hashes {
		var sum [sha256.Size]byte
		if n, err := hex.Decode(sum[:], []byte(text)); len(text) != 2*sha256.Size || err != nil || n != len(sum) {
			return nil, errors.New("the hash of an API key is not SHA-256 in hex")
		}
		parsed[sum] = struct{}{}
	}
	return parsed, nil
}

// Settings is the configuration in force. It never changes; a new one replaces it.
type Settings struct {
	keys                   keyHashes
	signingKeys            map[string][]byte
	acceptsShortSignatures bool
	domain                 string // of host routes, without a port
	isMultiTenant          bool
	// routesByURI says that a gateway of this server names sandboxes by /{id}/{port}. Then applications
	// are meant to be reached so, with their own Authorization.
	routesByURI bool
}

// newSettings reads a config message.
func newSettings(m *message) (*Settings, error) {
	c := &Settings{
		signingKeys:            make(map[string][]byte, len(m.Signing)),
		acceptsShortSignatures: m.AcceptsShortSignatures,
		isMultiTenant:          m.MultiTenant,
		routesByURI:            m.RoutesByURI,
	}
	var err error
	if c.keys, err = parseKeyHashes(m.APIKeyHashes); err != nil {
		return nil, err
	}
	for id, encoded := range m.Signing {
		if len(id) != 1 || notAlphanumeric(rune(id[0])) {
			return nil, fmt.Errorf("signing key %q: the id is one character of 0-9a-z", id)
		}
		key, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(key) == 0 {
			return nil, fmt.Errorf("signing key %q is not base64", id)
		}
		c.signingKeys[id] = key
	}
	domain, _, _ := strings.Cut(m.Domain, ":")
	c.domain = strings.Trim(strings.ToLower(domain), ".")
	return c, nil
}
