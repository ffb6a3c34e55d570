// SPDX-License-Identifier: Apache-2.0

package process

import (
	"syscall"
	"time"
)

// Terminate sends SIGTERM to the group of p, and SIGKILL when p has not ended after grace. It does
// not wait for the end.
func Terminate(p *Process, grace time.Duration) error {
	if err := p.SignalGroup(syscall.SIGTERM); err != nil {
		return err
	}
	// Stopped processes do not see SIGTERM before they go on.
	_ = p.SignalGroup(syscall.SIGCONT)
	timer := time.AfterFunc(grace, func() { _ = p.SignalGroup(syscall.SIGKILL) })
	go func() {
		<-p.Done()
		timer.Stop()
	}()
	return nil
}
