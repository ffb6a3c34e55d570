// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"archive/tar"
	"bytes"
	"os"
	"strings"
	"testing"
)

func TestADirectoryGoesOutAndComesBack(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	writeFile(t, dir+"/from/sub/file", strings.Repeat("content", 100_000))
	os.Symlink("sub", dir+"/from/link")
	response, body := d.call("GET", at("/directories/archive", dir+"/from"), "")
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/x-tar" {
		t.Fatalf("got %d %v", response.StatusCode, response.Header)
	}
	head, nothing := d.call("HEAD", at("/directories/archive", dir+"/from"), "")
	if head.StatusCode != 200 || nothing != "" {
		t.Errorf("HEAD: %d, %d bytes", head.StatusCode, len(nothing))
	}
	response, answer := d.call("POST", at("/directories/archive", dir+"/to"), body)
	wantEmpty200(t, "extract", response, answer)
	if readFile(t, dir+"/to/link/file") != readFile(t, dir+"/from/sub/file") {
		t.Error("the content changed")
	}
}

func TestWhatIsNoDirectoryIsNotArchived(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	writeFile(t, dir+"/file", "")
	for _, method := range []string{"GET", "POST"} {
		response, body := d.call(method, at("/directories/archive", dir+"/file"), "")
		wantError(t, method+" a file", response, body, 400, CodeInvalidFile)
	}
	response, body := d.call("GET", at("/directories/archive", dir+"/none"), "")
	wantError(t, "a missing directory", response, body, 404, CodeFileNotFound)
}

func TestAHostileEntryIsNamedInTheAnswer(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	for _, header := range []tar.Header{
		{Name: "../outside", Typeflag: tar.TypeReg}, {Name: "/outside", Typeflag: tar.TypeReg},
		{Name: "outside", Typeflag: tar.TypeChar}, {Name: "outside", Typeflag: tar.TypeFifo},
	} {
		var archive bytes.Buffer
		w := tar.NewWriter(&archive)
		if err := w.WriteHeader(&header); err != nil {
			t.Fatal(err)
		}
		w.Close()
		response, body := d.call("POST", at("/directories/archive", dir+"/into"), archive.String())
		wantError(t, header.Name, response, body, 400, CodeInvalidFile)
		if !strings.Contains(body, header.Name) {
			t.Errorf("the answer does not name it: %s", body)
		}
	}
	response, body := d.call("POST", at("/directories/archive", dir+"/into"), "this is no archive")
	wantError(t, "no archive", response, body, 400, CodeInvalidContent)
	if entries, _ := os.ReadDir(dir); len(entries) > 1 {
		t.Errorf("there is %v", entries)
	}
}
