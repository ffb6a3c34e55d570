// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"

	"opensandbox.io/dataplane/process"
)

// startNode starts Node for a context of JavaScript or TypeScript.
func (c *Contexts) startNode(language string, s start) (interpreter, error) {
	program, err := process.FindProgram("node", s.env, "/")
	if err != nil {
		return nil, fmt.Errorf("%w: %s needs node, which is not in this image", ErrNoKernel, language)
	}
	home, err := c.runnerDir("node")
	if err != nil {
		return nil, err
	}
	return c.startRunner(language, s, program, home+"/runner.js", language)
}

// startRunner starts a program that is a runner.
func (c *Contexts) startRunner(language string, s start, argv ...string) (interpreter, error) {
	spec := process.Spec{Path: argv[0], Argv: argv, Env: process.List(s.env), Dir: s.dir, EndsGroup: true}
	r, err := startRunner(c.table, spec, s.cancelled)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", language, err)
	}
	return r, nil
}
