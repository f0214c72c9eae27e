package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite packaging/kubernetes/ingot.yaml with helm")

const (
	chartDir    = "../packaging/helm"
	shippedFile = "../packaging/kubernetes/ingot.yaml"
	valuesFile  = "../packaging/kubernetes/values.yaml"
)

// A manifest is one object of a rendered chart.
type manifest struct {
	kind   string
	meta   metav1.ObjectMeta
	object any
}

// decode parses YAML documents. A field that the API does not have is an error.
func decode(t *testing.T, text []byte) []manifest {
	t.Helper()
	var all []manifest
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var header struct {
			metav1.TypeMeta   `json:",inline"`
			metav1.ObjectMeta `json:"metadata"`
		}
		if err := yaml.Unmarshal(document, &header); err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		if header.Kind == "" {
			continue // only comments
		}
		into := typed(header.APIVersion, header.Kind)
		if into == nil {
			t.Fatalf("%s %s is not among the kinds that the chart may contain", header.APIVersion, header.Kind)
		}
		if err := yaml.UnmarshalStrict(document, into); err != nil {
			t.Errorf("%s %s: %v", header.Kind, header.Name, err)
		}
		all = append(all, manifest{header.Kind, header.ObjectMeta, into})
	}
	return all
}

// typed returns a new object of a kind that the chart may contain: no custom
// resources, no webhooks, no rights in the whole cluster, nothing on every node.
func typed(version, kind string) any {
	switch version + " " + kind {
	case "v1 Namespace":
		return &corev1.Namespace{}
	case "v1 ServiceAccount":
		return &corev1.ServiceAccount{}
	case "v1 ConfigMap":
		return &corev1.ConfigMap{}
	case "v1 Secret":
		return &corev1.Secret{}
	case "v1 Service":
		return &corev1.Service{}
	case "apps/v1 Deployment":
		return &appsv1.Deployment{}
	case "batch/v1 Job":
		return &batchv1.Job{}
	case "batch/v1 CronJob":
		return &batchv1.CronJob{}
	case "rbac.authorization.k8s.io/v1 Role":
		return &rbacv1.Role{}
	case "rbac.authorization.k8s.io/v1 RoleBinding":
		return &rbacv1.RoleBinding{}
	case "policy/v1 PodDisruptionBudget":
		return &policyv1.PodDisruptionBudget{}
	case "networking.k8s.io/v1 NetworkPolicy":
		return &networkingv1.NetworkPolicy{}
	case "networking.k8s.io/v1 Ingress":
		return &networkingv1.Ingress{}
	case "scheduling.k8s.io/v1 PriorityClass":
		return &schedulingv1.PriorityClass{}
	case "monitoring.coreos.com/v1 ServiceMonitor":
		return &map[string]any{}
	}
	return nil
}

func shipped(t *testing.T) []manifest {
	t.Helper()
	text, err := os.ReadFile(shippedFile)
	if err != nil {
		t.Fatal(err)
	}
	return decode(t, text)
}

// find returns the object of a kind and name.
func find[T any](t *testing.T, all []manifest, name string) T {
	t.Helper()
	for _, m := range all {
		if found, ok := m.object.(T); ok && m.meta.Name == name {
			return found
		}
	}
	t.Fatalf("no %T named %s", *new(T), name)
	panic("unreachable")
}

// checkRestricted checks every Pod of the objects against Pod Security "restricted".
func checkRestricted(t *testing.T, all []manifest) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks())
	if err != nil {
		t.Fatal(err)
	}
	pods := 0
	for _, m := range all {
		var template corev1.PodTemplateSpec
		switch o := m.object.(type) {
		case *appsv1.Deployment:
			template = o.Spec.Template
		case *batchv1.Job:
			template = o.Spec.Template
		case *batchv1.CronJob:
			template = o.Spec.JobTemplate.Spec.Template
		default:
			continue
		}
		pods++
		level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
		result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &template.ObjectMeta, &template.Spec))
		if !result.Allowed {
			t.Errorf("%s %s: %s", m.kind, m.meta.Name, result.ForbiddenDetail())
		}
		for _, c := range slices.Concat(template.Spec.InitContainers, template.Spec.Containers) {
			if c.SecurityContext == nil || c.SecurityContext.ReadOnlyRootFilesystem == nil ||
				!*c.SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("%s %s: the root file system of %s can be written", m.kind, m.meta.Name, c.Name)
			}
		}
	}
	if pods == 0 {
		t.Error("no Pods found")
	}
}

