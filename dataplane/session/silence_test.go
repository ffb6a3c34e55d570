// SPDX-License-Identifier: Apache-2.0

package session

import (
	"strings"
	"testing"
)

func TestARunWhoseShellCannotReportEndsWithAnErrorAndTheNextGetsANewShell(t *testing.T) {
	for name, text := range map[string]string{
		"executes nothing":   "echo before; set -n",
		"command is another": "echo before; command() { :; }",
	} {
		t.Run(name, func(t *testing.T) {
			forEachShell(t, func(t *testing.T, s *Session) {
				run(t, s, "export KEPT=1; cd /")
				out, result := run(t, s, text)
				if out != "before\n" || result.ExitCode != -1 || !strings.Contains(result.Reason, "no longer tells") {
					t.Errorf("got %q %+v", out, result)
				}
				if out, result := run(t, s, `echo "$KEPT $PWD"`); out != "1 /\n" || !result.Succeeded() {
					t.Errorf("got %q %+v", out, result)
				}
			})
		})
	}
}

func TestAShellThatWaitsForSomethingElseIsLeftAlone(t *testing.T) {
	for name, text := range map[string]string{
		"a child":      "sleep 4; echo done",
		"a job":        "sleep 4 & wait; echo done",
		"a fifo":       "PATH=$PATH:/bin:/usr/bin; mkfifo f; (sleep 4; echo word > f) & read x < f; echo done",
		"output later": "for i in 1 2 3 4; do sleep 1; done; echo done",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachShell(t, func(t *testing.T, s *Session) {
				if out, result := run(t, s, text); out != "done\n" || !result.Succeeded() {
					t.Errorf("got %q %+v", out, result)
				}
			})
		})
	}
}
