// SPDX-License-Identifier: Apache-2.0

// Command coredns is the cluster's name server, with the plugins that its Corefile names (tools/cluster/dns.py)
// and no other: none that asks servers outside the cluster. It is a module of its own, since it needs later
// versions of what Kubernetes is built with.
package main

import (
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/template"
)

func main() { coremain.Run() }