func TestShippedManifests(t *testing.T) {
	t.Parallel()
	all := shipped(t)
	if len(all) < 15 {
		t.Errorf("%d objects, want at least 15", len(all))
	}
	checkRestricted(t, all)
	for _, name := range []string{"ingot-system", "ingot-apps"} {
		namespace := find[*corev1.Namespace](t, all, name)
		if got := namespace.Labels["pod-security.kubernetes.io/enforce"]; got != "restricted" {
			t.Errorf("namespace %s enforces %q, want restricted", name, got)
		}
	}
	deployment := find[*appsv1.Deployment](t, all, "ingot")
	if got := *deployment.Spec.Replicas; got != 3 {
		t.Errorf("%d servers, want 3", got)
	}
	if got := deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue(); got != 0 {
		t.Errorf("an upgrade stops %d servers before others are ready, want 0", got)
	}
	if got := find[*policyv1.PodDisruptionBudget](t, all, "ingot").Spec.MinAvailable.IntValue(); got != 2 {
		t.Errorf("a drain leaves %d servers, want 2", got)
	}
	deny := find[*networkingv1.NetworkPolicy](t, all, "ingot-deny")
	if len(deny.Spec.PodSelector.MatchLabels) > 0 || len(deny.Spec.Ingress) > 0 || len(deny.Spec.Egress) > 0 ||
		len(deny.Spec.PolicyTypes) != 2 {
		t.Errorf("the policy %+v does not deny all traffic of instances", deny.Spec)
	}
}

// TestRole compares what the servers may do with the list in the documentation.
func TestRole(t *testing.T) {
	t.Parallel()
	all := shipped(t)
	role := find[*rbacv1.Role](t, all, "ingot")
	var got []string
	for _, r := range role.Rules {
		for _, resource := range r.Resources {
			got = append(got, fmt.Sprintf("%s%s: %s", resource, strings.Join(r.ResourceNames, ","), strings.Join(r.Verbs, " ")))
		}
	}
	want := []string{
		"pods: create get list watch delete",
		"pods/log: get",
		"secrets: create", // credentials of registries, which it cannot read again
		"networkpolicies: create get list patch delete",
		"poddisruptionbudgets: create get list patch delete",
		"configmapsingot-install: get",
	}
	if role.Namespace != "ingot-apps" || !slices.Equal(got, want) {
		t.Errorf("the role in %s allows %q, want %q in ingot-apps", role.Namespace, got, want)
	}
	for _, m := range all {
		if m.kind == "Role" && m.meta.Name != "ingot" {
			t.Errorf("another role: %s", m.meta.Name)
		}
	}
	binding := find[*rbacv1.RoleBinding](t, all, "ingot")
	if len(binding.Subjects) != 1 || binding.Subjects[0].Name != "ingot" ||
		binding.Subjects[0].Namespace != "ingot-system" {
		t.Errorf("the role is bound to %+v, want the account of the servers only", binding.Subjects)
	}
	account := find[*corev1.ServiceAccount](t, all, "ingot-app")
	if account.AutomountServiceAccountToken == nil || *account.AutomountServiceAccountToken {
		t.Error("instances get a token of their account")
	}
}

// TestUninstallKeepsApps checks that Helm does not remove what instances need.
func TestUninstallKeepsApps(t *testing.T) {
	t.Parallel()
	kept := 0
	for _, m := range shipped(t) {
		inApps := m.meta.Namespace == "ingot-apps" && m.kind != "Role" && m.kind != "RoleBinding"
		if inApps || m.kind == "Namespace" {
			kept++
			if got := m.meta.Annotations["helm.sh/resource-policy"]; got != "keep" {
				t.Errorf("%s %s: resource policy %q, want keep", m.kind, m.meta.Name, got)
			}
		}
	}
	if kept < 5 {
		t.Errorf("%d objects are kept, want at least 5", kept)
	}
}

