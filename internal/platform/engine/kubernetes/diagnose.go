package kubernetes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"ingot/internal/base/background"
	"ingot/internal/platform/instance/agentproto"
)

// Level is how good a finding is.
type Level string

// The levels of findings.
const (
	OK   Level = "ok"
	Warn Level = "warn" // works, but not as well or as safely as it could
	Fail Level = "fail" // apps cannot run
)

// Finding is the result of one step of a diagnosis.
type Finding struct {
	Level Level
	Step  string
	Found string
	Do    string // what to do; empty if nothing
}

// Diagnosis tries a cluster step by step, as a server uses it. It leaves nothing behind.
type Diagnosis struct {
	Options
	// Reaches reports whether an instance can connect to the agent of another; nil means
	// that it is tried. A cluster whose Pods are processes has no network of its own.
	Reaches func(ctx context.Context, from, to string) bool
	// Settle is how long a network plugin may take to apply a policy; 0 means 15 seconds.
	Settle time.Duration

	engine *Engine
	report func(Finding)
}

// oldest is the oldest minor version of Kubernetes 1 that is supported.
const oldest = 31

// Run reports the result of each step. It stops at a step that the next ones need.
func (d Diagnosis) Run(ctx context.Context, report func(Finding)) {
	d.Settle = cmp.Or(d.Settle, 15*time.Second)
	d.report = report
	d.Install = "doctor" // so that the next diagnosis removes what a killed one left
	o := d.Options
	o.UserNamespaces = UserNamespacesOff // they have a step of their own
	e, err := prepare(o)
	if err != nil {
		d.add(Fail, "API server", err.Error(), "set --kubernetes-kubeconfig, or run this in a Pod of the servers")
		return
	}
	defer e.Close() //nolint:errcheck // it never fails
	d.engine = e
	for _, step := range []func(context.Context) bool{d.version, d.rights, d.security, d.connect, d.trial, d.network} {
		if ctx.Err() != nil || !step(ctx) {
			return
		}
	}
}

func (d *Diagnosis) add(level Level, step, found, do string) {
	d.report(Finding{level, step, found, do})
}

// failed reports an error whose text says after a semicolon what to do.
func (d *Diagnosis) failed(step string, err error) {
	found, do, told := strings.Cut(err.Error(), "; ")
	if !told {
		do = "look at the events of the cluster: kubectl get events -n " + d.Namespace
	}
	d.add(Fail, step, found, do)
}

// version checks that the API server answers, and its version.
func (d *Diagnosis) version(ctx context.Context) bool {
	const step = "API server"
	e := d.engine
	var v struct{ GitVersion, Minor string }
	err := func() error {
		ctx, cancel := context.WithTimeout(ctx, syncTime)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.server.JoinPath("version").String(), nil)
		if err != nil {
			return err
		}
		res, err := e.http.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(io.LimitReader(res.Body, 1<<16)) // a part is no valid JSON
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", res.StatusCode)
		}
		if err == nil {
			err = json.Unmarshal(body, &v)
		}
		return err
	}()
	if err != nil {
		d.add(Fail, step, err.Error(), "check the kubeconfig, and that this machine can connect to "+e.server.Host)
		return false
	}
	found := e.server.Host + ", " + v.GitVersion
	minor, err := strconv.Atoi(strings.TrimRight(v.Minor, "+"))
	if err != nil || minor < oldest {
		d.add(Fail, step, found, fmt.Sprintf("Kubernetes 1.%d or newer is needed", oldest))
		return true
	}
	d.add(OK, step, found, "")
	return true
}

var reviewResource = schema.GroupVersionResource{Group: "authorization.k8s.io", Version: "v1",
	Resource: "selfsubjectaccessreviews"}

