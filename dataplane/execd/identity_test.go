// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// ownIDs is the identity of the test itself, as a part of a path.
func ownIDs() string { return fmt.Sprintf("%d/%d", os.Geteuid(), os.Getegid()) }

// publicDir is a directory that everybody may reach and write to.
func publicDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "execd-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestFilesAreMadeAndReadAsTheIdentityInThePath(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: only root can act as another user")
	}
	d, dir := startDaemon(t, ""), publicDir(t)
	os.Chmod(writeFile(t, dir+"/secret", "x"), 0o600)
	const as = "/v1/filesystem/1234/4321"
	response, body := d.call("POST", as+"/files/upload", formMetadata(dir+"/sub/file")+formPart("file", "1")+formEnd, "Content-Type", formType)
	wantEmpty200(t, "upload", response, body)
	response, body = d.call("POST", as+"/directories", `{"`+dir+`/made":{"mode":755}}`)
	wantEmpty200(t, "make", response, body)
	for _, name := range []string{"/sub", "/sub/file", "/made"} {
		st, err := os.Stat(dir + name)
		if err != nil {
			t.Fatal(err)
		}
		if owner := st.Sys().(*syscall.Stat_t); owner.Uid != 1234 || owner.Gid != 4321 {
			t.Errorf("%s belongs to %d:%d", name, owner.Uid, owner.Gid)
		}
	}
	for _, target := range []string{"GET /files/download", "GET /files/checksum"} {
		method, path, _ := strings.Cut(target, " ")
		response, body = d.call(method, at(as+path, dir+"/secret"), "")
		wantError(t, target, response, body, 500, CodeRuntime)
	}
	response, body = d.call("POST", as+"/files/replace", `{"`+dir+`/secret":{"old":"x","new":"y"}}`)
	wantError(t, "replace", response, body, 500, CodeRuntime)
	if response, body = d.call("GET", at("/files/download", dir+"/secret"), ""); body != "x" {
		t.Errorf("the daemon itself: %d %s", response.StatusCode, body)
	}
}

func TestAnIdentityThatCannotBeIsRefused(t *testing.T) {
	d := startDaemon(t, "")
	for _, ids := range []string{"-1/0", "0/x", "4294967295/0", "0/4294967295", "1.5/0", "+1/0", "99999999999999999999/0"} {
		response, body := d.call("GET", at("/v1/filesystem/"+ids+"/files/info", "/tmp"), "")
		wantError(t, ids, response, body, 400, CodeInvalidBody)
	}
	if os.Geteuid() != 0 {
		response, body := d.call("GET", at("/v1/filesystem/0/0/files/info", "/tmp"), "")
		wantError(t, "root for an ordinary user", response, body, 500, CodeRuntime)
	}
}
