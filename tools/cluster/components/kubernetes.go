// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	_ "time/tzdata" // cron jobs name time zones

	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	kubectlcommand "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserverapp "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllerapp "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxyapp "k8s.io/kubernetes/cmd/kube-proxy/app"
	schedulerapp "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubeletapp "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/component-base/logs/json/register"          // --logging-format=json
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // metrics of API calls
	_ "k8s.io/component-base/metrics/prometheus/version"  // metrics name the version
)

func apiserver() int { return cli.Run(apiserverapp.NewAPIServerCommand()) }

func controllerManager() int { return cli.Run(controllerapp.NewControllerManagerCommand()) }

func scheduler() int { return cli.Run(schedulerapp.NewSchedulerCommand()) }

func kubelet() int { return cli.Run(kubeletapp.NewKubeletCommand(context.Background())) }

func proxy() int { return cli.Run(proxyapp.NewProxyCommand()) }

func kubectl() int {
	// Before the command is made, since making it already logs.
	if _, err := logs.GlogSetter(kubectlcommand.GetLogVerbosity(os.Args)); err != nil {
		util.CheckErr(err)
	}
	if err := cli.RunNoErrOutput(kubectlcommand.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints it and exits
	}
	return 0
}
