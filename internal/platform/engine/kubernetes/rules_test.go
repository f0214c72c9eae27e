package kubernetes_test

import (
	"encoding/json"
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// groupFor returns rules with one group for all; none if the destination is empty.
func groupFor(destination string) engine.Rules {
	r := engine.Rules{Groups: map[string]engine.Group{}, Zones: map[engine.Zone][]string{{}: {"g"}}}
	if destination != "" {
		r.Groups["g"] = engine.Group{Name: "g", Rules: []platform.SecurityRule{{Protocol: "all", Destination: destination}}}
	}
	return r
}

// TestEnforce compares the NetworkPolicies with the rules.
func TestEnforce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	policy := func(name string) string {
		var o struct {
			Spec json.RawMessage `json:"spec"`
		}
		if b := w.cluster.Object("networkpolicies", name); b == nil || json.Unmarshal(b, &o) != nil {
			return ""
		}
		return string(o.Spec)
	}
	expect := func(name string, want ...string) {
		t.Helper()
		got := policy(name)
		if (got == "") != (want == nil) {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("%s is\n%s\nwithout %s", name, got, text)
			}
		}
	}
	icmp := platform.SecurityRule{Protocol: "icmp", Destination: "0.0.0.0/0"}
	err := w.engine.Enforce(w.within(), engine.Rules{
		Groups: map[string]engine.Group{
			"all": {Rules: []platform.SecurityRule{{Protocol: "all", Destination: "10.0.0.1-10.0.0.6,192.168.0.0/16"}, icmp}},
			"own": {Rules: []platform.SecurityRule{{Protocol: "tcp", Destination: "0.0.0.0/0", Ports: "80,443"},
				{Protocol: "udp", Destination: "1.1.1.1", Ports: "1000-2000"}}},
			"ping": {Rules: []platform.SecurityRule{icmp}},
		},
		Zones: map[engine.Zone][]string{{}: {"all", "ping"}, {Staging: true}: nil, {Space: "s1"}: {"all", "own", "ping"},
			{Space: "s2"}: {"all", "own", "ping"}, {Space: "s3", Staging: true}: {"own"}},
		Policies: []platform.NetworkPolicy{{SourceApp: "a", DestApp: "b", Protocol: "tcp", FirstPort: 8080, LastPort: 8090},
			{SourceApp: "a", DestApp: "b", Protocol: "udp", FirstPort: 53, LastPort: 53}},
	})
	if err != nil {
		t.Fatal(err)
	}
	expect("running-all", `"cidr":"10.0.0.1/32"`, `"cidr":"10.0.0.2/31"`, `"cidr":"10.0.0.4/31"`, `"cidr":"10.0.0.6/32"`,
		`"cidr":"192.168.0.0/16"`, `"values":["app","task"]`, `"policyTypes":["Egress"]`)
	if strings.Contains(policy("running-all"), "space") || strings.Contains(policy("running-all"), "0.0.0.0/0") {
		t.Errorf("the policy for all spaces is %s", policy("running-all"))
	}
	expect("staging-all")
	expect("running-ping")
	expect("running-own", `"cidr":"0.0.0.0/0"`, `{"port":80,"protocol":"TCP"}`, `{"port":443,"protocol":"TCP"}`,
		`{"endPort":2000,"port":1000,"protocol":"UDP"}`, `"values":["s1","s2"]`)
	expect("staging-own", `"values":["build"]`, `"values":["s3"]`)
	expect("from-a-b", `"podSelector":{"matchLabels":{"ingot.dev/app":"a"`, `"egress"`, `{"endPort":8090,"port":8080,"protocol":"TCP"}`, `{"port":53,"protocol":"UDP"}`)
	expect("to-a-b", `"podSelector":{"matchLabels":{"ingot.dev/app":"b"`, `"ingress"`)
	if err := w.engine.Enforce(w.within(), groupFor("10.9.0.0/16")); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"running-all", "running-own", "staging-own", "from-a-b", "to-a-b"} {
		expect(gone)
	}
	expect("running-g", `"cidr":"10.9.0.0/16"`)
	if err := w.engine.Enforce(w.within(), groupFor("10.8.0.0/16")); err != nil {
		t.Fatal(err)
	}
	expect("running-g", `"cidr":"10.8.0.0/16"`)
}
