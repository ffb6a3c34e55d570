// SPDX-License-Identifier: Apache-2.0

// Command ingress is the front door: the one public port of a server and of its sandboxes. The server
// starts it and tells it over a control channel what to serve.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the build.
var version = "dev"

func main() {
	config, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, errShown) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ingress:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, config); err != nil {
		fmt.Fprintln(os.Stderr, "ingress:", err)
		stop()
		os.Exit(1)
	}
}
