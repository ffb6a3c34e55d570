// SPDX-License-Identifier: Apache-2.0

package process

import (
	"syscall"
	"time"
)

// Terminate sends SIGTERM to the group of p, and SIGKILL when after grace neither p has ended nor
// over was closed. It does not wait for either.
func Terminate(p *Process, over <-chan struct{}, grace time.Duration) error {
	if err := p.SignalGroup(syscall.SIGTERM); err != nil {
		return err
	}
	// Stopped processes do not see SIGTERM before they go on.
	_ = p.SignalGroup(syscall.SIGCONT)
	timer := time.AfterFunc(grace, func() { _ = p.SignalGroup(syscall.SIGKILL) })
	go func() {
		select {
		case <-p.Done():
		case <-over:
		}
		timer.Stop()
	}()
	return nil
}
