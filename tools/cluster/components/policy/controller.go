// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// Run keeps the node's rules as the API server's objects want them, until the context ends. It listens
// for health checks once the first rules are in place. The rules stay when it ends: a node without it
// goes on to enforce what it knows.
func Run(ctx context.Context, client kubernetes.Interface, node Node, health string) error {
	group, ctx := errgroup.WithContext(ctx)
	factory := informers.NewSharedInformerFactory(client, 0)
	defer factory.Shutdown()
	current, changed, err := watch(factory)
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	for kind, isSynced := range factory.WaitForCacheSync(ctx.Done()) {
		if !isSynced {
			return fmt.Errorf("read all %v: %w", kind, context.Cause(ctx))
		}
	}
	rules, err := replace(ctx, current, node, "")
	if err != nil {
		return err
	}
	group.Go(func() error { return serveHealth(ctx, health) })
	group.Go(func() error {
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-changed:
				if rules, err = replace(ctx, current, node, rules); err != nil {
					return err
				}
			}
		}
	})
	return group.Wait()
}

// watch returns how to read the state, and a channel that has a message when it has changed since.
func watch(factory informers.SharedInformerFactory) (func() (State, error), <-chan struct{}, error) {
	pods := factory.Core().V1().Pods()
	namespaces := factory.Core().V1().Namespaces()
	policies := factory.Networking().V1().NetworkPolicies()
	changed := make(chan struct{}, 1)
	tell := func(any) {
		select {
		case changed <- struct{}{}:
		default: // one message is enough for any number of changes
		}
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: tell, UpdateFunc: func(_, latest any) { tell(latest) }, DeleteFunc: tell,
	}
	for _, informer := range []cache.SharedIndexInformer{pods.Informer(), namespaces.Informer(), policies.Informer()} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return nil, nil, fmt.Errorf("watch: %w", err)
		}
	}
	current := func() (state State, err error) {
		var failures [3]error
		state.Pods, failures[0] = pods.Lister().List(labels.Everything())
		state.Namespaces, failures[1] = namespaces.Lister().List(labels.Everything())
		state.Policies, failures[2] = policies.Lister().List(labels.Everything())
		return state, errors.Join(failures[:]...)
	}
	return current, changed, nil
}

// replace gives the node the rules of the current state, in one transaction, and returns them.
func replace(ctx context.Context, current func() (State, error), node Node, before string) (string, error) {
	state, err := current()
	if err != nil {
		return "", fmt.Errorf("read state: %w", err)
	}
	rules, err := state.Ruleset(node)
	if err != nil || rules == before {
		return rules, err
	}
	nft := exec.CommandContext(ctx, "nft", "-f", "-")
	nft.Stdin = strings.NewReader(rules)
	if output, err := nft.CombinedOutput(); err != nil && ctx.Err() == nil {
		return "", fmt.Errorf("nft: %w: %s", err, output)
	}
	klog.InfoS("rules replaced", "policies", len(state.Policies), "lines", strings.Count(rules, "\n"))
	return rules, nil
}

func serveHealth(ctx context.Context, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("health: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(http.ResponseWriter, *http.Request) {}) // 200
	server := &http.Server{Handler: mux}
	stop := context.AfterFunc(ctx, func() { server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("health: %w", err)
	}
	return nil
}
