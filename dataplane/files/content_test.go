// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"context"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

func TestLinesAreCutOutAndJoined(t *testing.T) {
	for _, c := range []struct {
		text         string
		first, limit int64
		want         string
	}{
		{"1\n2\n3\n4\n", 2, 2, "2\n3"},
		{"1\n2\n3\n4\n", 1, 0, "1\n2\n3\n4"},
		{"1\n2\n3", 3, 5, "3"},
		{"1\n2\n", 3, 0, ""},
		{"1\n2\n", 9, 1, ""},
		{"", 1, 0, ""},
		{"\n\n\n", 1, 2, "\n"},
		{"\n\n\n", 1, 0, "\n\n"},
		{"a\r\nb\r\n", 1, 1, "a\r"},
		{"no end", 1, 1, "no end"},
	} {
		var whole, slow bytes.Buffer
		if err := CopyLines(context.Background(), &whole, strings.NewReader(c.text), c.first, c.limit); err != nil {
			t.Fatal(err)
		}
		if err := CopyLines(context.Background(), &slow, iotest.OneByteReader(strings.NewReader(c.text)), c.first, c.limit); err != nil {
			t.Fatal(err)
		}
		if whole.String() != c.want || slow.String() != c.want {
			t.Errorf("%q from %d, %d lines: %q and %q, want %q", c.text, c.first, c.limit, whole.String(), slow.String(), c.want)
		}
	}
}

func TestReplacingFindsWhatLiesAcrossBuffers(t *testing.T) {
	for _, c := range []struct{ text, before, after string }{
		{"aXbXc", "X", "--"}, {"aaaa", "aa", "b"}, {"abababa", "aba", ""}, {"", "x", "y"}, {"none", "x", "y"}, {"x", "x", ""},
		{strings.Repeat("x", BufferSize-2) + "needle" + strings.Repeat("y", BufferSize-3) + "needle", "needle", "n"},
		{strings.Repeat("ab", BufferSize), "ba", "c"},
	} {
		want := strings.ReplaceAll(c.text, c.before, c.after)
		var got bytes.Buffer
		count, err := replaceAll(context.Background(), &got, strings.NewReader(c.text), []byte(c.before), []byte(c.after))
		if err != nil || got.String() != want || count != strings.Count(c.text, c.before) {
			t.Errorf("%.20q: %d times, %v, %d bytes, want %d", c.text, count, err, got.Len(), len(want))
		}
		if len(c.text) < 100 {
			got.Reset()
			_, err := replaceAll(context.Background(), &got, iotest.OneByteReader(strings.NewReader(c.text)), []byte(c.before), []byte(c.after))
			if err != nil || got.String() != want {
				t.Errorf("%q byte for byte: %q, %v", c.text, got.String(), err)
			}
		}
	}
}

func TestReplacingKeepsTheModeAndTouchesNothingWithoutAMatch(t *testing.T) {
	dir := tempDir(t)
	path := write(t, dir+"/file", "a cat and a cat")
	os.Chmod(path, 0o600)
	if n, err := Replace(context.Background(), path, []byte("cat"), []byte("dog")); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	before, _ := os.Stat(path)
	if n, err := Replace(context.Background(), path, []byte("cat"), []byte("dog")); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	after, _ := os.Stat(path)
	if !os.SameFile(before, after) || after.Mode() != 0o600 || read(t, path) != "a dog and a dog" || len(names(t, dir)) != 1 {
		t.Errorf("became %v %q, beside it %v", after.Mode(), read(t, path), names(t, dir))
	}
	for path, want := range map[string]error{dir + "/gone": ErrNotFound, path + "/below": ErrNotFound, dir: ErrIsDirectory} {
		if _, err := Replace(context.Background(), path, []byte("a"), nil); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestChecksumsAreTheWellKnownOnes(t *testing.T) {
	path := write(t, tempDir(t)+"/file", "abc")
	for algorithm, want := range map[string]string{
		"md5":    "900150983cd24fb0d6963f7d28e17f72",
		"sha1":   "a9993e364706816aba3e25717850c26c9cd0d89d",
		"sha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	} {
		if got, err := ChecksumOf(context.Background(), path, algorithm); err != nil || got != (Checksum{algorithm, want, 3}) {
			t.Errorf("%s: %v, %v", algorithm, got, err)
		}
	}
	if _, err := ChecksumOf(context.Background(), path, "crc32"); !errors.Is(err, ErrAlgorithm) {
		t.Errorf("an unknown algorithm: %v", err)
	}
}

func TestTheSizeOfADownloadIsTrueAlsoForFilesOfTheKernel(t *testing.T) {
	for path, isSized := range map[string]bool{"/proc/self/status": true, "/proc/self/smaps": false, write(t, tempDir(t)+"/f", "abc"): true} {
		d, err := OpenDownload(path)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var content bytes.Buffer
		if isSized != (d.Size >= 0) {
			t.Fatalf("%s: size %d", path, d.Size)
		}
		if isSized {
			err = d.CopyRange(context.Background(), &content, Range{0, d.Size})
		} else {
			err = d.CopyAll(context.Background(), &content)
		}
		if err != nil || content.Len() == 0 || isSized && int64(content.Len()) != d.Size {
			t.Errorf("%s: %d bytes, %v", path, content.Len(), err)
		}
	}
}
