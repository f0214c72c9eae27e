//go:build linux

package kubernetes_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/kubernetes/kubetest"
	"ingot/internal/platform/instance/agentproto"
)

// restricted refuses Pods as a namespace does that enforces a Pod Security level.
func restricted(pod []byte) string {
	if !bytes.Contains(pod, []byte(`"runAsNonRoot":true`)) {
		return `violates PodSecurity "restricted:latest": runAsNonRoot != true`
	}
	return ""
}

// TestDiagnosis checks what is reported of a good cluster and of bad ones, and that
// nothing is left behind.
func TestDiagnosis(t *testing.T) {
	t.Parallel()
	good := []string{"ok API server", "ok rights", "ok Pod Security", "ok ConfigMap ingot-install", "ok trial Pod",
		"warn user namespaces", "ok NetworkPolicies"}
	tests := map[string]struct {
		faults  kubetest.Faults
		without string                      // a right that is missing
		change  func(*kubernetes.Diagnosis) // of the diagnosis
		want    map[int]string              // findings that differ from good, by their index; "" is none
		say     []string
	}{
		"good": {},
		"away": {
			faults: kubetest.Faults{Away: true}, want: map[int]string{0: "fail API server", 1: ""},
			say: []string{"check the kubeconfig"},
		},
		"rights": {
			without: "list networkpolicies", want: map[int]string{1: "fail rights"},
			say: []string{"missing: list networkpolicies",
				"give this account the Role of the chart in the namespace ingot-apps"},
		},
		"baseline": {
			faults: kubetest.Faults{Refuse: func(pod []byte) string {
				if bytes.Contains(pod, []byte(`"hostPID":true`)) {
					return `violates PodSecurity "baseline:latest": privileged`
				}
				return ""
			}}, want: map[int]string{2: "warn Pod Security"}, say: []string{"enforces baseline",
				"kubectl label namespace ingot-apps pod-security.kubernetes.io/enforce=restricted"},
		},
		"privileged": {faults: kubetest.Faults{Refuse: func([]byte) string { return "" }},
			want: map[int]string{2: "warn Pod Security"}, say: []string{"admits privileged Pods"}},
		"image": {
			faults: kubetest.Faults{ImageError: "pull access denied", Refuse: restricted},
			want:   map[int]string{4: "fail trial Pod", 5: ""},
			say:    []string{"pull the image", "pull access denied", "check --kubernetes-image, and that the nodes may pull it"},
		},
		"full": {
			faults: kubetest.Faults{Unschedulable: "0/2 nodes are available: 2 Insufficient memory. more", Refuse: restricted},
			want:   map[int]string{4: "fail trial Pod", 5: ""},
			say:    []string{"find a node", "insufficient resources: memory", "add nodes or raise the ResourceQuota"},
		},
		"user namespaces": {
			change: func(d *kubernetes.Diagnosis) { d.UserNamespaces = kubernetes.UserNamespacesOn },
			want:   map[int]string{5: "fail user namespaces"}, say: []string{"containerd 2.0"},
		},
		// Pods of this cluster really connect to each other.
		"no enforcement": {
			change: func(d *kubernetes.Diagnosis) { d.Reaches = nil },
			want:   map[int]string{6: "warn NetworkPolicies"}, say: []string{"NOT enforced", "Calico"},
		},
		"no network": {
			change: func(d *kubernetes.Diagnosis) { d.Reaches = func(context.Context, string, string) bool { return false } },
			want:   map[int]string{6: "warn NetworkPolicies"}, say: []string{"even where policies allow it"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := kubetest.New(t, enginetest.InitPath())
			if tc.faults.Refuse == nil {
				tc.faults.Refuse = restricted
			}
			c.Set(tc.faults)
			var role []string
			for _, p := range kubernetes.Role() {
				for _, verb := range p.Verbs {
					right := verb + " " + p.Resource
					if len(p.Names) > 0 {
						right += "/" + p.Names[0]
					}
					if right != tc.without {
						role = append(role, right)
					}
				}
			}
			c.SetRole(role)
			d := kubernetes.Diagnosis{Options: options(t, c), Settle: 3 * time.Second, Reaches: func(_ context.Context, from,
				to string) bool {
				return c.Reaches("i-"+from, "i-"+to, agentproto.Port)
			}}
			if tc.change != nil {
				tc.change(&d)
			}
			var got []string
			var said strings.Builder
			d.Run(t.Context(), func(f kubernetes.Finding) {
				got = append(got, string(f.Level)+" "+f.Step)
				fmt.Fprintf(&said, "%s: %s: %s: %s\n", f.Level, f.Step, f.Found, f.Do)
				if f.Level == kubernetes.Fail && f.Do == "" {
					t.Errorf("%+v does not say what to do", f)
				}
			})
			var want []string
			for i, one := range good {
				if other, ok := tc.want[i]; ok {
					one = other
				}
				if one == "" {
					break
				}
				want = append(want, one)
			}
			if strings.Join(got, ", ") != strings.Join(want, ", ") {
				t.Errorf("got\n%s, want %q", &said, want)
			}
			for _, text := range tc.say {
				if !strings.Contains(said.String(), text) {
					t.Errorf("said\n%s, want %q", &said, text)
				}
			}
			if left := append(c.Pods(), c.Policies()...); len(left) > 0 {
				t.Errorf("%v are left, want nothing", left)
			}
		})
	}
}
