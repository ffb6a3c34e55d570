// SPDX-License-Identifier: Apache-2.0

package files

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, header := range entries {
		if header.Mode == 0 {
			header.Mode = 0o644
		}
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len("evil"))
		}
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			io.WriteString(w, "evil")
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func extract(dir string, archive []byte) error {
	return Extract(context.Background(), dir, bytes.NewReader(archive))
}

func TestADirectoryComesBackAsItWas(t *testing.T) {
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		write(t, dir+"/from/sub/file", "content")
		write(t, dir+"/from/"+strings.Repeat("long", 40), strings.Repeat("x", 3*BufferSize+5))
		write(t, dir+"/from/empty", "")
		os.Chmod(dir+"/from/sub/file", 0o4751)
		symlink(t, "sub/file", dir+"/from/link")
		fifo(t, dir+"/from/fifo")
		at := time.Unix(1_000_000_000, 123456000)
		os.Chtimes(dir+"/from/sub/file", at, at)
		os.Chmod(dir+"/from/sub", 0o555)
		os.Chtimes(dir+"/from/sub", at, at)
		source, err := OpenDirectory(dir + "/from")
		if err != nil {
			t.Fatal(err)
		}
		defer source.Close()
		var out bytes.Buffer
		if err := Archive(context.Background(), &out, source); err != nil {
			t.Fatal(err)
		}
		var zipped bytes.Buffer
		zip := gzip.NewWriter(&zipped)
		zip.Write(out.Bytes())
		zip.Close()
		for _, body := range [][]byte{out.Bytes(), zipped.Bytes(), out.Bytes()} { // the last over what is there
			if err := extract(dir+"/to/there", body); err != nil {
				t.Fatal(err)
			}
			want := slices.DeleteFunc(names(t, dir+"/from"), func(name string) bool { return name == "fifo" })
			if got := names(t, dir+"/to/there"); !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
			os.Chmod(dir+"/to/there/sub", 0o755)
		}
		os.Chmod(dir+"/from/sub", 0o755)
		if read(t, dir+"/to/there/sub/file") != "content" || read(t, dir+"/to/there/link") != "content" {
			t.Error("the content changed")
		}
		info, _ := Stat(dir+"/to/there/sub/file", NewNames())
		if info.Mode != 751 || !info.ModifiedAt.Equal(at) {
			t.Errorf("the file became %+v", info)
		}
		if info, _ := Stat(dir+"/to/there/sub", NewNames()); !info.ModifiedAt.Equal(at) {
			t.Errorf("the directory became %+v", info)
		}
	})
}

