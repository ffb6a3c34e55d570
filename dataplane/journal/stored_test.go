// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"os"
	"path/filepath"
	"testing"
)

// The form on disk is part of what a release stores: frames of its journals are read as they were.
func TestFramesOfEveryReleaseAreRead(t *testing.T) {
	kept, err := filepath.Glob("testdata/v*.journal")
	if err != nil || len(kept) == 0 {
		t.Fatalf("no journals are kept: %v", err)
	}
	for _, path := range kept {
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		reader := Reader{}
		chunk, err := reader.readFrame(file, DefaultLimit, place{})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if chunk.Source != Stdout || string(chunk.Data) != "kept output\n" || chunk.At.Year() < 2026 {
			t.Errorf("%s: got %+v", path, chunk)
		}
	}
}