// helm runs Helm, which `make test-kubernetes` provides.
func helm(t *testing.T, args ...string) []byte {
	t.Helper()
	program := os.Getenv("HELM_BIN")
	if program == "" {
		t.Skip("HELM_BIN is not set: make test-kubernetes sets it")
	}
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), patience) // also at the end of a test
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "KUBECONFIG=" + os.Getenv("KUBECONFIG")}
	var messages strings.Builder
	cmd.Stderr = &messages
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, out, messages.String())
	}
	return out
}

func template(t *testing.T, args ...string) []byte {
	t.Helper()
	return helm(t, append([]string{"template", "ingot", chartDir, "--namespace", "ingot-system", "--kube-version",
		"1.34.3"}, args...)...)
}

const shippedHeader = "# Generated from packaging/helm with packaging/kubernetes/values.yaml:\n" +
	"#   HELM_BIN=helm go -C cluster test -run TestChart -update .\n"

// TestChart compares the shipped manifests with the chart.
func TestChart(t *testing.T) {
	t.Parallel()
	got := append([]byte(shippedHeader), template(t, "--values", valuesFile)...)
	if *update {
		if err := os.WriteFile(shippedFile, got, 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(shippedFile)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the chart renders; run the command in its first lines", shippedFile)
	}
}

// TestChartOptions renders the chart with everything enabled, and with little.
func TestChartOptions(t *testing.T) {
	t.Parallel()
	helm(t, "lint", "--strict", chartDir)
	everything := filepath.Join(t.TempDir(), "values.yaml")
	err := os.WriteFile(everything, []byte(`
image: {digest: "sha256:0000000000000000000000000000000000000000000000000000000000000000"}
imagePullSecrets: [registry]
secret: {create: true, values: {INGOT_DATABASE_URL: "postgres://a:b@db/ingot"}}
environment: {INGOT_LOG_LEVEL: debug, INGOT_DISK_RESERVE: 64}
namespaces: {system: {create: true}}
service: {web: {annotations: {a: b}}}
backup: {schedule: "30 2 * * *", timeZone: Europe/Berlin, target: "s3://backups/ingot"}
ingress: {enabled: true, className: nginx, tlsSecret: tls, annotations: {a: b}}
networkPolicies: {metricsFrom: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: monitoring}}}]}
priorityClass: {create: true}
serviceMonitor: {enabled: true}
nodeSelector: {disk: fast}
tolerations: [{key: a, operator: Exists}]
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	all := decode(t, template(t, "--values", everything))
	checkRestricted(t, all)
	var hosts []string
	for _, rule := range find[*networkingv1.Ingress](t, all, "ingot").Spec.Rules {
		hosts = append(hosts, rule.Host)
	}
	// A wildcard stands for one label, and apps are below apps.DOMAIN.
	if want := []string{"ingot.example.com", "*.ingot.example.com",
		"*.apps.ingot.example.com"}; !slices.Equal(hosts, want) {
		t.Errorf("the Ingress has the hosts %q, want %q", hosts, want)
	}
	find[*schedulingv1.PriorityClass](t, all, "ingot-app")
	find[*corev1.Secret](t, all, "ingot")
	if image := find[*appsv1.Deployment](t, all, "ingot").Spec.Template.Spec.Containers[0].Image; !strings.Contains(image,
		"@sha256:") {
		t.Errorf("image %s, want the one with the digest", image)
	}

	one := decode(t, template(t, "--set", "replicas=1,networkPolicies.enabled=false,namespaces.apps.create=false"))
	checkRestricted(t, one)
	for _, m := range one {
		if slices.Contains([]string{"PodDisruptionBudget", "NetworkPolicy", "Namespace"}, m.kind) {
			t.Errorf("%s %s exists, though it is disabled", m.kind, m.meta.Name)
		}
	}
}
