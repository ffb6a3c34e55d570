// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"opensandbox.io/tools/cluster/fakenodes"
)

// fakeNodes plays the kubelets of many nodes. It prints "ready" once the nodes are there, and ends when its
// input does, so that it never outlives who started it.
func fakeNodes() int {
	flags := flag.NewFlagSet("fake-nodes", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "`file` that says how to reach the API server")
	nodes := flags.Int("nodes", 1, "how many nodes there are")
	pods := flags.Int("pods-per-node", 250, "how many pods fit on each")
	addresses := flags.String("addresses", "198.18.0.0/15", "`prefix` that pods have addresses of")
	flags.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	if err := pretend(ctx, *kubeconfig, *nodes, *pods, *addresses); err != nil {
		fmt.Fprintf(os.Stderr, "fake-nodes: %v\n", err)
		return 1
	}
	return 0
}

func pretend(ctx context.Context, kubeconfig string, nodes, pods int, addresses string) error {
	prefix, err := netip.ParsePrefix(addresses)
	if err != nil {
		return fmt.Errorf("--addresses: %w", err)
	}
	if nodes < 1 {
		return fmt.Errorf("--nodes: %d is not a number of nodes", nodes)
	}
	client, err := clientFor(kubeconfig)
	if err != nil {
		return err
	}
	config := fakenodes.Config{Nodes: nodes, PodsPerNode: pods, Addresses: prefix}
	return fakenodes.Run(ctx, client, config, func() { fmt.Println("ready") })
}
