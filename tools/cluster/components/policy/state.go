// SPDX-License-Identifier: Apache-2.0

// Package policy enforces NetworkPolicies on one node, with nftables.
//
// Every packet of a pod is routed through its node, so one hook sees them all. What a node itself
// sends to its pods (probes of the kubelet, say) and what they send to it passes another hook: it is
// always allowed, as Kubernetes has it.
package policy

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// State is what the cluster has at one moment.
type State struct {
	Pods       []*corev1.Pod
	Namespaces []*corev1.Namespace
	Policies   []*networkingv1.NetworkPolicy
}

// Node is where the rules are for.
type Node struct {
	Name     string
	PodRange netip.Prefix
}

// live has the pods that have a network of their own and may use it, oldest first.
func (s State) live() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range s.Pods {
		isOver := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
		if !isOver && !pod.Spec.HostNetwork {
			pods = append(pods, pod)
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return pods
}

// address is the pod's IPv4 address; there is none before the kubelet has reported it.
func address(pod *corev1.Pod) (netip.Addr, bool) {
	for _, ip := range append([]corev1.PodIP{{IP: pod.Status.PodIP}}, pod.Status.PodIPs...) {
		if parsed, err := netip.ParseAddr(ip.IP); err == nil && parsed.Is4() {
			return parsed, true
		}
	}
	return netip.Addr{}, false
}

// selects says whether the policy is about this pod.
func selects(policy *networkingv1.NetworkPolicy, pod *corev1.Pod) (bool, error) {
	if policy.Namespace != pod.Namespace {
		return false, nil
	}
	return matches(&policy.Spec.PodSelector, pod.Labels)
}

func matches(selector *metav1.LabelSelector, set labels.Set) (bool, error) {
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false, fmt.Errorf("label selector: %w", err)
	}
	return parsed.Matches(set), nil
}

// isolates says whether the policy has a say in this direction. The API server fills in the types;
// the rule is the same for objects that never went through it.
func isolates(policy *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) bool {
	if len(policy.Spec.PolicyTypes) > 0 {
		return slices.Contains(policy.Spec.PolicyTypes, direction)
	}
	return direction == networkingv1.PolicyTypeIngress || len(policy.Spec.Egress) > 0
}

// peerPods has the addresses of the pods that a peer with selectors means.
func (s State) peerPods(policy *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer) ([]netip.Addr, error) {
	namespaces, err := s.peerNamespaces(policy, peer)
	if err != nil {
		return nil, err
	}
	var addresses []netip.Addr
	for _, pod := range s.live() {
		ip, known := address(pod)
		if !known || !namespaces[pod.Namespace] {
			continue
		}
		selected := true
		if peer.PodSelector != nil {
			if selected, err = matches(peer.PodSelector, pod.Labels); err != nil {
				return nil, err
			}
		}
		if selected {
			addresses = append(addresses, ip)
		}
	}
	slices.SortFunc(addresses, netip.Addr.Compare)
	return slices.Compact(addresses), nil
}

// peerNamespaces is the policy's own namespace, unless the peer selects others.
func (s State) peerNamespaces(policy *networkingv1.NetworkPolicy, peer networkingv1.NetworkPolicyPeer) (map[string]bool, error) {
	if peer.NamespaceSelector == nil {
		return map[string]bool{policy.Namespace: true}, nil
	}
	names := map[string]bool{}
	for _, namespace := range s.Namespaces {
		selected, err := matches(peer.NamespaceSelector, namespace.Labels)
		if err != nil {
			return nil, err
		}
		names[namespace.Name] = selected
	}
	return names, nil
}

// socket is an address with a port.
type socket = netip.AddrPort

// namedPorts has where a port with this name is, in every pod that has one.
func (s State) namedPorts(name string, protocol corev1.Protocol) []socket {
	var sockets []socket
	for _, pod := range s.live() {
		ip, known := address(pod)
		if !known {
			continue
		}
		for _, container := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			for _, port := range container.Ports {
				if port.Name == name && protocolOf(&port.Protocol) == protocol {
					sockets = append(sockets, netip.AddrPortFrom(ip, uint16(port.ContainerPort)))
				}
			}
		}
	}
	slices.SortFunc(sockets, netip.AddrPort.Compare)
	return slices.Compact(sockets)
}

// protocolOf gives TCP where none is named.
func protocolOf(protocol *corev1.Protocol) corev1.Protocol {
	if protocol == nil || *protocol == "" {
		return corev1.ProtocolTCP
	}
	return *protocol
}
