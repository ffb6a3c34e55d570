// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"opensandbox.io/tools/cluster/policy"
)

// networkPolicy enforces NetworkPolicies on the node it runs on.
func networkPolicy() int {
	flags := flag.NewFlagSet("network-policy", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "`file` that says how to reach the API server")
	name := flags.String("node", "", "`name` of this node")
	podRange := flags.String("pod-range", "", "`prefix` that this node's pods have addresses of")
	health := flags.String("health", "127.0.0.1:10290", "`address` for health checks")
	flags.Parse(os.Args[1:])
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := enforce(ctx, *kubeconfig, *name, *podRange, *health); err != nil {
		fmt.Fprintf(os.Stderr, "network-policy: %v\n", err)
		return 1
	}
	return 0
}

func enforce(ctx context.Context, kubeconfig, name, podRange, health string) error {
	prefix, err := netip.ParsePrefix(podRange)
	if err != nil {
		return fmt.Errorf("--pod-range: %w", err)
	}
	client, err := clientFor(kubeconfig)
	if err != nil {
		return err
	}
	return policy.Run(ctx, client, policy.Node{Name: name, PodRange: prefix}, health)
}

// clientFor trusts the API server's own queues to slow it down.
func clientFor(kubeconfig string) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	config.QPS = -1
	config.ContentType = "application/vnd.kubernetes.protobuf"
	return kubernetes.NewForConfig(config)
}
