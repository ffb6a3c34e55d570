// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"testing"
)

type change struct {
	Type, Path string
	Timestamp  int64
}

// openWatch starts a watch and returns a function that waits for a frame of a kind about a path.
func openWatch(t *testing.T, d *daemon, target string) (*http.Response, func(kind, path string)) {
	t.Helper()
	response, err := d.client.Get("http://" + d.addr + target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("got %d %v", response.StatusCode, response.Header)
	}
	lines := bufio.NewScanner(response.Body)
	return response, func(kind, path string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == "" {
				continue
			}
			var c change
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil || c.Timestamp == 0 {
				t.Fatalf("frame %q: %v", lines.Text(), err)
			}
			if c.Type == kind && c.Path == path {
				return
			}
		}
		t.Fatalf("the stream ended before %s of %s", kind, path)
	}
}

func TestChangesAreStreamed(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	for _, prefix := range []string{"", "/v1/filesystem/" + ownIDs()} {
		response, want := openWatch(t, d, at(prefix+"/files/watch", dir)+"&recursive=true")
		want("ready", dir)
		writeFile(t, dir+"/sub/file", "x")
		want("create", dir+"/sub/file")
		os.RemoveAll(dir + "/sub")
		want("remove", dir+"/sub")
		response.Body.Close()
	}
}

func TestAWatchEndsWhenItsDirectoryIsRemoved(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	os.Mkdir(dir+"/watched", 0o755)
	response, want := openWatch(t, d, at("/files/watch", dir+"/watched"))
	want("ready", dir+"/watched")
	os.Remove(dir + "/watched")
	want("remove", dir+"/watched")
	if n, err := response.Body.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("the stream goes on")
	}
}

func TestShutdownEndsAWatchOfFiles(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	response, want := openWatch(t, d, at("/files/watch", dir))
	want("ready", dir)
	d.connections.closeAll()
	if _, err := io.ReadAll(response.Body); err != nil {
		t.Errorf("the stream was cut: %v", err)
	}
}

func TestAWatchThatCannotBeginIsAnError(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	response, body := d.call("GET", at("/files/watch", dir+"/none"), "")
	wantError(t, "a missing path", response, body, 404, CodeFileNotFound)
	response, body = d.call("GET", at("/files/watch", dir)+"&recursive=maybe", "")
	wantError(t, "recursive", response, body, 400, CodeInvalidBody)
	if response, _ := d.call("HEAD", at("/files/watch", dir), ""); response.StatusCode != 200 {
		t.Errorf("HEAD: %d", response.StatusCode)
	}
}
