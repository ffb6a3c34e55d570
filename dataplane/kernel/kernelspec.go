// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"opensandbox.io/dataplane/process"
)

// kernelspec is how an image says that it has a Jupyter kernel.
type kernelspec struct {
	Argv          []string          `json:"argv"`
	Language      string            `json:"language"`
	Env           map[string]string `json:"env"`
	InterruptMode string            `json:"interrupt_mode"` // "message", or by signal
	name          string
	dir           string
}

// findKernelspec finds the kernel of this name or language; false when the image has none.
func findKernelspec(language string, env map[string]string) (kernelspec, bool) {
	var byLanguage *kernelspec
	for _, place := range kernelspecPlaces(env) {
		entries, err := os.ReadDir(place)
		if err != nil {
			continue
		}
		for _, entry := range entries {
			spec, err := readKernelspec(filepath.Join(place, entry.Name()))
			if err != nil {
				continue
			}
			if strings.EqualFold(spec.name, language) {
				return spec, true
			}
			if byLanguage == nil && strings.EqualFold(spec.Language, language) {
				byLanguage = &spec
			}
		}
	}
	if byLanguage == nil {
		return kernelspec{}, false
	}
	return *byLanguage, true
}

// kernelspecPlaces are the directories that Jupyter looks into, in its order.
func kernelspecPlaces(env map[string]string) []string {
	var shares []string
	shares = append(shares, filepath.SplitList(env["JUPYTER_PATH"])...)
	if home := env["HOME"]; home != "" {
		shares = append(shares, filepath.Join(home, ".local/share/jupyter"))
	}
	if python, err := process.FindProgram("python3", env, "/"); err == nil {
		shares = append(shares, filepath.Join(filepath.Dir(filepath.Dir(python)), "share/jupyter"))
	}
	shares = append(shares, "/usr/local/share/jupyter", "/usr/share/jupyter")
	for i, share := range shares {
		shares[i] = filepath.Join(share, "kernels")
	}
	return shares
}

func readKernelspec(dir string) (kernelspec, error) {
	spec := kernelspec{name: filepath.Base(dir), dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err == nil && len(spec.Argv) == 0 {
		err = os.ErrInvalid
	}
	return spec, err
}

// command is the kernel's program and arguments for a connection file.
func (k kernelspec) command(connectionFile string) []string {
	argv := make([]string, len(k.Argv))
	for i, argument := range k.Argv {
		argv[i] = strings.NewReplacer("{connection_file}", connectionFile, "{resource_dir}", k.dir).Replace(argument)
	}
	return argv
}
