// SPDX-License-Identifier: Apache-2.0

// Package files reads and changes the file system on behalf of clients. Paths come from outside, and
// whoever owns the tree may be hostile: every path is opened by the rules in open.go, and every
// change is made relative to an opened directory.
package files

import (
	"fmt"
	"path/filepath"
	"strings"
)

// Absolute is path without "." and ".." parts; a relative one starts at the working directory.
func Absolute(path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("the empty string %w", ErrInvalidPath)
	}
	if strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("%q contains NUL and %w", path, ErrInvalidPath)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("%q %w: %v", path, ErrInvalidPath, err)
	}
	return absolute, nil
}

func join(dir, name string) string {
	if dir == "/" {
		return dir + name
	}
	return dir + "/" + name
}