func TestAnArchiveStaysValidWhenAFileShrinks(t *testing.T) {
	dir := tempDir(t)
	path := write(t, dir+"/a", strings.Repeat("x", 4*BufferSize))
	write(t, dir+"/b", "after")
	source, err := OpenDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	var out bytes.Buffer
	shrink := writerFunc(func(p []byte) (int, error) {
		os.Truncate(path, 10)
		return out.Write(p)
	})
	if err := Archive(context.Background(), shrink, source); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&out)
	for _, name := range []string{"a", "b"} {
		header, err := r.Next()
		if err != nil || header.Name != name {
			t.Fatalf("got %v, %v", header, err)
		}
	}
	if content, _ := io.ReadAll(r); string(content) != "after" {
		t.Errorf("got %q", content)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestAHostileArchiveIsRefusedAndWritesNothingOutside(t *testing.T) {
	file := func(name string) tar.Header { return tar.Header{Name: name, Typeflag: tar.TypeReg} }
	link := func(name, to string) tar.Header {
		return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeSymlink}
	}
	hard := func(name, to string) tar.Header {
		return tar.Header{Name: name, Linkname: to, Typeflag: tar.TypeLink}
	}
	withBothResolvers(t, func(t *testing.T) {
		dir := tempDir(t)
		write(t, dir+"/precious", "precious")
		for name, entries := range map[string][]tar.Header{
			"absolute":                {file("/absolute-name")},
			"up":                      {file("../up")},
			"up inside":               {file("a/../../up")},
			"up directory":            {{Name: "../dir/", Typeflag: tar.TypeDir, Mode: 0o755}},
			"device":                  {{Name: "dev", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
			"block device":            {{Name: "dev", Typeflag: tar.TypeBlock}},
			"fifo":                    {{Name: "fifo", Typeflag: tar.TypeFifo}},
			"through a link":          {link("link", ".."), file("link/up")},
			"through an absolute one": {link("link", dir), file("link/up")},
			"directory over a link":   {link("link", ".."), {Name: "link/", Typeflag: tar.TypeDir, Mode: 0o777}},
			"below a link":            {link("link", ".."), {Name: "link/x/", Typeflag: tar.TypeDir, Mode: 0o777}},
			"hard link up":            {hard("hard", "../precious")},
			"hard link absolute":      {hard("hard", dir+"/precious")},
			"hard link over a link":   {link("link", ".."), hard("hard", "link/precious")},
			"hard link to a link":     {link("link", "../precious"), hard("hard", "link"), file("hard")},
			"hard link to nothing":    {hard("hard", "gone")},
			"file below a file":       {file("a"), file("a/b")},
			"the directory itself":    {file(".")},
		} {
			err := extract(dir+"/into", archive(t, entries...))
			last := entries[len(entries)-1].Name
			if !errors.Is(err, ErrArchiveEntry) || !strings.Contains(err.Error(), last) && name != "hard link to a link" {
				t.Errorf("%s: %v", name, err)
			}
			os.RemoveAll(dir + "/into")
		}
		if got := names(t, dir); !slices.Equal(got, []string{"precious"}) || read(t, dir+"/precious") != "precious" {
			t.Errorf("there is %v", got)
		}
	})
}

func TestAnEntryReplacesALinkAndDoesNotFollowIt(t *testing.T) {
	dir := tempDir(t)
	write(t, dir+"/precious", "precious")
	os.Mkdir(dir+"/into", 0o755)
	symlink(t, "../precious", dir+"/into/link")
	if err := extract(dir+"/into", archive(t, tar.Header{Name: "link", Typeflag: tar.TypeReg, Mode: 0o6755})); err != nil {
		t.Fatal(err)
	}
	if st, _ := os.Lstat(dir + "/into/link"); st.Mode() != 0o755 {
		t.Errorf("mode %v", st.Mode())
	}
	if read(t, dir+"/precious") != "precious" || read(t, dir+"/into/link") != "evil" {
		t.Error("the entry went through the link")
	}
}

func TestHardLinksWithinTheArchiveAreKept(t *testing.T) {
	dir := tempDir(t)
	body := archive(t, tar.Header{Name: "./a/file", Typeflag: tar.TypeReg}, tar.Header{Name: "b/same", Linkname: "./a/file", Typeflag: tar.TypeLink})
	for range 2 {
		if err := extract(dir, body); err != nil {
			t.Fatal(err)
		}
	}
	one, _ := os.Stat(dir + "/a/file")
	two, _ := os.Stat(dir + "/b/same")
	if !os.SameFile(one, two) || len(names(t, dir)) != 4 {
		t.Errorf("there is %v", names(t, dir))
	}
}

func TestABodyThatIsNoArchiveIsRefused(t *testing.T) {
	dir := tempDir(t)
	whole := archive(t, tar.Header{Name: "f", Typeflag: tar.TypeReg})
	for name, body := range map[string][]byte{
		"noise": bytes.Repeat([]byte("noise"), 500), "short": {0}, "gzip of nothing": {0x1f, 0x8b, 0}, "cut": whole[:514],
	} {
		if err := extract(dir, body); !errors.Is(err, ErrArchive) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := names(t, dir); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	write(t, dir+"/file", "")
	if err := extract(dir+"/file", whole); !errors.Is(err, ErrNotDirectory) {
		t.Errorf("into a file: %v", err)
	}
}

// FuzzExtract checks that whatever two entries say, and whatever bytes follow them, nothing outside
// the directory changes.
func FuzzExtract(f *testing.F) {
	f.Add(byte(tar.TypeReg), "a/b", "", byte(tar.TypeDir), "a/", "", []byte{})
	f.Add(byte(tar.TypeSymlink), "l", "..", byte(tar.TypeReg), "l/x", "", []byte("x"))
	f.Add(byte(tar.TypeSymlink), "l", "../beside", byte(tar.TypeReg), "l", "", []byte{})
	f.Add(byte(tar.TypeSymlink), "l", "/", byte(tar.TypeDir), "l/tmp/x", "", []byte{})
	f.Add(byte(tar.TypeDir), "d/", "", byte(tar.TypeLink), "h", "d/../../beside", []byte{})
	f.Add(byte(tar.TypeReg), "../up", "", byte(tar.TypeReg), "/up", "", bytes.Repeat([]byte{0}, 512))
	f.Add(byte(tar.TypeChar), "dev", "", byte(tar.TypeFifo), "fifo", "", []byte{0x1f, 0x8b})
	f.Fuzz(func(t *testing.T, kind1 byte, name1, link1 string, kind2 byte, name2, link2 string, tail []byte) {
		var body bytes.Buffer
		w := tar.NewWriter(&body)
		_ = w.WriteHeader(&tar.Header{Typeflag: kind1, Name: name1, Linkname: link1, Mode: 0o755}) // what cannot be
		_ = w.WriteHeader(&tar.Header{Typeflag: kind2, Name: name2, Linkname: link2, Mode: 0o755}) // said is left out
		body.Write(tail)
		dir := tempDir(t)
		write(t, dir+"/beside", "precious")
		_ = Extract(context.Background(), dir+"/into", &body)
		entries, err := os.ReadDir(dir)
		if err != nil || len(entries) > 2 || read(t, dir+"/beside") != "precious" {
			t.Fatalf("beside it there is %v, %v", entries, err)
		}
		if st, err := os.Lstat(dir + "/beside"); err != nil || st.Mode() != 0o644 {
			t.Fatalf("the file beside it became %v, %v", st, err)
		}
	})
}

// FuzzArchive checks that no bytes break the extraction or get out of the directory.
func FuzzArchive(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "a", Typeflag: tar.TypeReg})[:1024])
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	f.Fuzz(func(t *testing.T, body []byte) {
		dir := tempDir(t)
		_ = extract(dir+"/into", body)
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 1 {
			t.Fatalf("beside it there is %v, %v", entries, err)
		}
	})
}
