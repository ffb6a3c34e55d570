// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAWholeFileHasItsHeaders(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	for name, disposition := range map[string]string{
		"plain.txt": `attachment; filename="plain.txt"`,
		`q"\`:       `attachment; filename="q\"\\"`,
		"naïve ü":   `attachment; filename="download"; filename*=UTF-8''na%C3%AFve%20%C3%BC`,
		"new\nline": `attachment; filename="download"; filename*=UTF-8''new%0Aline`,
	} {
		for _, content := range []string{"", "short", strings.Repeat("long", 100_000)} {
			writeFile(t, dir+"/"+name, content)
			for _, method := range []string{"GET", "HEAD"} {
				response, body := d.call(method, at("/files/download", dir+"/"+name), "")
				h := response.Header
				if response.StatusCode != 200 || response.ContentLength != int64(len(content)) || body != content && method == "GET" {
					t.Errorf("%s %q: %d, %d bytes of %d", method, name, response.StatusCode, len(body), len(content))
				}
				if h.Get("Content-Type") != "application/octet-stream" || h.Get("Content-Disposition") != disposition {
					t.Errorf("%s %q: %v", method, name, h)
				}
			}
		}
	}
}

func TestARangeIsAnsweredOverTCPAndUnixSockets(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	content := strings.Repeat("0123456789", 2000)
	path := writeFile(t, dir+"/file", content)
	for header, want := range map[string]string{
		"bytes=0-9": content[:10], "bytes=10000-": content[10000:], "bytes=-5": content[len(content)-5:], "bytes=3-4,9-9": content[3:5],
	} {
		response, body := d.call("GET", at("/files/download", path), "", "Range", header)
		start := strings.Index(content, want)
		if header == "bytes=10000-" || header == "bytes=-5" {
			start = len(content) - len(want)
		}
		wantRange := fmt.Sprintf("bytes %d-%d/%d", start, start+len(want)-1, len(content))
		if response.StatusCode != 206 || body != want || response.Header.Get("Content-Range") != wantRange {
			t.Errorf("%s: %d %v, %d bytes", header, response.StatusCode, response.Header, len(body))
		}
		response, body = raw(t, "unix", d.socket, "GET "+at("/files/download", path)+" HTTP/1.0\r\nRange: "+header+"\r\n\r\n")
		if response.StatusCode != 206 || body != want {
			t.Errorf("%s over a unix socket: %d, %d bytes", header, response.StatusCode, len(body))
		}
	}
	for _, header := range []string{"bytes=20000-", "bytes=5-2", "bytes=x", "bytes=-0"} {
		response, body := d.call("GET", at("/files/download", path), "", "Range", header)
		wantError(t, header, response, body, 416, CodeUnknown)
		if got := response.Header.Get("Content-Range"); got != "bytes */20000" {
			t.Errorf("%s: Content-Range %q", header, got)
		}
	}
	for _, headers := range [][]string{{"Range", "bytes=0-9", "If-Range", `"tag"`}, {"Range", "lines=1-2"}} {
		response, body := d.call("GET", at("/files/download", path), "", headers...)
		if response.StatusCode != 200 || body != content {
			t.Errorf("%v: %d, %d bytes", headers, response.StatusCode, len(body))
		}
	}
}

func TestLinesAreAnswered(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	path := writeFile(t, dir+"/file", "line1\nline2\nline3\nline4\n")
	for query, want := range map[string]string{
		"&offset=2&limit=2": "line2\nline3", "&offset=4": "line4", "&limit=1": "line1", "&offset=9": "", "&limit=99": "line1\nline2\nline3\nline4",
	} {
		response, body := d.call("GET", at("/files/download", path)+query, "")
		if response.StatusCode != 200 || body != want || !strings.HasPrefix(response.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %d %q", query, response.StatusCode, body)
		}
	}
	for _, query := range []string{"&offset=0", "&limit=0", "&offset=-1", "&limit=x", "&offset=", "&limit=1.5"} {
		response, body := d.call("GET", at("/files/download", path)+query, "")
		wantError(t, query, response, body, 400, CodeInvalidBody)
	}
	response, body := d.call("GET", at("/files/download", path)+"&limit=1", "", "Range", "bytes=0-1")
	wantError(t, "lines and range", response, body, 400, CodeInvalidBody)
}

func TestWhatIsNoFileIsNotDownloaded(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	unix.Mkfifo(dir+"/fifo", 0o666)
	os.Symlink("/proc/self/exe", dir+"/magic")
	os.Symlink("loop", dir+"/loop")
	for _, path := range []string{dir, dir + "/fifo", "/dev/zero", "/proc/self/exe", dir + "/magic", dir + "/loop"} {
		response, body := d.call("GET", at("/files/download", path), "")
		wantError(t, path, response, body, 400, CodeInvalidFile)
	}
	response, body := d.call("GET", at("/files/download", dir+"/none"), "")
	wantError(t, "a missing file", response, body, 404, CodeFileNotFound)
	response, body = d.call("GET", at("/files/download", "/proc/self/status"), "")
	if response.StatusCode != 200 || !strings.Contains(body, "Pid:") {
		t.Errorf("a file of the kernel: %d %q", response.StatusCode, body)
	}
}

func TestAFileThatShrinksCutsTheAnswer(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	for _, network := range []string{"tcp", "unix"} {
		path := writeFile(t, dir+"/file", strings.Repeat("x", 32<<20))
		address := map[string]string{"tcp": d.addr, "unix": d.socket}[network]
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: execd\r\n\r\n", at("/files/download", path))
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.ContentLength != 32<<20 {
			t.Fatalf("got %v, %v", response, err)
		}
		os.Truncate(path, 0)
		n, err := io.Copy(io.Discard, response.Body)
		if err != io.ErrUnexpectedEOF || n >= 32<<20 {
			t.Errorf("%s: got %d bytes, %v", network, n, err)
		}
		conn.Close()
	}
}
