package main

import (
	"encoding/json"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"

	"ingot/internal/platform/engine/kubernetes/policytest"
)

// shippedPolicies returns the NetworkPolicies of the shipped manifests.
func shippedPolicies(t *testing.T) []policytest.Policy {
	t.Helper()
	var all []policytest.Policy
	for _, m := range shipped(t) {
		if _, ok := m.object.(*networkingv1.NetworkPolicy); !ok {
			continue
		}
		text, err := json.Marshal(m.object)
		if err != nil {
			t.Fatal(err)
		}
		p, err := policytest.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) != 3 {
		t.Fatalf("%d policies, want 3", len(all))
	}
	return all
}

// TestNetworkPolicies checks which Pods reach each other in a cluster that enforces the chart's
// policies. A test of the server adds those of the default security groups.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	policies := shippedPolicies(t)
	pod := func(namespace, ip string, labels map[string]string) policytest.Peer {
		return policytest.Peer{
			Namespace: namespace, NamespaceLabels: map[string]string{"kubernetes.io/metadata.name": namespace}, Labels: labels,
			IP:    netip.MustParseAddr(ip),
			Ports: map[string]int{"web": 8080, "notifications": 8081, "ssh": 2222, "admin": 8082},
		}
	}
	at := func(ip string) policytest.Peer { return policytest.Peer{IP: netip.MustParseAddr(ip)} }
	ingot := func(component string) map[string]string {
		return map[string]string{"app.kubernetes.io/name": "ingot", "app.kubernetes.io/instance": "ingot",
			"app.kubernetes.io/component": component}
	}
	app := map[string]string{"ingot.dev/kind": "app", "ingot.dev/install": "3f9a1c"}
	peers := map[string]policytest.Peer{
		"server":     pod("ingot-system", "10.1.0.1", ingot("server")),
		"job":        pod("ingot-system", "10.1.0.2", ingot("migrate")),
		"impostor":   pod("ingot-apps", "10.1.0.3", ingot("server")),
		"app":        pod("ingot-apps", "10.1.0.4", app),
		"other":      pod("ingot-apps", "10.1.0.5", app),
		"dns":        pod("kube-system", "10.1.0.7", map[string]string{"k8s-app": "kube-dns"}),
		"stranger":   pod("default", "10.1.0.8", nil),
		"service":    at("10.96.0.1"), // the API server's
		"node":       at("192.168.7.1"),
		"metadata":   at("169.254.169.254"),
		"metadata6":  at("fd00:ec2::254"),
		"carrier":    at("100.64.3.4"),
		"database":   at("172.16.8.9"),
		"internet":   at("198.51.100.7"),
		"internet6":  at("2001:4860:4860::8888"),
		"linklocal6": at("fe80::1"),
	}
	for _, tc := range []struct {
		from, to, protocol string
		port               int
		want               bool
	}{
		{"server", "app", "TCP", 8080, true},
		{"server", "app", "TCP", 80, true},
		{"server", "app", "TCP", 61001, true},
		{"server", "app", "TCP", 65000, true},
		{"server", "app", "TCP", 61002, false},
		{"server", "app", "UDP", 8080, false},
		{"job", "app", "TCP", 8080, false},
		{"impostor", "app", "TCP", 61001, false},
		{"other", "app", "TCP", 8080, false},
		{"other", "app", "TCP", 61001, false},
		{"other", "other", "TCP", 8080, false},
		{"stranger", "app", "TCP", 8080, false},
		{"node", "app", "TCP", 61001, false},
		{"internet", "app", "TCP", 8080, false},

		{"app", "dns", "UDP", 53, true},
		{"app", "dns", "TCP", 53, true},
		{"app", "dns", "TCP", 8080, false},
		{"app", "internet", "TCP", 443, false}, // the servers allow it
		{"app", "internet6", "TCP", 443, false},
		{"app", "service", "TCP", 443, false},
		{"app", "node", "TCP", 10250, false},
		{"app", "metadata", "TCP", 80, false},
		{"app", "metadata6", "TCP", 80, false},
		{"app", "carrier", "TCP", 80, false},
		{"app", "database", "TCP", 5432, false},
		{"app", "linklocal6", "TCP", 80, false},
		{"app", "server", "TCP", 8080, false},
		{"app", "server", "TCP", 8082, false},
		{"app", "stranger", "TCP", 80, false},

		{"internet", "server", "TCP", 8080, true},
		{"internet", "server", "TCP", 2222, true},
		{"stranger", "server", "TCP", 8081, true},
		{"stranger", "server", "TCP", 8082, false},
		{"server", "database", "TCP", 5432, true},
		{"server", "service", "TCP", 443, true},
		{"job", "database", "TCP", 5432, true},
		{"stranger", "job", "TCP", 8082, false},
	} {
		if got := policytest.Allowed(policies, peers[tc.from], peers[tc.to], tc.protocol, tc.port); got != tc.want {
			t.Errorf("%s to %s, %s %d: allowed is %v, want %v", tc.from, tc.to, tc.protocol, tc.port, got, tc.want)
		}
	}
}
