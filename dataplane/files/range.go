// SPDX-License-Identifier: Apache-2.0

package files

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// A Range is a piece of a file.
type Range struct {
	Start, Length int64
}

// ParseRange reads the value of a Range header for a file of size bytes. Only the first range counts.
// It reports false when there is none, or one in another unit than bytes, which HTTP says to ignore;
// one in bytes that makes no sense cannot be satisfied.
func ParseRange(header string, size int64) (wanted Range, isRange bool, err error) {
	unit, set, found := strings.Cut(header, "=")
	if !found || !strings.EqualFold(strings.TrimSpace(unit), "bytes") {
		return Range{}, false, nil
	}
	spec, _, _ := strings.Cut(set, ",")
	first, last, found := strings.Cut(strings.TrimSpace(spec), "-")
	if !found {
		return Range{}, true, unsatisfiable(header)
	}
	if first == "" {
		length, ok := parseOffset(last)
		if !ok || length == 0 || size == 0 {
			return Range{}, true, unsatisfiable(header)
		}
		length = min(length, size)
		return Range{Start: size - length, Length: length}, true, nil
	}
	start, ok := parseOffset(first)
	end := int64(math.MaxInt64)
	if ok && last != "" {
		end, ok = parseOffset(last)
	}
	if !ok || start > end || start >= size {
		return Range{}, true, unsatisfiable(header)
	}
	return Range{Start: start, Length: min(end, size-1) - start + 1}, true, nil
}

func unsatisfiable(header string) error {
	return fmt.Errorf("%w: %q", ErrUnsatisfiable, header)
}

// parseOffset takes digits only; a number too large for a file is the largest.
func parseOffset(text string) (int64, bool) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		n = math.MaxInt64
	}
	return n, true
}
