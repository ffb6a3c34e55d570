// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// versionsDir is where an image of ours has its interpreters: <language>/<version>/bin. Other images
// have no such directory, and set these variables for reasons of their own.
const versionsDir = "/opt/opensandbox/versions"

// versionVariables choose an interpreter; the entrypoint, commands and code contexts all get it.
var versionVariables = []struct{ name, language string }{
	{"PYTHON_VERSION", "python"}, {"NODE_VERSION", "node"}, {"JAVA_VERSION", "java"}, {"GO_VERSION", "go"},
}

// chooseVersions returns the directories with the programs that environ asks for. A version that is
// not installed is replaced by the nearest.
func chooseVersions(environ []string, versions string, log *slog.Logger) []string {
	var chosen []string
	for _, variable := range versionVariables {
		wanted := lastValue(environ, variable.name)
		if wanted == "" {
			continue
		}
		installed := installedVersions(filepath.Join(versions, variable.language))
		if len(installed) == 0 {
			continue
		}
		found, fits := nearestVersion(wanted, installed)
		if found == "" {
			log.Warn(variable.name + "=" + wanted + " is no version; the image's default is used")
			continue
		}
		if !fits {
			log.Warn(variable.name + "=" + wanted + " is not in this image; " + found + ", the nearest, is used")
		}
		chosen = append(chosen, filepath.Join(versions, variable.language, found, "bin"))
	}
	return chosen
}

func lastValue(environ []string, name string) string {
	value := ""
	for _, variable := range environ {
		if text, ok := strings.CutPrefix(variable, name+"="); ok {
			value = strings.TrimSpace(text)
		}
	}
	return value
}

// installedVersions are the names in dir that are versions; the image's default is a link beside them.
func installedVersions(dir string) []string {
	entries, _ := os.ReadDir(dir) // an image without them is as good
	var found []string
	for _, entry := range entries {
		if numbers(entry.Name()) != nil && entry.Name()[0] <= '9' {
			found = append(found, entry.Name())
		}
	}
	return found
}

// nearestVersion chooses among installed and says whether that is what was wanted: 3.11 and 3.11.4 fit
// each other, and so do 3 and 3.11. It returns nothing when wanted is no version.
func nearestVersion(wanted string, installed []string) (string, bool) {
	asked := numbers(wanted)
	if asked == nil {
		return "", false
	}
	best := slices.MinFunc(installed, func(a, b string) int {
		return cmp.Or(
			slices.Compare(distance(asked, numbers(a)), distance(asked, numbers(b))),
			slices.Compare(numbers(b), numbers(a)), // of two that are as near the newer
		)
	})
	off := distance(asked, numbers(best))
	return best, !slices.ContainsFunc(off, func(steps int) bool { return steps != 0 })
}

// distance is how far two versions are from each other, the first number first. What only one of them
// says does not count.
func distance(a, b []int) []int {
	away := make([]int, min(len(a), len(b)))
	for i := range away {
		away[i] = max(a[i]-b[i], b[i]-a[i])
	}
	return away
}

// numbers are those of a version: 3.11, v22.13.1, go1.27 and 17.0.9+9 are versions.
func numbers(version string) []int {
	version = strings.TrimLeft(strings.ToLower(version), "abcdefghijklmnopqrstuvwxyz-_")
	var found []int
	for part := range strings.SplitSeq(version, ".") {
		digits := part[:len(part)-len(strings.TrimLeft(part, "0123456789"))]
		number, err := strconv.Atoi(digits)
		if err != nil {
			break
		}
		found = append(found, number)
	}
	return found
}
