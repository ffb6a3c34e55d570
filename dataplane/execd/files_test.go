// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// realDir is a temporary directory by its real path: changes refuse links.
func realDir(t testing.TB) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func writeFile(t testing.TB, path, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// at is a route with the query path, repeated.
func at(route string, paths ...string) string {
	return route + "?" + url.Values{"path": paths}.Encode()
}

func wantEmpty200(t *testing.T, what string, response *http.Response, body string) {
	t.Helper()
	if response.StatusCode != http.StatusOK || body != "" {
		t.Errorf("%s: got %d %s", what, response.StatusCode, body)
	}
}

func TestInfoAnswersInTheOrderAndWordsOfTheRequest(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	writeFile(t, dir+"/z", "hello")
	os.Chmod(dir+"/z", 0o640)
	os.Symlink("gone", dir+"/a")
	t.Setenv("HOME", dir)
	response, body := d.call("GET", at("/files/info", dir+"/z", dir+"/../"+filepath.Base(dir)+"/a", dir+"/z"), "")
	if response.StatusCode != 200 || strings.Index(body, dir+"/z") > strings.Index(body, "/a\"") {
		t.Fatalf("got %d %s", response.StatusCode, body)
	}
	var infos map[string]map[string]any
	if err := json.Unmarshal([]byte(body), &infos); err != nil || len(infos) != 2 {
		t.Fatalf("got %s, %v", body, err)
	}
	if z := infos[dir+"/z"]; z["size"] != 5.0 || z["mode"] != 640.0 || z["type"] != "file" || z["path"] != dir+"/z" {
		t.Errorf("got %v", z)
	}
	response, body = d.call("GET", at("/files/info", dir+"/z", dir+"/none"), "")
	wantError(t, "a missing path", response, body, 404, CodeFileNotFound)
}

func TestEveryFileRouteRefusesABadPath(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	for _, route := range []string{
		"GET /files/info", "DELETE /files", "GET /files/search", "GET /files/download", "GET /files/checksum", "GET /files/watch",
		"GET /directories/list", "DELETE /directories", "GET /directories/archive", "POST /directories/archive",
	} {
		method, path, _ := strings.Cut(route, " ")
		for _, prefix := range []string{"", "/v1/filesystem/" + ownIDs()} {
			response, body := d.call(method, prefix+path, "")
			wantError(t, route+" without path", response, body, 400, CodeMissingQuery)
			response, body = d.call(method, at(prefix+path, ""), "")
			wantError(t, route+" with an empty path", response, body, 400, CodeMissingQuery)
			for _, bad := range []string{"a\x00b", "$NO_SUCH_VARIABLE/x", dir + "/" + strings.Repeat("x", 300)} {
				response, body = d.call(method, at(prefix+path, bad), "")
				wantError(t, route+" with "+bad, response, body, 400, CodeInvalidFile)
			}
			response, body = d.call(method, at(prefix+path, "/proc/self/root/tmp"), "")
			if path != "/files/info" {
				wantError(t, route+" with a magic link", response, body, 400, CodeInvalidFile)
			}
		}
	}
	response, body := d.call("GET", at("/files/info", "/proc/self/root/tmp"), "")
	wantError(t, "info behind a magic link", response, body, 400, CodeInvalidFile)
}

func TestBodiesThatMakeNoSenseAreRefused(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	file := writeFile(t, dir+"/file", "x")
	quoted := `"` + file + `"`
	for route, bodies := range map[string][]string{
		"/files/permissions": {"", "null", "[]", "{", `{} {}`, `{` + quoted + `:null}`, `{` + quoted + `:{}}`, `{` + quoted + `:{"mode":"644"}}`,
			`{` + quoted + `:{"mode":9}}`, `{` + quoted + `:{"mode":0,"owner":"nobody-at-all"}}`, `{` + quoted + `:{"mode":0,"group":5}}`},
		"/directories":   {"", "null", `{"` + dir + `/new":{"mode":8}}`, `{"` + dir + `/new":{}}`},
		"/files/mv":      {"", "null", "{}", "[{}]", `[{"src":` + quoted + `}]`, "[null]"},
		"/files/replace": {"", "null", "[]", `{` + quoted + `:{"old":""}}`, `{` + quoted + `:{"new":"x"}}`, `{` + quoted + `:null}`},
	} {
		for _, bad := range bodies {
			response, body := d.call("POST", route, bad)
			wantError(t, route+" "+bad, response, body, 400, CodeInvalidBody)
		}
	}
	response, body := d.call("POST", "/files/replace?verbose=maybe", "{}")
	wantError(t, "verbose", response, body, 400, CodeInvalidBody)
	response, body = d.call("POST", "/files/permissions", `{"":{"mode":644}}`)
	wantError(t, "an empty path", response, body, 400, CodeInvalidFile)
	if entries, _ := os.ReadDir(dir); len(entries) != 1 || readFile(t, file) != "x" {
		t.Errorf("something changed: %v", entries)
	}
}

func TestPermissionsMoveReplaceAndDelete(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	file := writeFile(t, dir+"/file", "a cat")
	response, body := d.call("POST", "/files/permissions", `{"`+file+`":{"mode":604,"owner":null,"group":""}}`)
	wantEmpty200(t, "permissions", response, body)
	if st, _ := os.Stat(file); st.Mode() != 0o604 {
		t.Errorf("mode %v", st.Mode())
	}
	response, body = d.call("POST", "/files/permissions", `{"`+dir+`/none":{"mode":604}}`)
	wantError(t, "permissions of nothing", response, body, 404, CodeFileNotFound)

	response, body = d.call("POST", "/files/replace", `{"`+file+`":{"old":"cat","new":"dog"}}`)
	wantEmpty200(t, "replace", response, body)
	response, body = d.call("POST", "/files/replace?verbose=true", `{"`+file+`":{"old":"dog","new":"cat"}}`)
	if response.StatusCode != 200 || strings.TrimSpace(body) != `{"`+file+`":{"replacedCount":1}}` {
		t.Errorf("verbose replace: %d %s", response.StatusCode, body)
	}
	response, body = d.call("POST", "/files/replace", `{"`+dir+`/none":{"old":"a"}}`)
	wantError(t, "replace in nothing", response, body, 404, CodeFileNotFound)

	response, body = d.call("POST", "/files/mv", `[{"src":"`+file+`","dest":"`+dir+`/a/b/file"}]`)
	wantEmpty200(t, "move", response, body)
	writeFile(t, file, "again")
	response, body = d.call("POST", "/files/mv", `[{"src":"`+file+`","dest":"`+dir+`/a/b/file"}]`)
	wantError(t, "move onto a file", response, body, 500, CodeRuntime)
	response, body = d.call("POST", "/files/mv", `[{"src":"`+dir+`/none","dest":"`+dir+`/x"}]`)
	wantError(t, "move of nothing", response, body, 404, CodeFileNotFound)

	response, body = d.call("DELETE", at("/files", file, dir+"/none", dir+"/a/b/file"), "")
	wantEmpty200(t, "delete", response, body)
	response, body = d.call("DELETE", at("/files", dir+"/a"), "")
	wantError(t, "delete of a directory", response, body, 500, CodeRuntime)
}

func TestAChangeThroughALinkNamesTheLinkAndTheRealPath(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	writeFile(t, dir+"/real/file", "x")
	os.Symlink("real", dir+"/link")
	for method, target := range map[string]string{"DELETE": at("/files", dir+"/link/file"), "POST": at("/directories/archive", dir+"/link")} {
		response, body := d.call(method, target, "")
		wantError(t, target, response, body, 400, CodeInvalidFile)
		if !strings.Contains(body, dir+"/link") || !strings.Contains(body, dir+"/real") {
			t.Errorf("%s: %s", target, body)
		}
	}
	if readFile(t, dir+"/real/file") != "x" {
		t.Error("it went through")
	}
}

func TestSearchFindsByBaseName(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	for i := range 3000 { // more than one buffer of JSON
		writeFile(t, dir+"/d/"+strings.Repeat("x", i%50)+string(rune('a'+i%26))+".txt", "")
	}
	writeFile(t, dir+"/one.md", "")
	response, body := d.call("GET", at("/files/search", dir)+"&pattern=*.md", "")
	var found []map[string]any
	if err := json.Unmarshal([]byte(body), &found); err != nil || len(found) != 1 || found[0]["path"] != dir+"/one.md" {
		t.Errorf("got %d %s", response.StatusCode, body)
	}
	_, body = d.call("GET", at("/files/search", dir), "")
	if err := json.Unmarshal([]byte(body), &found); err != nil || len(found) < 500 {
		t.Errorf("found %d, %v", len(found), err)
	}
	_, body = d.call("GET", at("/files/search", dir)+"&pattern=nothing", "")
	if body != "[]" {
		t.Errorf("found %s", body)
	}
	response, body = d.call("GET", at("/files/search", dir)+"&pattern=%5B", "")
	wantError(t, "a bad pattern", response, body, 400, CodeInvalidBody)
	response, body = d.call("GET", at("/files/search", dir+"/none"), "")
	wantError(t, "a missing path", response, body, 404, CodeFileNotFound)
}

func TestChecksumsAnswerByPath(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	file := writeFile(t, dir+"/file", "abc")
	_, body := d.call("GET", at("/files/checksum", file)+"&algorithm=sha1", "")
	if want := `{"` + file + `":{"algorithm":"sha1","digest":"a9993e364706816aba3e25717850c26c9cd0d89d","size":3}}`; strings.TrimSpace(body) != want {
		t.Errorf("got %s", body)
	}
	response, body := d.call("GET", at("/files/checksum", file)+"&algorithm=crc32", "")
	wantError(t, "an unknown algorithm", response, body, 400, CodeInvalidBody)
	if err := unix.Mkfifo(dir+"/fifo", 0o666); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, dir + "/fifo", "/dev/zero"} {
		response, body = d.call("GET", at("/files/checksum", path), "")
		wantError(t, path, response, body, 400, CodeInvalidFile)
	}
}
