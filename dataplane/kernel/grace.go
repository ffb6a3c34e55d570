// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// interruptGrace is how long interrupted code has to end by itself before its interpreter is killed.
// Time that the interpreter was ready to run and got no processor does not count.
const interruptGrace = 10 * time.Second

// longestGrace bounds that on a machine that gives it hardly any processor.
const longestGrace = time.Minute

// graceLeft is what is left of the grace, so long after the interrupt.
func graceLeft(passed, waited time.Duration) time.Duration {
	return min(interruptGrace+waited, longestGrace) - passed
}

// waitedForProcessor is how long the first thread of a process was ready to run and was not let, in
// all; 0 where the kernel does not count it.
func waitedForProcessor(pid int) time.Duration {
	counted, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(counted), " ")
	waited, _, _ := strings.Cut(rest, " ")
	nanoseconds, err := strconv.ParseInt(waited, 10, 64)
	if err != nil {
		return 0
	}
	return time.Duration(nanoseconds)
}
