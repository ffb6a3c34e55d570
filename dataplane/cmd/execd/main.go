// SPDX-License-Identifier: Apache-2.0

// Command execd is the daemon inside a sandbox: it runs commands, sessions and terminals, moves
// files, and as PID 1 looks after the sandbox's own entrypoint.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"

	"opensandbox.io/dataplane/process"
)

// version is set by the build.
var version = "dev"

func main() {
	config, err := parseFlags(os.Args[1:], os.Environ(), os.Stderr)
	if errors.Is(err, errShown) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "execd:", err)
		os.Exit(2)
	}
	if config.commandsFD >= 0 {
		if config.oomScore, err = process.OpenOOMScore(); err != nil {
			fmt.Fprintln(os.Stderr, "execd:", err)
			os.Exit(1)
		}
	}
	if !config.isTraceable {
		if err := shutOut(); err != nil {
			fmt.Fprintln(os.Stderr, "execd:", err)
			os.Exit(1)
		}
	}
	// What our parent left open belongs to us alone, not to the commands we start.
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC) // before Linux 5.11 only we may mark them one by one

	// Otherwise the first line we log after the reader of our log went away would be our end. Not
	// signal.Ignore, which our children would inherit.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)

	childExited := make(chan os.Signal, 1)
	signal.Notify(childExited, syscall.SIGCHLD)
	received := make(chan os.Signal, 16)
	signal.Notify(received, forwarded...)

	status, err := run(context.Background(), config, childExited, received)
	if err != nil {
		fmt.Fprintln(os.Stderr, "execd:", err)
		if errors.Is(err, errEntrypoint) {
			os.Exit(127) // as a shell says that a program cannot be run
		}
		os.Exit(1)
	}
	os.Exit(status)
}

// shutOut keeps commands from tracing us and from reading our memory, which has the token, even those that
// run as the same user. Programs that we start are like any others: exec undoes it for them.
func shutOut() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("keep other processes out of this one: %w", err)
	}
	return nil
}

// forwarded are the signals an entrypoint may expect from whoever runs the container.
var forwarded = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT,
	syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH, syscall.SIGCONT,
}
