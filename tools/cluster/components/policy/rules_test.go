// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var (
	web     = place{"web", "10.9.0.2"}
	client  = place{"client", "10.9.0.3"}
	other   = place{"other", "10.9.0.4"} // in another namespace
	outside = place{"outside", "192.0.2.7"}
	here    = Node{"node1", netip.MustParsePrefix("10.9.0.0/24")}
)

const webPort, sidePort = 8080, 8090

// network builds the four places, with listeners on two ports of web and of outside.
func network(t *testing.T) {
	t.Helper()
	build(t, web, client, other, outside)
	for _, place := range []place{web, outside} {
		place.serve(t, webPort)
		place.serve(t, sidePort)
	}
}

func pod(place place, namespace string) *corev1.Pod {
	ports := []corev1.ContainerPort{{Name: "http", ContainerPort: webPort}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: place.name, Namespace: namespace, Labels: map[string]string{"app": place.name}},
		Spec:       corev1.PodSpec{NodeName: here.Name, Containers: []corev1.Container{{Ports: ports}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: place.address},
	}
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}}
}

// cluster has web and client in the namespace "shop" and other in "lab", with policies of "shop".
func cluster(t *testing.T, specs ...string) State {
	t.Helper()
	state := State{
		Pods:       []*corev1.Pod{pod(web, "shop"), pod(client, "shop"), pod(other, "lab")},
		Namespaces: []*corev1.Namespace{namespace("shop"), namespace("lab")},
	}
	for _, spec := range specs {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "shop"}}
		if err := yaml.UnmarshalStrict([]byte(spec), &policy.Spec); err != nil {
			t.Fatal(err)
		}
		state.Policies = append(state.Policies, policy)
	}
	return state
}

func apply(t *testing.T, state State) {
	t.Helper()
	rules, err := state.Ruleset(here)
	if err != nil {
		t.Fatal(err)
	}
	run(t, rules, "nft -f -")
}

// way is a connection that a policy lets through or not.
type way struct {
	from, to place
	port     int
	isOpen   bool
}

func TestPoliciesLetThroughWhatTheySay(t *testing.T) {
	network(t)
	cases := map[string]struct {
		specs []string
		ways  []way
	}{
		"without a policy everything is open": {nil, []way{
			{client, web, webPort, true}, {other, web, webPort, true}, {outside, web, sidePort, true}, {web, outside, webPort, true}}},
		"an empty policy closes what comes in and nothing else": {[]string{`{podSelector: {}}`}, []way{
			{client, web, webPort, false}, {other, web, webPort, false}, {outside, web, webPort, false}, {web, outside, webPort, true}}},
		"a policy of type Egress closes what goes out and nothing else": {[]string{`{podSelector: {}, policyTypes: [Egress]}`}, []way{
			{client, outside, webPort, false}, {client, web, webPort, false}, {other, web, webPort, true}, {other, outside, webPort, true}}},
		"egress rules alone isolate both ways": {[]string{`{podSelector: {matchLabels: {app: web}}, egress: [{}]}`}, []way{
			{web, outside, webPort, true}, {client, web, webPort, false}}},
		"a pod selector means pods of the same namespace": {[]string{`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}]}]}`}, []way{
			{client, web, webPort, true}, {other, web, webPort, false}, {outside, web, webPort, false}}},
		"a namespace selector means all pods there": {[]string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: lab}}}]}]}`}, []way{
			{other, web, webPort, true}, {client, web, webPort, false}}},
		"both selectors must match": {[]string{`{podSelector: {}, ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: {app: other}}}]}]}`}, []way{
			{other, web, webPort, true}, {client, web, webPort, false}}},
		"one of several peers is enough": {[]string{`{podSelector: {}, ingress: [{from: [{podSelector: {}}, {ipBlock: {cidr: 192.0.2.0/24}}]}]}`}, []way{
			{client, web, webPort, true}, {outside, web, webPort, true}, {other, web, webPort, false}}},
		"a block has exceptions": {[]string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 0.0.0.0/0, except: [192.0.2.0/28, 192.0.2.0/24, 10.9.0.4/32]}}]}]}`}, []way{
			{client, web, webPort, true}, {outside, web, webPort, false}, {other, web, webPort, false}}},
		"a block of IPv6 matches nobody": {[]string{`{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: "::/0"}}]}]}`}, []way{{client, web, webPort, false}}},
		"a port number":                  {[]string{`{podSelector: {}, ingress: [{ports: [{port: 8080}]}]}`}, []way{{client, web, webPort, true}, {client, web, sidePort, false}}},
		"a range of ports":               {[]string{`{podSelector: {}, ingress: [{ports: [{port: 8085, endPort: 8090}]}]}`}, []way{{client, web, webPort, false}, {client, web, sidePort, true}}},
		"ports of other protocols":       {[]string{`{podSelector: {}, ingress: [{ports: [{port: 8080, protocol: UDP}, {port: 8080, protocol: SCTP}]}]}`}, []way{{client, web, webPort, false}}},
		"all ports of a protocol":        {[]string{`{podSelector: {}, ingress: [{ports: [{protocol: TCP}]}]}`}, []way{{client, web, webPort, true}}},
		"a named port coming in":         {[]string{`{podSelector: {}, ingress: [{ports: [{port: http}]}]}`}, []way{{client, web, webPort, true}, {client, web, sidePort, false}}},
		"a named port going out": {[]string{`{podSelector: {matchLabels: {app: client}}, policyTypes: [Egress], egress: [{to: [{podSelector: {}}], ports: [{port: http}]}]}`}, []way{
			{client, web, webPort, true}, {client, web, sidePort, false}, {client, outside, webPort, false}}},
		"a port name that nobody has": {[]string{`{podSelector: {}, ingress: [{ports: [{port: metrics}]}]}`}, []way{{client, web, webPort, false}}},
		"peer and port must both match": {[]string{`{podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: 8080}]}]}`}, []way{
			{client, web, webPort, true}, {client, web, sidePort, false}, {other, web, webPort, false}}},
		"several policies add up": {[]string{`{podSelector: {}}`, `{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}]}]}`}, []way{
			{client, web, webPort, true}, {other, web, webPort, false}}},
		"a way needs leave to go out and leave to come in": {[]string{
			`{podSelector: {matchLabels: {app: client}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: web}}}]}]}`,
			`{podSelector: {matchLabels: {app: web}}, ingress: [{from: [{podSelector: {}}], ports: [{port: 8090}]}]}`}, []way{
			{client, web, sidePort, true}, {client, web, webPort, false}, {client, outside, webPort, false}}},
		"a block going out": {[]string{`{podSelector: {}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 192.0.2.0/24}}]}]}`}, []way{
			{client, outside, webPort, true}, {client, web, webPort, false}}},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			apply(t, cluster(t, test.specs...))
			for _, way := range test.ways {
				if way.from.reaches(t, way.to, way.port) != way.isOpen {
					t.Errorf("%s to %s:%d is open: %v, wanted %v", way.from.name, way.to.name, way.port, !way.isOpen, way.isOpen)
				}
			}
		})
	}
}

