// SPDX-License-Identifier: Apache-2.0

package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"strings"
	"testing"
	"testing/iotest"
)

type readPart struct{ name, fileName, content string }

func readParts(source io.Reader, boundary string) ([]readPart, error) {
	m, err := NewMultipart(source, boundary)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	var parts []readPart
	for {
		part, err := m.Next()
		if errors.Is(err, io.EOF) {
			return parts, nil
		}
		if err != nil {
			return parts, err
		}
		var content bytes.Buffer
		if _, err := m.WriteTo(&content); err != nil {
			return parts, err
		}
		parts = append(parts, readPart{part.Name, part.FileName, content.String()})
	}
}

func part(name, content string) string {
	return fmt.Sprintf("--b\r\nContent-Disposition: form-data; name=%q; filename=\"f\"\r\n\r\n%s\r\n", name, content)
}

func TestPartsComeOutAsTheyWentIn(t *testing.T) {
	random := rand.NewPCG(1, 2)
	contents := []string{"", "x", "\r\n", "\r\n--", "\r\n--b", "\r\n--bX\r\n", "\r\n--b \t\tx", "--b--", strings.Repeat("\r\n--", 1000)}
	for _, size := range []int{1000, BufferSize - 1, BufferSize, BufferSize + 1, 3*BufferSize + 7} {
		content := make([]byte, size)
		for i := range content {
			content[i] = "\r\n-b0"[random.Uint64()%5]
		}
		contents = append(contents, strings.ReplaceAll(string(content), "\r\n--b", "\r\n-+b"))
	}
	var body bytes.Buffer
	for _, content := range contents {
		content = strings.ReplaceAll(content, "\r\n--b\r\n", "")
		body.WriteString(part("file", strings.TrimSuffix(content, "\r\n--b")))
	}
	body.WriteString("--b--\r\n")
	for name, source := range map[string]io.Reader{
		"at once":         bytes.NewReader(body.Bytes()),
		"halves":          iotest.HalfReader(bytes.NewReader(body.Bytes())),
		"data with error": iotest.DataErrReader(bytes.NewReader(body.Bytes())),
	} {
		parts, err := readParts(source, "b")
		if err != nil || len(parts) != len(contents) {
			t.Fatalf("%s: %d of %d parts, %v", name, len(parts), len(contents), err)
		}
		for i, p := range parts {
			if want := strings.TrimSuffix(contents[i], "\r\n--b"); p.content != want || p.name != "file" || p.fileName != "f" {
				t.Errorf("%s: part %d has %d bytes, want %d", name, i, len(p.content), len(want))
			}
		}
	}
}

func TestSmallPartsSurviveReadingByteForByte(t *testing.T) {
	body := "preamble\r\n" + part("a", "one\r\n--bb\r\n-") + part("b", "") + "--b--\r\nepilogue"
	parts, err := readParts(iotest.OneByteReader(strings.NewReader(body)), "b")
	want := []readPart{{"a", "f", "one\r\n--bb\r\n-"}, {"b", "f", ""}}
	if err != nil || fmt.Sprint(parts) != fmt.Sprint(want) {
		t.Errorf("got %q, %v", parts, err)
	}
}

func TestAPartThatIsNotReadIsPassedOver(t *testing.T) {
	m, err := NewMultipart(strings.NewReader(part("a", strings.Repeat("x", 2*BufferSize))+part("b", "y")+"--b--"), "b")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, name := range []string{"a", "b"} {
		if p, err := m.Next(); err != nil || p.Name != name {
			t.Errorf("got %v, %v", p, err)
		}
	}
	if _, err := m.Next(); err != io.EOF {
		t.Errorf("after the last part: %v", err)
	}
}

func TestAMalformedBodyIsRefused(t *testing.T) {
	for name, body := range map[string]string{
		"empty":              "",
		"no boundary":        "hello",
		"no end":             part("a", "x"),
		"cut in content":     part("a", "x")[:60],
		"cut in header":      "--b\r\nContent-Dispo",
		"cut after boundary": "--b",
		"no header":          "--b\r\n\r\nx\r\n--b--",
		"bad header":         "--b\r\nnonsense\r\n\r\nx\r\n--b--",
		"no disposition":     "--b\r\nContent-Type: text/plain\r\n\r\nx\r\n--b--",
		"long header":        "--b\r\nX: " + strings.Repeat("x", maxPartHeader+1) + "\r\n\r\nx\r\n--b--",
		"long preamble":      strings.Repeat("x", maxAround+1) + "\r\n--b--",
		"long epilogue":      part("a", "x") + "--b--" + strings.Repeat("x", 2*BufferSize),
	} {
		if _, err := readParts(strings.NewReader(body), "b"); !errors.Is(err, ErrMultipart) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, boundary := range []string{"", strings.Repeat("b", 71)} {
		if _, err := NewMultipart(strings.NewReader(""), boundary); !errors.Is(err, ErrMultipart) {
			t.Errorf("boundary %q: %v", boundary, err)
		}
	}
	broken := io.MultiReader(strings.NewReader(part("a", "x")), iotest.ErrReader(io.ErrUnexpectedEOF))
	if _, err := readParts(broken, "b"); !errors.Is(err, ErrMultipart) {
		t.Errorf("a lost connection: %v", err)
	}
}

// FuzzMultipart checks that no body breaks the reader, that the way it arrives does not matter, and
// that what the standard library writes is read back.
func FuzzMultipart(f *testing.F) {
	f.Add([]byte(part("metadata", "{}")+part("file", "x\r\n--b")+"--b--\r\n"), []byte("content"))
	f.Add([]byte("--b \t\r\nContent-Disposition: form-data; name=a\r\n\r\n\r\n--b--"), []byte("\r\n--b"))
	f.Add([]byte("--b--"), []byte{})
	f.Add([]byte("--b\r\n\r\n--b\r\n"), []byte{0, 13, 10})
	f.Fuzz(func(t *testing.T, body, content []byte) {
		whole, err := readParts(bytes.NewReader(body), "b")
		slow, slowErr := readParts(iotest.OneByteReader(bytes.NewReader(body)), "b")
		if fmt.Sprint(whole) != fmt.Sprint(slow) || (err == nil) != (slowErr == nil) {
			t.Fatalf("at once %q, %v; byte for byte %q, %v", whole, err, slow, slowErr)
		}
		var good bytes.Buffer
		w := multipart.NewWriter(&good)
		p, _ := w.CreateFormFile("file", "f")
		p.Write(content)
		w.Close()
		parts, err := readParts(&good, w.Boundary())
		if err != nil || len(parts) != 1 || parts[0].content != string(content) {
			t.Fatalf("read %q, %v", parts, err)
		}
	})
}
