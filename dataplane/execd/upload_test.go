// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const formType = "multipart/form-data; boundary=b"

func formPart(name, content string) string {
	return fmt.Sprintf("--b\r\nContent-Disposition: form-data; name=%q; filename=%q\r\n\r\n%s\r\n", name, name, content)
}

func formMetadata(path string) string {
	return formPart("metadata", fmt.Sprintf(`{"path":%q,"owner":null,"group":null,"mode":640}`, path))
}

const formEnd = "--b--\r\n"

func TestPairsBecomeFiles(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	alternating := formMetadata(dir+"/a/one") + formPart("file", "1") + formMetadata(dir+"/two") + formPart("file", "2") + formEnd
	grouped := formMetadata(dir+"/a/one") + formMetadata(dir+"/two") + formPart("unknown", "x") + formPart("file", "1") + formPart("file", "2") + formEnd
	for _, form := range []string{alternating, grouped} {
		response, body := d.call("POST", "/files/upload", form, "Content-Type", formType)
		wantEmpty200(t, "upload", response, body)
		if readFile(t, dir+"/a/one") != "1" || readFile(t, dir+"/two") != "2" {
			t.Error("the wrong content")
		}
		if st, _ := os.Stat(dir + "/two"); st.Mode() != 0o640 {
			t.Errorf("mode %v", st.Mode())
		}
		os.RemoveAll(dir + "/a")
	}
}

func TestAnUploadMayComeInChunks(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	content := strings.Repeat("chunk", 100_000)
	request, _ := http.NewRequest("POST", "http://"+d.addr+"/files/upload",
		struct{ *strings.Reader }{strings.NewReader(formMetadata(dir+"/file") + formPart("file", content) + formEnd)})
	request.ContentLength = -1
	request.Header.Set("Content-Type", formType)
	response, err := d.client.Do(request)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("got %v, %v", response, err)
	}
	response.Body.Close()
	if readFile(t, dir+"/file") != content {
		t.Error("the wrong content")
	}
}

func TestFormsThatMakeNoSenseAreRefusedAndLeaveNothing(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	os.Mkdir(dir+"/dir", 0o755)
	writeFile(t, dir+"/old", "old")
	os.Symlink("old", dir+"/link")
	unix.Mkfifo(dir+"/fifo", 0o666)
	before, _ := os.ReadDir(dir)
	x, file := formMetadata(dir+"/new"), formPart("file", "x")
	for what, c := range map[string]struct{ form, code string }{
		"no parts":           {formEnd, CodeInvalidFile},
		"only metadata":      {x + formEnd, CodeInvalidFile},
		"only a file":        {file + formEnd, CodeInvalidFile},
		"file first":         {file + x + formEnd, CodeInvalidFile},
		"a file too many":    {x + file + file + formEnd, CodeInvalidFile},
		"metadata too many":  {x + x + file + formEnd, CodeInvalidFile},
		"cut in a file":      {x + formPart("file", "x")[:60], CodeInvalidContent},
		"no end":             {formMetadata(dir+"/old") + formPart("file", "new"), CodeInvalidContent},
		"no form":            {"hello", CodeInvalidContent},
		"bad JSON":           {formPart("metadata", "{") + file + formEnd, CodeInvalidMetadata},
		"no path":            {formPart("metadata", `{"mode":644}`) + file + formEnd, CodeInvalidMetadata},
		"bad mode":           {formPart("metadata", `{"path":"`+dir+`/new","mode":888}`) + file + formEnd, CodeInvalidMetadata},
		"bad owner":          {formPart("metadata", `{"path":"`+dir+`/new","owner":"nobody-at-all"}`) + file + formEnd, CodeInvalidMetadata},
		"metadata too large": {formPart("metadata", `{"path":"`+strings.Repeat("x", maxMetadata)+`"}`) + file + formEnd, CodeInvalidMetadata},
		"a directory":        {formMetadata(dir+"/dir") + file + formEnd, CodeInvalidFile},
		"a link":             {formMetadata(dir+"/link") + file + formEnd, CodeInvalidFile},
		"a FIFO":             {formMetadata(dir+"/fifo") + file + formEnd, CodeInvalidFile},
		"a device":           {formMetadata("/dev/null") + file + formEnd, CodeInvalidFile},
		"below a file":       {formMetadata(dir+"/old/x") + file + formEnd, CodeInvalidFile},
		"a magic link":       {formMetadata("/proc/self/cwd/x") + file + formEnd, CodeInvalidFile},
		"good and bad":       {x + file + formMetadata(dir+"/dir") + file + formEnd, CodeInvalidFile},
	} {
		response, body := d.call("POST", "/files/upload", c.form, "Content-Type", formType)
		wantError(t, what, response, body, 400, c.code)
	}
	for _, contentType := range []string{"", "application/json", "multipart/mixed; boundary=b"} {
		response, body := d.call("POST", "/files/upload", x+file+formEnd, "Content-Type", contentType)
		wantError(t, contentType, response, body, 400, CodeInvalidFile)
	}
	after, _ := os.ReadDir(dir)
	if len(after) != len(before) || readFile(t, dir+"/old") != "old" {
		t.Errorf("there is %v", after)
	}
}

// startUpload sends the head of an upload of size bytes over a unix socket and leaves the rest.
func startUpload(t *testing.T, d *daemon, path string, size int64) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	head := formMetadata(path) + "--b\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n"
	fmt.Fprintf(conn, "POST /files/upload HTTP/1.1\r\nHost: execd\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		formType, int64(len(head))+size+int64(len("\r\n"+formEnd)), head)
	return conn
}

func TestAClientThatGoesAwayLeavesTheOldFileAndNoOther(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	writeFile(t, dir+"/file", "old")
	conn := startUpload(t, d, dir+"/file", 1<<30)
	if _, err := conn.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	countFiles := func() int {
		entries, _ := os.ReadDir(dir)
		return len(entries)
	}
	waitFor(t, "the draft to be there", func() bool { return countFiles() == 2 })
	conn.Close()
	waitFor(t, "the draft to be gone", func() bool { return countFiles() == 1 })
	if got := readFile(t, dir+"/file"); got != "old" {
		t.Errorf("the file became %q", got)
	}
}

func waitFor(t *testing.T, what string, isSo func() bool) {
	t.Helper()
	for deadline := time.Now().Add(testTimeout); !isSo(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

func TestALargeUploadAndDownloadNeedLittleMemory(t *testing.T) {
	const size = 64 << 20
	d, path := startDaemon(t, ""), realDir(t)+"/large"
	block := []byte(strings.Repeat("0123456789\r\n--bc", 1<<16))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	conn := startUpload(t, d, path, size)
	for range size / len(block) {
		if _, err := conn.Write(block); err != nil {
			t.Fatal(err)
		}
	}
	fmt.Fprint(conn, "\r\n"+formEnd)
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("got %v, %v", response, err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.0\r\n\r\n", at("/files/download", path))
	received := 0
	for buf := make([]byte, 64<<10); ; {
		n, err := conn.Read(buf)
		received += n
		if err != nil {
			break
		}
	}
	runtime.ReadMemStats(&after)
	if received < size {
		t.Errorf("received %d bytes", received)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 8<<20 {
		t.Errorf("moving %d MiB allocated %d KiB", size>>20, allocated>>10)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != size {
		t.Errorf("the file is %v, %v", st, err)
	}
}
