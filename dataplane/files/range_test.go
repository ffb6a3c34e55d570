// SPDX-License-Identifier: Apache-2.0

package files

import (
	"errors"
	"testing"
)

func TestTheFirstRangeIsTaken(t *testing.T) {
	for header, want := range map[string]Range{
		"bytes=0-9":                      {0, 10},
		"bytes=5-":                       {5, 95},
		"bytes=-30":                      {70, 30},
		"bytes=-300":                     {0, 100},
		"bytes=90-1000":                  {90, 10},
		"bytes=1-2, 5-6":                 {1, 2},
		"Bytes=99-99":                    {99, 1},
		"bytes= 3-4":                     {3, 2},
		"bytes=0-99999999999999999999":   {0, 100},
		"bytes=-99999999999999999999999": {0, 100},
	} {
		if got, isRange, err := ParseRange(header, 100); err != nil || !isRange || got != want {
			t.Errorf("%s: %v, %v", header, got, err)
		}
	}
}

func TestARangeThatIsNotInTheFileIsNotSatisfiable(t *testing.T) {
	for _, header := range []string{
		"bytes=", "bytes=-", "bytes=x-", "bytes=5-2", "bytes=100-", "bytes=-0", "bytes=--1", "bytes=+1-2",
		"bytes=1", "bytes=99999999999999999999-", "bytes=1-x", "bytes=,1-2",
	} {
		if got, _, err := ParseRange(header, 100); !errors.Is(err, ErrUnsatisfiable) {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
	if _, _, err := ParseRange("bytes=0-", 0); !errors.Is(err, ErrUnsatisfiable) {
		t.Errorf("an empty file has no range: %v", err)
	}
}

func TestAnotherUnitIsIgnored(t *testing.T) {
	for _, header := range []string{"", "bytes", "lines=1-2", "=0-1"} {
		if got, isRange, err := ParseRange(header, 100); isRange || err != nil {
			t.Errorf("%q: %v, %v", header, got, err)
		}
	}
}

// FuzzRange checks that a range is always within the file.
func FuzzRange(f *testing.F) {
	for _, header := range []string{"bytes=0-9", "bytes=5-", "bytes=-30", "bytes=1-2,5-6", "bytes=9223372036854775807-", "x"} {
		f.Add(header, int64(100))
		f.Add(header, int64(0))
		f.Add(header, int64(9223372036854775807))
	}
	f.Fuzz(func(t *testing.T, header string, size int64) {
		if size < 0 {
			return
		}
		r, isRange, err := ParseRange(header, size)
		if isRange && err == nil && (r.Start < 0 || r.Length <= 0 || r.Start > size-r.Length) {
			t.Fatalf("%q of %d bytes: %v", header, size, r)
		}
	})
}
