// SPDX-License-Identifier: Apache-2.0

// Package fakenodes stands in for the kubelets of many nodes, so that the control plane can be seen at
// work with thousands of pods on one machine. It does what the API server sees of a kubelet: a Node with
// a lease that is renewed, pods that are reported as running once they are bound to it, and that are
// taken away when they are deleted. No container runs.
package fakenodes

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

const (
	// Mark is the label and the taint of every fake node: only pods that tolerate it land there.
	Mark = "opensandbox.io/fake-node"
	// leaseSeconds and renewal are a kubelet's: after 40 seconds without news a node counts as lost.
	leaseSeconds = 40
	renewal      = 10 * time.Second
	// atOnce bounds the calls that are under way.
	atOnce = 16
)

// Config says what nodes there are.
type Config struct {
	Nodes       int
	PodsPerNode int
	Addresses   netip.Prefix // of the pods; nothing answers there
}

// Run makes the nodes, calls ready, and plays their kubelets until the context ends. The nodes stay.
func Run(ctx context.Context, client kubernetes.Interface, config Config, ready func()) error {
	if err := eachNode(ctx, config, func(ctx context.Context, name string) error {
		return join(ctx, client, name, config.PodsPerNode)
	}); err != nil {
		return ended(ctx, err)
	}
	ready()
	group, together := errgroup.WithContext(ctx)
	group.Go(func() error { return keepLeases(together, client, config) })
	group.Go(func() error { return keepPods(together, client, config.Addresses) })
	return ended(ctx, group.Wait())
}

// ended drops the failures of calls that were cut off because the context ended.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func eachNode(ctx context.Context, config Config, do func(context.Context, string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := range config.Nodes {
		group.Go(func() error { return do(ctx, fmt.Sprintf("fake-%d", i)) })
	}
	return group.Wait()
}

// join makes a node that is ready for pods, with a lease.
func join(ctx context.Context, client kubernetes.Interface, name string, pods int) error {
	node, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{Mark: "true", corev1.LabelHostname: name}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: Mark, Effect: corev1.TaintEffectNoSchedule}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make node: %w", err)
	}
	// The lease goes when the node goes.
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: name, UID: node.UID}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{owner}}, Spec: leaseOf(name),
	}
	if _, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, lease, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("make lease: %w", err)
	}
	// A patch, since controllers write to the new node as well.
	report, err := json.Marshal(map[string]any{"status": status(pods)})
	if err != nil {
		return err
	}
	if _, err := client.CoreV1().Nodes().PatchStatus(ctx, name, report); err != nil {
		return fmt.Errorf("report node: %w", err)
	}
	return nil
}

func status(pods int) corev1.NodeStatus {
	resources := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1000"),
		corev1.ResourceMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:   *resource.NewQuantity(int64(pods), resource.DecimalSI),
	}
	now := metav1.Now()
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "Fake",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	return corev1.NodeStatus{
		Capacity: resources, Allocatable: resources, Conditions: []corev1.NodeCondition{ready},
		NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "fake", OperatingSystem: "linux"},
	}
}

// keepLeases renews every lease in each period, one after the other, as kubelets do that were started
// one after the other.
func keepLeases(ctx context.Context, client kubernetes.Interface, config Config) error {
	tick := time.NewTicker(renewal / time.Duration(config.Nodes))
	defer tick.Stop()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i := 0; ; i = (i + 1) % config.Nodes {
		select {
		case <-ctx.Done():
			return group.Wait()
		case <-tick.C:
			group.Go(func() error {
				// As a kubelet does, one that fails is told and tried again in the next period.
				if err := renew(ctx, client, fmt.Sprintf("fake-%d", i)); err != nil && ctx.Err() == nil {
					log.Print(err)
				}
				return nil
			})
		}
	}
}

func renew(ctx context.Context, client kubernetes.Interface, name string) error {
	patch, err := json.Marshal(map[string]any{"spec": leaseOf(name)})
	if err != nil {
		return err
	}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if _, err := leases.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("renew lease: %w", err)
	}
	return nil
}

func leaseOf(name string) coordinationv1.LeaseSpec {
	seconds, now := int32(leaseSeconds), metav1.NowMicro()
	return coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now}
}
