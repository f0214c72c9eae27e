//go:build linux

package system

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"testing"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/agentkeys"
	"ingot/internal/platform/engine/kubernetes/kubetest"
	"ingot/internal/platform/engine/kubernetes/policytest"
)

// plain turns what the parser of YAML returns into what JSON can express.
func plain(v any) any {
	switch v := v.(type) {
	case map[any]any:
		out := map[string]any{}
		for key, value := range v {
			out[fmt.Sprint(key)] = plain(value)
		}
		return out
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	}
	return v
}

// chartPolicies returns the NetworkPolicies of the shipped manifests.
func chartPolicies(t *testing.T) (all []policytest.Policy) {
	t.Helper()
	text, err := os.ReadFile("../../packaging/kubernetes/ingot.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var o map[any]any
		if err := yaml.Unmarshal(document, &o); err != nil {
			t.Fatal(err)
		}
		if o["kind"] == "NetworkPolicy" {
			all = append(all, parsePolicy(t, plain(o)))
		}
	}
	return all
}

func parsePolicy(t *testing.T, o any) policytest.Policy {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policytest.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestNetworkPolicies: the policies of the chart and those of the default security groups,
// which a server creates, let instances connect to public addresses and to nothing else.
func TestNetworkPolicies(t *testing.T) {
	t.Parallel()
	cluster := kubetest.New(t, testkit.Programs(t)+"/ingot-init")
	c := testConfig(t)
	c.Engine, c.Kubernetes.Image, c.Kubernetes.Kubeconfig = "kubernetes", "stack:test", cluster.Kubeconfig(t)
	c.seams.kubernetes = func(o *kubernetes.Options) { o.Home = cluster.Home }
	var r *runtime
	c.seams.runtime = func(opened *runtime) { r = opened }
	startSystem(t, c)
	keys, err := agentkeys.Load(t.Context(), r.store)
	if err != nil {
		t.Fatal(err)
	}
	policies := chartPolicies(t)
	chart := len(policies)
	for _, name := range cluster.Policies() {
		policies = append(policies, parsePolicy(t, json.RawMessage(cluster.Object("networkpolicies", name))))
	}
	if chart != 3 || len(policies) != chart+4 {
		t.Fatalf("%d policies, %d of the chart, want 3 of the chart and two groups for apps and builds", len(policies), chart)
	}
	at := func(ip string) policytest.Peer { return policytest.Peer{IP: netip.MustParseAddr(ip)} }
	pod := func(kind, install string) policytest.Peer {
		return policytest.Peer{
			Namespace: kubetest.Namespace, NamespaceLabels: map[string]string{"kubernetes.io/metadata.name": kubetest.Namespace},
			Labels: map[string]string{"ingot.dev/kind": kind, "ingot.dev/install": install}, IP: netip.MustParseAddr("10.1.0.4"),
		}
	}
	other := pod("app", keys.Install)
	other.IP = netip.MustParseAddr("10.1.0.5")
	for _, from := range []policytest.Peer{pod("app", keys.Install), pod("task", keys.Install),
		pod("build", keys.Install)} {
		for to, want := range map[string]bool{
			"198.41.0.4": true, "8.8.8.8": true, "1.1.1.1": true,
			"10.96.0.1": false, "10.1.0.5": false, "172.16.8.9": false, "192.168.7.1": false, "169.254.169.254": false,
			"100.64.3.4": false, "127.0.0.1": false, "fd00:ec2::254": false,
		} {
			if got := policytest.Allowed(policies, from, at(to), "TCP", 443); got != want {
				t.Errorf("%s to %s: allowed is %v, want %v", from.Labels["ingot.dev/kind"], to, got, want)
			}
		}
		for _, port := range []int{8080, 61001} {
			if policytest.Allowed(policies, from, other, "TCP", port) {
				t.Errorf("%s to port %d of another instance: it is allowed", from.Labels["ingot.dev/kind"], port)
			}
		}
	}
	if policytest.Allowed(policies, pod("app", "another"), at("8.8.8.8"), "TCP", 443) {
		t.Error("instances of another installation get the groups of this one")
	}
}
