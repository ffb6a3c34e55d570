// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The two directions have a base chain each, one after the other in the same hook: what one accepts
// goes on to the other. Only the packets of who opened a connection are judged, but all of them:
// replies pass, and a policy that gets tighter ends the connections it no longer allows.
const frame = `table ip network-policy
delete table ip network-policy
table ip network-policy {
	chain refuse {
		ct state established meta l4proto tcp reject with tcp reset
		reject with icmp admin-prohibited
	}
%s}
`

const baseChain = `	chain %[1]s {
		type filter hook forward priority filter%[2]s; policy accept;
		ct direction reply accept
		ct state related accept
%[3]s	}
`

// side is what the rules of one direction differ in.
type side struct {
	direction networkingv1.PolicyType
	name      string // of chains
	own, peer string // where the header has the pod's address, and its peer's
	priority  string
}

var sides = []side{
	{networkingv1.PolicyTypeEgress, "egress", "ip saddr", "ip daddr", ""},
	{networkingv1.PolicyTypeIngress, "ingress", "ip daddr", "ip saddr", " + 1"},
}

// Ruleset is the nftables script that replaces all rules of the node by those the state asks for. It is
// the same text for the same state.
func (s State) Ruleset(node Node) (string, error) {
	policies := slices.Clone(s.Policies)
	slices.SortFunc(policies, func(a, b *networkingv1.NetworkPolicy) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	s.Policies = policies
	var chains strings.Builder
	for _, side := range sides {
		if err := s.writeSide(&chains, side, node); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf(frame, chains.String()), nil
}

// writeSide writes the chains of one direction: one for each policy, one for each isolated pod, and the
// base chain that leads to them.
func (s State) writeSide(out *strings.Builder, side side, node Node) error {
	for i, policy := range s.Policies {
		if !isolates(policy, side.direction) {
			continue
		}
		rules, err := s.allowed(policy, side)
		if err != nil {
			return fmt.Errorf("policy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		writeChain(out, policyChain(side, i), rules)
	}
	isolated, err := s.isolated(side, node)
	if err != nil {
		return err
	}
	var ways []string
	for _, pod := range isolated.pods {
		chain := side.name + "-" + pod.address.String()
		// A pod always reaches itself, also by way of a Service.
		rules := []string{fmt.Sprintf("%s %s accept", side.peer, pod.address)}
		for _, policy := range pod.policies {
			rules = append(rules, "jump "+policyChain(side, policy))
		}
		writeChain(out, chain, append(rules, "goto refuse"))
		ways = append(ways, fmt.Sprintf("%s : goto %s", pod.address, chain))
	}
	var lead string
	if len(ways) > 0 {
		lead = fmt.Sprintf("\t\t%s vmap { %s }\n", side.own, strings.Join(ways, ", "))
	}
	fmt.Fprintf(out, baseChain, side.name, side.priority, isolated.awaited(side, node)+lead)
	return nil
}

func policyChain(side side, number int) string { return fmt.Sprintf("%s-policy-%d", side.name, number) }

func writeChain(out *strings.Builder, name string, rules []string) {
	fmt.Fprintf(out, "\tchain %s {\n", name)
	for _, rule := range rules {
		fmt.Fprintf(out, "\t\t%s\n", rule)
	}
	out.WriteString("\t}\n")
}

// isolatedPod is an address and the numbers of the policies for it.
type isolatedPod struct {
	address  netip.Addr
	policies []int
}

// isolation is what one direction has to guard on a node.
type isolation struct {
	pods      []isolatedPod
	known     []netip.Addr // of all pods here, isolated or not
	isAwaited bool         // an isolated pod has no address yet
}

// isolated finds the node's pods that some policy is about.
func (s State) isolated(side side, node Node) (isolation, error) {
	var found isolation
	policiesOf := map[netip.Addr][]int{}
	for _, pod := range s.live() {
		if pod.Spec.NodeName != node.Name {
			continue
		}
		policies, err := s.policiesFor(pod, side)
		if err != nil {
			return isolation{}, err
		}
		ip, known := address(pod)
		if !known {
			found.isAwaited = found.isAwaited || len(policies) > 0
			continue
		}
		policiesOf[ip] = policies // an address that was given on belongs to the younger pod
	}
	for ip, policies := range policiesOf {
		found.known = append(found.known, ip)
		if len(policies) > 0 {
			found.pods = append(found.pods, isolatedPod{ip, policies})
		}
	}
	slices.SortFunc(found.known, netip.Addr.Compare)
	slices.SortFunc(found.pods, func(a, b isolatedPod) int { return a.address.Compare(b.address) })
	return found, nil
}

func (s State) policiesFor(pod *corev1.Pod, side side) ([]int, error) {
	var numbers []int
	for i, policy := range s.Policies {
		selected, err := selects(policy, pod)
		if err != nil {
			return nil, fmt.Errorf("policy %s/%s: %w", policy.Namespace, policy.Name, err)
		}
		if selected && isolates(policy, side.direction) {
			numbers = append(numbers, i)
		}
	}
	return numbers, nil
}

// awaited is the rule for the moment between a pod's first packet and the kubelet's report of its
// address: packets of unknown pods are dropped, so that their sender tries again.
func (i isolation) awaited(side side, node Node) string {
	if !i.isAwaited {
		return ""
	}
	known := ""
	if len(i.known) > 0 {
		known = fmt.Sprintf(" %s != { %s }", side.own, list(i.known))
	}
	return fmt.Sprintf("\t\t%s %s%s drop\n", side.own, node.PodRange.Masked(), known)
}

// allowed has a rule for each kind of packet that the policy lets through.
func (s State) allowed(policy *networkingv1.NetworkPolicy, side side) ([]string, error) {
	var rules []string
	for _, entry := range entries(policy, side.direction) {
		peers, err := s.peerMatches(policy, entry.peers, side)
		if err != nil {
			return nil, err
		}
		for _, peer := range peers {
			for _, port := range s.portMatches(entry.ports) {
				rules = append(rules, strings.Join(strings.Fields(peer+" "+port+" accept"), " "))
			}
		}
	}
	return rules, nil
}

// entry is a rule of a policy, whatever its direction.
type entry struct {
	peers []networkingv1.NetworkPolicyPeer
	ports []networkingv1.NetworkPolicyPort
}

func entries(policy *networkingv1.NetworkPolicy, direction networkingv1.PolicyType) []entry {
	var all []entry
	if direction == networkingv1.PolicyTypeIngress {
		for _, rule := range policy.Spec.Ingress {
			all = append(all, entry{rule.From, rule.Ports})
		}
		return all
	}
	for _, rule := range policy.Spec.Egress {
		all = append(all, entry{rule.To, rule.Ports})
	}
	return all
}

// peerMatches has an expression for each peer there is; no peers in a rule mean everybody.
func (s State) peerMatches(policy *networkingv1.NetworkPolicy, peers []networkingv1.NetworkPolicyPeer, side side) ([]string, error) {
	if len(peers) == 0 {
		return []string{""}, nil
	}
	var expressions []string
	for _, peer := range peers {
		if peer.IPBlock != nil {
			block, err := blockMatch(peer.IPBlock, side)
			if err != nil {
				return nil, err
			}
			expressions = append(expressions, block...)
			continue
		}
		addresses, err := s.peerPods(policy, peer)
		if err != nil {
			return nil, err
		}
		if len(addresses) > 0 {
			expressions = append(expressions, fmt.Sprintf("%s { %s }", side.peer, list(addresses)))
		}
	}
	return expressions, nil
}

// blockMatch is empty for IPv6, which pods here do not have.
func blockMatch(block *networkingv1.IPBlock, side side) ([]string, error) {
	parts := []string{}
	for i, text := range append([]string{block.CIDR}, block.Except...) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("ipBlock: %w", err)
		}
		if !prefix.Addr().Is4() {
			return nil, nil
		}
		not := ""
		if i > 0 {
			not = "!= "
		}
		parts = append(parts, fmt.Sprintf("%s %s%s", side.peer, not, prefix.Masked()))
	}
	return []string{strings.Join(parts, " ")}, nil
}

// portMatches has an expression for each port there is; no ports in a rule mean all, of any protocol.
func (s State) portMatches(ports []networkingv1.NetworkPolicyPort) []string {
	if len(ports) == 0 {
		return []string{""}
	}
	var expressions []string
	for _, port := range ports {
		protocol := protocolOf(port.Protocol)
		word := strings.ToLower(string(protocol))
		switch {
		case port.Port == nil:
			expressions = append(expressions, "meta l4proto "+word)
		case port.Port.Type == intstr.String:
			if sockets := s.namedPorts(port.Port.StrVal, protocol); len(sockets) > 0 {
				expressions = append(expressions, fmt.Sprintf("ip daddr . %s dport { %s }", word, pairs(sockets)))
			}
		case port.EndPort != nil:
			expressions = append(expressions, fmt.Sprintf("%s dport %d-%d", word, port.Port.IntVal, *port.EndPort))
		default:
			expressions = append(expressions, fmt.Sprintf("%s dport %d", word, port.Port.IntVal))
		}
	}
	return expressions
}

func list(addresses []netip.Addr) string {
	texts := make([]string, len(addresses))
	for i, ip := range addresses {
		texts[i] = ip.String()
	}
	return strings.Join(texts, ", ")
}

func pairs(sockets []socket) string {
	texts := make([]string, len(sockets))
	for i, socket := range sockets {
		texts[i] = fmt.Sprintf("%s . %d", socket.Addr(), socket.Port())
	}
	return strings.Join(texts, ", ")
}
