// SPDX-License-Identifier: Apache-2.0

package execd

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

func TestListingGoesAsDeepAsAsked(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	writeFile(t, dir+"/b/c/deep", "")
	writeFile(t, dir+"/a", "")
	os.Symlink("b", dir+"/link")
	for query, want := range map[string]string{"": "a b link", "&depth=0": "", "&depth=2": "a b b/c link", "&depth=9": "a b b/c b/c/deep link"} {
		response, body := d.call("GET", at("/directories/list", dir)+query, "")
		var infos []struct{ Path string }
		if err := json.Unmarshal([]byte(body), &infos); err != nil || response.StatusCode != 200 || infos == nil {
			t.Fatalf("%s: %d %s", query, response.StatusCode, body)
		}
		var got []string
		for _, info := range infos {
			got = append(got, strings.TrimPrefix(info.Path, dir+"/"))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %v", query, got)
		}
	}
	for _, depth := range []string{"-1", "x", "1.5", "99999999999999999999"} {
		response, body := d.call("GET", at("/directories/list", dir)+"&depth="+depth, "")
		wantError(t, "depth "+depth, response, body, 400, CodeInvalidBody)
	}
	for _, name := range []string{"/link", "/a"} {
		response, body := d.call("GET", at("/directories/list", dir+name), "")
		wantError(t, name, response, body, 400, CodeInvalidFile)
	}
	response, body := d.call("GET", at("/directories/list", dir+"/none"), "")
	wantError(t, "a missing directory", response, body, 404, CodeFileNotFound)
}

func TestDirectoriesAreMadeAndRemoved(t *testing.T) {
	d, dir := startDaemon(t, ""), realDir(t)
	writeFile(t, dir+"/file", "")
	for _, mode := range []string{"711", "700"} { // the second time it exists and keeps its mode
		response, body := d.call("POST", "/directories", `{"`+dir+`/x/y":{"mode":`+mode+`}}`)
		wantEmpty200(t, "make", response, body)
	}
	if st, err := os.Stat(dir + "/x/y"); err != nil || st.Mode().Perm() != 0o711 {
		t.Errorf("made %v, %v", st, err)
	}
	response, body := d.call("POST", "/directories", `{"`+dir+`/file":{"mode":755}}`)
	wantError(t, "make over a file", response, body, 400, CodeInvalidFile)
	response, body = d.call("DELETE", at("/directories", dir+"/x", dir+"/none"), "")
	wantEmpty200(t, "remove", response, body)
	response, body = d.call("DELETE", at("/directories", dir+"/file"), "")
	wantError(t, "remove a file", response, body, 400, CodeInvalidFile)
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("there is %v", entries)
	}
}
