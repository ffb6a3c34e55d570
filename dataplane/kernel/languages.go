// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// start is what a new interpreter begins with.
type start struct {
	dir       string            // empty: the daemon's
	env       map[string]string // all of it
	envs      map[string]string // what the context asked for; part of env
	cancelled <-chan struct{}   // closed when nobody wants it any more
}

// canonical is the one name of a language that has several.
func canonical(language string) string {
	language = strings.ToLower(strings.TrimSpace(language))
	if name, ok := map[string]string{
		"python3": "python", "py": "python", "ipython": "python",
		"js": "javascript", "node": "javascript", "ts": "typescript",
		"sh": "bash", "shell": "bash", "golang": "go",
	}[language]; ok {
		return name
	}
	return language
}

// start starts an interpreter of a language.
func (c *Contexts) start(language string, s start) (interpreter, error) {
	if s.dir == "" {
		s.dir, _ = os.Getwd() // without one of its own the daemon is in no place either
	}
	if info, err := os.Stat(s.dir); err != nil || !info.IsDir() { // gone since the context was made
		return nil, fmt.Errorf("cwd %s is not an existing directory", s.dir)
	}
	switch language {
	case "python":
		return c.startPython(s)
	case "bash":
		return c.startBash(s)
	case "javascript", "typescript":
		return c.startNode(language, s)
	case "java":
		return c.startJava(s)
	case "go":
		return c.startGo(s)
	}
	if spec, ok := findKernelspec(language, s.env); ok {
		return c.startJupyter(spec, s)
	}
	return nil, fmt.Errorf("%w: this image has no interpreter and no Jupyter kernel for %q; use an image that has one, or install its kernelspec", ErrNoKernel, language)
}

//go:embed all:runners
var runnerFiles embed.FS

// runnerDir writes the files of one runner where programs can read them and returns their directory.
func (c *Contexts) runnerDir(name string) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	home := filepath.Join(c.dir, "runners", name)
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	draft := home + ".new"
	if err := os.RemoveAll(draft); err != nil {
		return "", fmt.Errorf("write runner: %w", err)
	}
	files, err := fs.Sub(runnerFiles, "runners/"+name)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(home), 0o755)
	}
	if err == nil {
		err = os.CopyFS(draft, files)
	}
	if err == nil {
		err = os.Rename(draft, home) // whoever sees it sees all of it
	}
	if err != nil {
		return "", fmt.Errorf("write runner: %w", err)
	}
	return home, nil
}
