// SPDX-License-Identifier: Apache-2.0

// Command kube is every program of a Kubernetes cluster in one file. It is called as
// `kube apiserver …`, or by a link with the name of the program, as busybox is. One file is linked
// once, and most of what the programs are made of is the same.
package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// commands has the programs by name. Each reads os.Args, which begins with its own name.
var commands = map[string]func() int{
	"apiserver":          apiserver,
	"controller-manager": controllerManager,
	"etcd":               etcd,
	"fake-nodes":         fakeNodes,
	"kubectl":            kubectl,
	"kubelet":            kubelet,
	"network-policy":     networkPolicy,
	"proxy":              proxy,
	"scheduler":          scheduler,
}

func main() {
	command, found := commands[filepath.Base(os.Args[0])]
	if !found && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		command, found = commands[os.Args[0]]
	}
	if !found {
		names := slices.Sorted(maps.Keys(commands))
		fmt.Fprintf(os.Stderr, "usage: kube (%s) ...\n", strings.Join(names, "|"))
		os.Exit(2)
	}
	os.Exit(command())
}