// may asks whether this account may do something. An empty name means any object.
func (d *Diagnosis) may(ctx context.Context, verb, group, resource, name string) (bool, error) {
	resource, sub, _ := strings.Cut(resource, "/")
	attributes := object{"namespace": d.Namespace, "verb": verb, "group": group, "resource": resource, "subresource": sub,
		"name": name}
	answer, err := d.engine.client.Resource(reviewResource).Create(ctx, &unstructured.Unstructured{Object: object{
		"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
		"spec": object{"resourceAttributes": attributes},
	}}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	allowed, _, err := unstructured.NestedBool(answer.Object, "status", "allowed")
	return allowed, err
}

// excessive are rights that the servers do not need, and that would harm the cluster in
// the hands of an attacker.
var excessive = []struct{ verb, resource string }{
	{"get", "secrets"}, {"create", "pods/exec"}, {"create", "serviceaccounts/token"}, {"update", "pods"},
}

// rights checks that this account has the Role, and nothing dangerous beyond it.
func (d *Diagnosis) rights(ctx context.Context) bool {
	const step = "rights"
	n := 0
	var missing, beyond []string
	for _, p := range Role() {
		for _, verb := range p.Verbs {
			allowed, err := d.may(ctx, verb, p.Group, p.Resource, strings.Join(p.Names, ""))
			if err != nil {
				d.add(Warn, step, "cannot be asked: "+err.Error(), "the next steps try them")
				return true
			}
			if n++; !allowed {
				missing = append(missing, verb+" "+p.Resource)
			}
		}
	}
	if len(missing) > 0 {
		d.add(Fail, step, "missing: "+strings.Join(missing, ", "),
			"give this account the Role of the chart in the namespace "+d.Namespace+", which permits "+permitted())
		return true // the next steps may work nevertheless
	}
	for _, x := range excessive {
		if allowed, err := d.may(ctx, x.verb, "", x.resource, ""); err == nil && allowed {
			beyond = append(beyond, x.verb+" "+x.resource)
		}
	}
	if len(beyond) > 0 {
		d.add(Warn, step, fmt.Sprintf("all %d, and more than needed: %s", n, strings.Join(beyond, ", ")),
			"use the service account of the chart, which has the Role only")
		return true
	}
	d.add(OK, step, fmt.Sprintf("all %d of the Role, and no dangerous ones", n), "")
	return true
}

// security finds out which Pod Security level the namespace enforces, by Pods that are
// not really created.
func (d *Diagnosis) security(ctx context.Context) bool {
	const step = "Pod Security"
	admitted := func(spec object) (bool, error) {
		spec["restartPolicy"] = "Never"
		_, err := d.engine.pods.client.Create(ctx, &unstructured.Unstructured{Object: object{
			"apiVersion": "v1", "kind": "Pod",
			"metadata": object{"name": "doctor-" + uuid.NewString(), "namespace": d.Namespace}, "spec": spec,
		}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "PodSecurity") {
			return false, nil
		}
		return err == nil, err
	}
	container := func(more object) []any {
		return []any{object{"name": "app", "image": d.Image, "securityContext": more, "resources": object{
			"requests": object{"cpu": "10m", "memory": "16Mi"}, "limits": object{"memory": "16Mi"},
		}}}
	}
	plain, err := admitted(object{"containers": container(object{})})
	var privileged bool
	if err == nil {
		privileged, err = admitted(object{"hostNetwork": true, "hostPID": true, "containers": container(object{})})
	}
	label := "kubectl label namespace " + d.Namespace + " pod-security.kubernetes.io/enforce=restricted"
	switch {
	case apierrors.IsNotFound(err):
		d.add(Fail, step, err.Error(), "create the namespace: install the chart, or set --kubernetes-namespace")
		return false
	case err != nil:
		d.add(Warn, step, "not known: "+err.Error(), "the trial Pod shows what the cluster admits")
	case privileged:
		d.add(Warn, step, "the namespace admits privileged Pods", label)
	case plain:
		d.add(Warn, step, "the namespace enforces baseline", label)
	default:
		d.add(OK, step, "the namespace enforces restricted", "")
	}
	return true
}

// connect reads the owner of the Pods and starts to watch.
func (d *Diagnosis) connect(ctx context.Context) bool {
	if err := d.engine.connect(ctx); err != nil {
		d.failed("ConfigMap "+ownerName, err)
		return false
	}
	d.add(OK, "ConfigMap "+ownerName, "owns the Pods of apps", "")
	d.engine.removeTrials(ctx)
	return true
}

// trial runs a Pod, and one with a user namespace.
func (d *Diagnosis) trial(ctx context.Context) bool {
	e := d.engine
	e.separate.Store(false)
	began := time.Now()
	if err := e.tryPod(ctx, trialTime); err != nil {
		d.failed("trial Pod", err)
		return false
	}
	d.add(OK, "trial Pod", fmt.Sprintf("image pulled, agent reached, command run, in %.1f s", time.Since(began).Seconds()),
		"")

	const step = "user namespaces"
	if d.UserNamespaces == UserNamespacesOff {
		d.add(Warn, step, "off (--kubernetes-user-namespaces)", "")
		return true
	}
	e.separate.Store(true)
	err := e.tryPod(ctx, usernsTime)
	e.separate.Store(false)
	e.mu.Lock()
	got := e.userns != nil && *e.userns
	e.mu.Unlock()
	level := Warn
	if d.UserNamespaces == UserNamespacesOn {
		level = Fail
	}
	const get = "nodes need containerd 2.0, runc 1.2 and Linux 6.3 or newer; without them root in an instance is root " +
		"of its node's kernel"
	switch {
	case err != nil:
		d.add(level, step, "a Pod with one does not start: "+err.Error(), get)
	case !got:
		d.add(level, step, "the cluster ignores the field hostUsers", get)
	default:
		d.add(OK, step, "each instance has its own", "")
	}
	return true
}

// network finds out whether NetworkPolicies are enforced: an instance must not reach
// another one whose ingress is denied, and must reach it when it is allowed.
func (d *Diagnosis) network(ctx context.Context) bool {
	const step = "NetworkPolicies"
	one, two := uuid.NewString(), uuid.NewString()
	defer d.remove(ctx, one, two)
	for _, id := range []string{one, two} {
		limited, cancel := context.WithTimeout(ctx, trialTime)
		err := d.engine.start(limited, trialSpec(id))
		cancel()
		if err != nil {
			d.failed(step, trialError(err))
			return true
		}
	}
	deny, err := d.policy(ctx, "deny", two, "Ingress", nil)
	if err != nil {
		d.failed(step, stepError("create a NetworkPolicy", err))
		return true
	}
	defer deny()
	if !d.eventually(ctx, one, two, false) {
		d.add(Warn, step, "NOT enforced: an instance reached another one although a policy denies it",
			"use a network plugin that enforces them, for example Calico or Cilium; until then instances can reach each other "+
				"and everything in the cluster")
		return true
	}
	peer := func(id string) []any {
		return []any{object{"podSelector": object{"matchLabels": object{labelID: id}}}}
	}
	in, err := d.policy(ctx, "in", two, "Ingress", object{"from": peer(one)})
	if err == nil {
		defer in()
		var out func()
		if out, err = d.policy(ctx, "out", one, "Egress", object{"to": peer(two)}); err == nil {
			defer out()
		}
	}
	switch {
	case err != nil:
		d.failed(step, stepError("create a NetworkPolicy", err))
	case !d.eventually(ctx, one, two, true):
		d.add(Warn, step, "instances cannot reach each other, even where policies allow it",
			"look for other policies of the cluster: 'cf add-network-policy' has no effect")
	default:
		d.add(OK, step, "enforced", "")
	}
	return true
}

// remove removes instances of this diagnosis, which need not exist.
func (d *Diagnosis) remove(ctx context.Context, ids ...string) {
	clean, done := context.WithTimeout(context.WithoutCancel(ctx), takedown)
	defer done()
	for _, id := range ids {
		if err := d.engine.Remove(clean, id); err != nil {
			d.add(Warn, "NetworkPolicies", "a Pod of this check could not be deleted: "+err.Error(),
				"delete it: kubectl delete pod -n "+d.Namespace+" i-"+id)
		}
	}
}

// policy creates a policy for one instance; remove deletes it.
func (d *Diagnosis) policy(ctx context.Context, name, id, direction string, rule object) (remove func(), err error) {
	name = "ingot-doctor-" + name + "-" + id
	spec := object{"podSelector": object{"matchLabels": object{labelID: id}}, "policyTypes": []any{direction}}
	if rule != nil {
		spec[strings.ToLower(direction)] = []any{rule}
	}
	client := d.engine.client.Resource(policyResource).Namespace(d.Namespace)
	_, err = client.Create(ctx, &unstructured.Unstructured{Object: object{
		"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy",
		"metadata": object{"name": name, "namespace": d.Namespace}, "spec": spec,
	}}, metav1.CreateOptions{})
	return func() {
		clean, done := context.WithTimeout(context.WithoutCancel(ctx), agentTime)
		defer done()
		if err := client.Delete(clean, name, metav1.DeleteOptions{}); err != nil {
			d.add(Warn, "NetworkPolicies", "a policy of this check could not be deleted: "+err.Error(),
				"delete it: kubectl delete networkpolicy -n "+d.Namespace+" "+name)
		}
	}, err
}

// eventually waits until an instance reaches another one twice in a row, or does not.
func (d *Diagnosis) eventually(ctx context.Context, from, to string, want bool) bool {
	ctx, cancel := context.WithTimeout(ctx, d.Settle)
	defer cancel()
	reaches := d.Reaches
	if reaches == nil {
		reaches = d.dials
	}
	for row := 0; ; {
		if reaches(ctx, from, to) == want && ctx.Err() == nil {
			row++
		} else {
			row = 0
		}
		if row == 2 {
			return true
		}
		if !background.Sleep(ctx, lookAgain) {
			return false
		}
	}
}

// dials reports whether an instance can connect to the agent of another.
func (d *Diagnosis) dials(ctx context.Context, from, to string) bool {
	ctx, cancel := context.WithTimeout(ctx, agentTime)
	defer cancel()
	target, err := d.engine.pods.find(ctx, to)
	if err != nil {
		return false
	}
	c, err := d.engine.Dial(ctx, from, "tcp", joinPort(target.Status.PodIP, agentproto.Port))
	if err != nil {
		return false
	}
	return errors.Join(c.Close(), ctx.Err()) == nil
}
