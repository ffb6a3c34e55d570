// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const (
	envFileVariable   = "EXECD_ENVS"
	sandboxIDVariable = "OPENSANDBOX_ID"
	defaultPath       = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// Environ is what the environment of a new process is made of: the daemon's own variables and a
// file that a sandbox's user may append to, read afresh each time.
type Environ struct {
	base map[string]string
	file string
}

// NewEnviron keeps vars ("KEY=value") as the base and file as the path of the env file.
func NewEnviron(vars []string, file string) *Environ {
	base := map[string]string{"PATH": defaultPath}
	for _, v := range vars {
		if key, value, ok := strings.Cut(v, "="); ok && key != "" {
			base[key] = value
		}
	}
	base[envFileVariable] = file
	return &Environ{base: base, file: file}
}

// PutFirst has programs looked for in dirs before all other places. Call it before For.
func (e *Environ) PutFirst(dirs []string) {
	e.base["PATH"] = strings.Join(append(slices.Clone(dirs), e.base["PATH"]), ":")
}

// For is the environment for one process: base, then who it runs as, then the env file, then
// request. A missing env file is an empty one. OPENSANDBOX_ID cannot be changed.
func (e *Environ) For(id *Identity, request map[string]string) map[string]string {
	vars := make(map[string]string, len(e.base)+len(request)+8)
	for k, v := range e.base {
		vars[k] = v
	}
	if id != nil && id.Name != "" {
		vars["USER"], vars["LOGNAME"], vars["HOME"] = id.Name, id.Name, id.Home
	}
	parseEnvFile(readEnvFile(e.file), vars)
	for k, v := range request {
		vars[k] = v
	}
	if real, ok := e.base[sandboxIDVariable]; ok {
		vars[sandboxIDVariable] = real
	} else {
		delete(vars, sandboxIDVariable)
	}
	return vars
}

// maxEnvFile is more than the kernel lets a process have.
const maxEnvFile = 4 << 20

// readEnvFile is the text of a plain file; anything else, such as a FIFO nobody writes to or a device
// without end, is as if it were missing.
func readEnvFile(path string) string {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(file, maxEnvFile))
	if err != nil {
		return ""
	}
	return string(text)
}

// List turns variables into the sorted form that exec takes.
func List(vars map[string]string) []string {
	list := make([]string, 0, len(vars))
	for k, v := range vars {
		list = append(list, k+"="+v)
	}
	slices.Sort(list)
	return list
}

// CheckVariables refuses names and values that cannot be in an environment.
func CheckVariables(vars map[string]string) error {
	for k, v := range vars {
		if k == "" || strings.ContainsAny(k, "=\x00") {
			return fmt.Errorf("environment variable name %q is empty or contains '=' or NUL", k)
		}
		if strings.ContainsRune(v, 0) {
			return fmt.Errorf("environment variable %s contains NUL", k)
		}
	}
	return nil
}

// ExpandPath replaces a leading ~ by HOME and $NAME, ${NAME} by the variable. A variable that is not
// set is an error: a path must not silently become a shorter one.
func ExpandPath(path string, vars map[string]string) (string, error) {
	if strings.ContainsRune(path, 0) {
		return "", fmt.Errorf("path %q contains NUL", path)
	}
	if path == "~" || strings.HasPrefix(path, "~/") {
		home := vars["HOME"]
		if home == "" {
			return "", fmt.Errorf("cannot expand ~ in %q: HOME is not set", path)
		}
		path = home + path[1:]
	}
	if !strings.Contains(path, "$") {
		return path, nil
	}
	var missing string
	expanded := expandVariables(path, func(name string) string {
		value, ok := vars[name]
		if !ok && missing == "" {
			missing = name
		}
		return value
	})
	if missing != "" {
		return "", fmt.Errorf("cannot expand %q: variable %s is not set", path, missing)
	}
	return expanded, nil
}

// FindProgram looks name up in the PATH of vars as execvp does, relative to dir.
func FindProgram(name string, vars map[string]string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		return executable(name, name, dir)
	}
	for _, entry := range filepath.SplitList(vars["PATH"]) {
		if found, err := executable(name, filepath.Join(entry, name), dir); err == nil {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s: executable not found in PATH", name)
}

func executable(name, path, dir string) (string, error) {
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: no such file", name)
	case info.IsDir():
		return "", fmt.Errorf("%s: is a directory", name)
	case info.Mode()&0o111 == 0:
		return "", fmt.Errorf("%s: permission denied", name)
	}
	return path, nil
}

// FindShell is bash, or sh where there is no bash.
func FindShell(vars map[string]string) (path string, isBash bool, err error) {
	if path, err = FindProgram("bash", vars, "/"); err == nil {
		return path, true, nil
	}
	if path, err = FindProgram("sh", vars, "/"); err == nil {
		return path, false, nil
	}
	return "", false, fmt.Errorf("no shell: neither bash nor sh is in PATH; use argv to run a program without a shell")
}