func TestRefusalsAreToldAtOnce(t *testing.T) {
	network(t)
	apply(t, cluster(t, `{podSelector: {}}`))
	if _, err := client.dial(t, web, webPort); !errors.Is(err, syscall.EHOSTUNREACH) {
		t.Errorf("got %v, wanted %v", err, syscall.EHOSTUNREACH)
	}
}

func TestATighterPolicyEndsConnectionsAndALooserOneOpensAgain(t *testing.T) {
	network(t)
	apply(t, cluster(t))
	connection, err := client.dial(t, web, webPort)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	speak := func() error {
		if err := connection.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
			return err
		}
		if _, err := connection.Write([]byte("hello")); err != nil {
			return err
		}
		_, err := connection.Read(make([]byte, 5))
		return err
	}
	if err := speak(); err != nil {
		t.Fatal(err)
	}
	apply(t, cluster(t, `{podSelector: {}, policyTypes: [Egress]}`))
	if err := speak(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("got %v, wanted %v", err, syscall.ECONNRESET)
	}
	apply(t, cluster(t))
	if !client.reaches(t, web, webPort) {
		t.Error("still closed after the policy was deleted")
	}
}

func TestRepliesPassAPolicyThatLetsNothingIn(t *testing.T) {
	network(t)
	apply(t, cluster(t, `{podSelector: {matchLabels: {app: client}}}`))
	if !client.reaches(t, web, webPort) {
		t.Error("an isolated pod cannot connect to others")
	}
}

func TestTheNodeAlwaysReachesItsPods(t *testing.T) {
	network(t)
	apply(t, cluster(t, `{podSelector: {}, policyTypes: [Ingress, Egress]}`))
	node := place{"", "10.9.0.1"}
	if !node.reaches(t, web, webPort) {
		t.Error("the kubelet's probes would fail")
	}
}

func TestAnIsolatedPodIsGuardedBeforeItsAddressIsKnown(t *testing.T) {
	network(t)
	state := cluster(t, `{podSelector: {matchLabels: {app: web}}}`)
	state.Pods[0].Status.PodIP = ""
	apply(t, state)
	if client.reaches(t, web, webPort) {
		t.Error("a pod without a reported address is open")
	}
	if !client.reaches(t, outside, webPort) {
		t.Error("a pod whose address is known suffers")
	}
	state.Policies[0].Spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{"app": "nobody"}}
	apply(t, state)
	if !client.reaches(t, web, webPort) {
		t.Error("a pod that no policy is about is not open")
	}
}

func TestOtherPodsAndOldOnesGetNoRules(t *testing.T) {
	state := cluster(t, `{podSelector: {}}`)
	state.Pods[0].Status.Phase = corev1.PodSucceeded // its address may belong to another pod by now
	state.Pods[1].Spec.NodeName = "node2"
	state.Pods[2].Namespace = "shop"
	state.Pods[2].Spec.HostNetwork = true
	rules, err := state.Ruleset(here)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(rules, "vmap") {
		t.Error(rules)
	}
}

func TestAnAddressBelongsToTheYoungestPodThatHasIt(t *testing.T) {
	state := cluster(t, `{podSelector: {matchLabels: {app: web}}}`)
	younger := pod(client, "shop")
	younger.Status.PodIP = web.address
	younger.CreationTimestamp = metav1.Now()
	state.Pods = []*corev1.Pod{younger, state.Pods[0]}
	rules, err := state.Ruleset(here)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(rules, "vmap") {
		t.Error(rules)
	}
}
