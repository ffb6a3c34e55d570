// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
)

// A Checksum is the digest of a file's content, in hexadecimal.
type Checksum struct {
	Algorithm string `json:"algorithm"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

var algorithms = map[string]func() hash.Hash{
	"sha256": sha256.New, "sha512": sha512.New, "sha1": sha1.New, "md5": md5.New,
}

// ChecksumOf reads the whole file at path.
func ChecksumOf(ctx context.Context, path, algorithm string) (Checksum, error) {
	newHash, ok := algorithms[algorithm]
	if !ok {
		return Checksum{}, fmt.Errorf("%w %q: use sha256, sha512, sha1 or md5", ErrAlgorithm, algorithm)
	}
	f, _, err := openRegular(path)
	if err != nil {
		return Checksum{}, err
	}
	defer f.Close()
	h := newHash()
	size, err := Copy(ctx, h, f)
	if err != nil {
		return Checksum{}, explain(path, err)
	}
	return Checksum{Algorithm: algorithm, Digest: hex.EncodeToString(h.Sum(nil)), Size: size}, nil
}
