package main

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

// TestPod: the Pods of instances, as the Kubernetes engine creates them, have only fields
// that Kubernetes knows, and meet the standards "baseline" and "restricted".
func TestPod(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pod.json", "imagepod.json"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkPod(t, "../internal/platform/engine/kubernetes/testdata/"+name)
		})
	}
}

func checkPod(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pod corev1.Pod
	if err := yaml.UnmarshalStrict(text, &pod); err != nil {
		t.Fatalf("decoding the Pod: %v, want no unknown field", err)
	}
	if pod.Name == "" || len(pod.Spec.Containers) != 1 {
		t.Fatalf("the Pod is %s, want one with a container", text)
	}
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []api.Level{api.LevelBaseline, api.LevelRestricted} {
		results := evaluator.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()},
			&pod.ObjectMeta, &pod.Spec)
		if r := policy.AggregateCheckResults(results); !r.Allowed {
			t.Errorf("%s: %s: %s", level, r.ForbiddenReason(), r.ForbiddenDetail())
		}
	}
	pod.Spec.Containers[0].SecurityContext = nil // the check can fail
	results := evaluator.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()},
		&pod.ObjectMeta, &pod.Spec)
	if policy.AggregateCheckResults(results).Allowed {
		t.Error("a container without a security context is allowed")
	}
}
