// SPDX-License-Identifier: Apache-2.0

package process

import (
	"runtime"
	"sync"
)

// ReserveThreads makes n threads of the operating system and leaves them idle. The runtime never ends
// an idle thread and takes one before it makes a new one, and a thread that cannot be made ends the
// whole program: so when others use up what a machine has, this one lives on those it has.
func ReserveThreads(n int) {
	var started sync.WaitGroup
	release := make(chan struct{})
	for range n {
		started.Add(1)
		go func() {
			runtime.LockOSThread() // what waits here keeps its thread from all others
			started.Done()
			<-release
			runtime.UnlockOSThread()
		}()
	}
	started.Wait()
	close(release)
}
