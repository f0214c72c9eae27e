package policytest

import (
	"net/netip"
	"strings"
	"testing"
)

func TestAllowed(t *testing.T) {
	t.Parallel()
	one := Peer{Namespace: "a", NamespaceLabels: map[string]string{"name": "a"}, Labels: map[string]string{"app": "one"},
		IP: netip.MustParseAddr("10.0.0.1"), Ports: map[string]int{"web": 8080}}
	two := one
	two.Labels, two.IP = map[string]string{"app": "two"}, netip.MustParseAddr("10.0.0.2")
	far := Peer{Namespace: "b", NamespaceLabels: map[string]string{"name": "b"}, Labels: map[string]string{"app": "one"},
		IP: netip.MustParseAddr("10.0.1.1")}
	outside := Peer{IP: netip.MustParseAddr("8.8.8.8")}
	tests := map[string]struct {
		spec     string // of policies in the namespace a, one after another
		from, to Peer
		protocol string
		port     int
		want     bool
	}{
		"none":            {``, one, two, "TCP", 1, true},
		"deny":            {`{"podSelector":{}}`, one, two, "TCP", 1, false},
		"deny, outgoing":  {`{"podSelector":{}}`, one, outside, "TCP", 1, true},
		"deny egress":     {`{"podSelector":{},"policyTypes":["Egress"]}`, one, outside, "TCP", 1, false},
		"other namespace": {`{"podSelector":{}}`, one, far, "TCP", 1, true},
		"not selected":    {`{"podSelector":{"matchLabels":{"app":"one"}}}`, one, two, "TCP", 1, true},
		"from everybody":  {`{"podSelector":{},"ingress":[{}]}`, far, two, "UDP", 9, true},
		"same namespace":  {`{"podSelector":{},"ingress":[{"from":[{"podSelector":{}}]}]}`, far, two, "TCP", 1, false},
		"by namespace": {`{"podSelector":{},"ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"name":"b"}}}]}]}`,
			far, two, "TCP", 1, true},
		"both selectors": {`{"podSelector":{},"ingress":[{"from":[{"namespaceSelector":{},"podSelector":{"matchLabels":{"app":"two"}}}]}]}`, far, two, "TCP", 1, false},
		"block":          {`{"podSelector":{},"egress":[{"to":[{"ipBlock":{"cidr":"0.0.0.0/0","except":["8.0.0.0/8"]}}]}],"policyTypes":["Egress"]}`, one, outside, "TCP", 1, false},
		"block, other": {`{"podSelector":{},"egress":[{"to":[{"ipBlock":{"cidr":"8.0.0.0/8"}}]}],"policyTypes":["Egress"]}`,
			one, outside, "TCP", 1, true},
		"port": {`{"podSelector":{},"ingress":[{"ports":[{"port":80}]}]}`, one, two, "TCP", 81, false},
		"range": {`{"podSelector":{},"ingress":[{"ports":[{"port":80,"endPort":90}]}]}`, one, two,
			"TCP", 90, true},
		"protocol": {`{"podSelector":{},"ingress":[{"ports":[{"port":80}]}]}`, one, two, "UDP", 80, false},
		"named":    {`{"podSelector":{},"ingress":[{"ports":[{"port":"web"}]}]}`, one, two, "TCP", 8080, true},
		"union":    {`{"podSelector":{}};{"podSelector":{},"ingress":[{}]}`, one, two, "TCP", 1, true},
		"does not exist": {`{"podSelector":{"matchExpressions":[{"key":"x","operator":"DoesNotExist"}]}}`, one, two,
			"TCP", 1, false},
		"in": {`{"podSelector":{"matchExpressions":[{"key":"app","operator":"In","values":["one"]}]}}`, one,
			two, "TCP", 1, true},
		"outside is outside": {`{"podSelector":{},"ingress":[{"from":[{"namespaceSelector":{}}]}]}`, outside, two,
			"TCP", 1, false},
	}
	for name, tc := range tests {
		var all []Policy
		for _, spec := range strings.FieldsFunc(tc.spec, func(c rune) bool { return c == ';' }) {
			p, err := Parse([]byte(`{"metadata":{"name":"p","namespace":"a"},"spec":` + spec + `}`))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p)
		}
		if got := Allowed(all, tc.from, tc.to, tc.protocol, tc.port); got != tc.want {
			t.Errorf("%s: allowed is %v, want %v", name, got, tc.want)
		}
	}
}
