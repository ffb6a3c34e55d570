// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestTheVersionThatIsInstalledOrTheNearestIsChosen(t *testing.T) {
	pythons, nodes := []string{"3.10", "3.11", "3.13"}, []string{"22", "24"}
	for _, c := range []struct {
		wanted    string
		installed []string
		found     string
		fits      bool
	}{
		{"3.11", pythons, "3.11", true},
		{"3.11.4", pythons, "3.11", true},
		{"3", pythons, "3.13", true},
		{"3.12", pythons, "3.13", false},
		{"3.9", pythons, "3.10", false},
		{"2.7", pythons, "3.10", false},
		{"22", nodes, "22", true},
		{"v22.13.1", nodes, "22", true},
		{"18", nodes, "22", false},
		{"23", nodes, "24", false},
		{"go1.26.5", []string{"1.26", "1.27"}, "1.26", true},
		{"1.8", []string{"17"}, "17", false},
		{"17.0.9+9", []string{"17"}, "17", true},
		{"999999999999999999999", []string{"17"}, "", false},
		{"latest", nodes, "", false},
		{"", nodes, "", false},
	} {
		if found, fits := nearestVersion(c.wanted, c.installed); found != c.found || fits != c.fits {
			t.Errorf("%q of %v: %q, %v; want %q, %v", c.wanted, c.installed, found, fits, c.found, c.fits)
		}
	}
}

func TestOnlyImagesWithVersionsAreAffectedAndAReplacementIsLogged(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"python/3.11/bin", "node/22/bin", "node/24/bin"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("24", filepath.Join(dir, "node/default")); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	environ := []string{"PYTHON_VERSION=3.12", "NODE_VERSION=24", "NODE_VERSION=22", "GO_VERSION=1.25"}
	chosen := chooseVersions(environ, dir, slog.New(slog.NewTextHandler(&said, nil)))
	if want := []string{dir + "/python/3.11/bin", dir + "/node/22/bin"}; !slices.Equal(chosen, want) {
		t.Errorf("chosen: %v, want %v", chosen, want)
	}
	if text := said.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "PYTHON_VERSION=3.12 is not in this image; 3.11") {
		t.Errorf("logged: %s", text)
	}
}
