// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"os/exec"
	"testing"
	"time"
)

func TestTimeWithoutAProcessorIsNoGrace(t *testing.T) {
	for _, one := range []struct{ passed, waited, left time.Duration }{
		{passed: 0, waited: 0, left: interruptGrace},
		{passed: interruptGrace, waited: 0, left: 0},
		{passed: interruptGrace, waited: 8 * time.Second, left: 8 * time.Second},
		{passed: longestGrace, waited: time.Hour, left: 0},
	} {
		if left := graceLeft(one.passed, one.waited); left != one.left {
			t.Errorf("%s after the interrupt, %s of it without a processor: %s left, want %s", one.passed, one.waited, left, one.left)
		}
	}
}

func TestAProcessThatGetsNoProcessorIsSeenToWait(t *testing.T) {
	pids := make([]int, 2)
	for i := range pids {
		busy := exec.Command("taskset", "-c", "0", "sh", "-c", "while :; do :; done")
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = busy.Process.Kill()
			_ = busy.Wait()
		}()
		pids[i] = busy.Process.Pid
	}
	for waitedForProcessor(pids[0]) < 50*time.Millisecond {
		time.Sleep(time.Millisecond) // the test's own limit ends a wait for ever
	}
	if waited := waitedForProcessor(-1); waited != 0 {
		t.Errorf("a process that is not there has waited %s", waited)
	}
}
