package kubernetes

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/agent"
	"ingot/internal/platform/instance/agentproto"
)

// Names of the cluster that the chart creates too.
const (
	ownerName      = "ingot-install" // the ConfigMap that owns all Pods
	serviceAccount = "ingot-app"     // without any permission

	labelInstall = "ingot.dev/install"
	labelKind    = "ingot.dev/kind"
	labelProcess = "ingot.dev/process"
	labelVersion = "ingot.dev/version"
	labelID      = "ingot.dev/instance"

	// LabelSegment is the label of nodes that run the apps of an isolation segment: its
	// name. Nodes without it run the others. A taint with the same key keeps the Pods of
	// others away.
	LabelSegment = "ingot.dev/isolation-segment"

	annotationLabels = "ingot.dev/labels"
	annotationLimits = "ingot.dev/limits"
	annotationKeys   = "ingot.dev/keys"

	containerName = "app"
	user          = 2000 // vcap

	// The grace period of a Pod: the hook, the app's grace, and time to read its records.
	preStop     = 5
	gracePeriod = 35
	// moveAfter is how long Kubernetes leaves a Pod on a node that does not answer.
	moveAfter = 30

	// extraDisk is for the container's log and its records, which count as its disk.
	extraDisk = 96 << 20
)

// The defaults of engine.Limits.
const (
	defaultMemory = 1 << 30
	defaultDisk   = 1 << 30
)

// selectable are the labels of an engine.Spec that Pods are selected by.
var selectable = []string{"app", "process", "version"}

// podName returns the name of an instance's Pod: i for an instance of an app, t for a task,
// b for a build.
func podName(id string, labels map[string]string) string {
	switch kindOf(labels) {
	case kindTask:
		return "t-" + id
	case kindBuild:
		return "b-" + id
	}
	return "i-" + id
}

// The kinds of instances, as labels of Pods.
const (
	kindApp   = "app"
	kindTask  = "task"
	kindBuild = "build"
	kindTrial = "trial"
)

func kindOf(labels map[string]string) string {
	switch kind := labels["kind"]; kind {
	case kindTask, kindTrial:
		return kind
	case "staging":
		return kindBuild
	}
	return kindApp
}

// checkID rejects an id that cannot be part of a Pod's name and a label's value.
func checkID(id string) error {
	if len(id) > 60 || !dnsName().MatchString(id) {
		return fmt.Errorf("instance id %q: only lower-case ASCII alphanumerics and '-' are allowed, at most 60", id)
	}
	return nil
}

// checkPorts rejects the ports of the agent.
func checkPorts(s engine.Spec) error {
	for _, port := range s.Ports {
		if port == agentproto.Port || port == agentproto.ReadyPort {
			return fault.New(fault.Unprocessable, "port %d is reserved for the platform: choose another", port)
		}
	}
	return nil
}

// labelValue matches the values that labels can have.
var labelValue = pattern.OnUse(`^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$`)

// checkSegment rejects an isolation segment that no node can have as a label.
func checkSegment(name string) error {
	if name != "" && !labelValue().MatchString(name) {
		return fault.New(fault.Unprocessable,
			"the isolation segment %q cannot be used on Kubernetes, where its name must be the value of a label: at most 63 "+
				"characters, ASCII alphanumerics and '-', '_' or '.' between them", name)
	}
	return nil
}

// nodesOf restricts a Pod to the nodes of its isolation segment, without those to avoid.
func nodesOf(spec object, segment string, avoid []string) {
	term := object{} // one, because a node has to match only one of several
	if segment == "" {
		term["matchExpressions"] = []any{object{"key": LabelSegment, "operator": "DoesNotExist"}}
	} else {
		spec["nodeSelector"] = object{LabelSegment: segment}
		tolerations, _ := spec["tolerations"].([]any)
		spec["tolerations"] = append(tolerations, object{"key": LabelSegment, "operator": "Equal", "value": segment})
	}
	if len(avoid) > 0 {
		fields := make([]any, 0, len(avoid))
		for _, node := range avoid { // the API permits one name for each
			fields = append(fields, object{"key": "metadata.name", "operator": "NotIn", "values": []any{node}})
		}
		term["matchFields"] = fields
	}
	if len(term) == 0 {
		return
	}
	affinity, _ := spec["affinity"].(object)
	if affinity == nil {
		affinity = object{}
	}
	affinity["nodeAffinity"] = object{"requiredDuringSchedulingIgnoredDuringExecution": object{
		"nodeSelectorTerms": []any{term}}}
	spec["affinity"] = affinity
}

// object is an object of the API.
type object = map[string]any

// podOf returns the Pod of an instance. It contains nothing of the app but guids.
func (e *Engine) podOf(ctx context.Context, s engine.Spec) (object, error) {
	labels, err := json.Marshal(s.Labels)
	if err != nil {
		return nil, err
	}
	limits, err := json.Marshal(s.Limits)
	if err != nil {
		return nil, err
	}
	k := e.newestKeys()
	annotations := object{
		annotationLabels: string(labels), annotationLimits: string(limits), annotationKeys: k.ID(),
		"cluster-autoscaler.kubernetes.io/safe-to-evict": "true",
	}
	spec := e.podSpec(s, k)
	if s.Launch.OneOff && s.Launch.Timeout > 0 {
		spec["activeDeadlineSeconds"] = int64((s.Launch.Timeout + lingerOf(s) + startLimit) / time.Second)
	}
	pod := object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{
			"name": podName(s.ID, s.Labels), "namespace": e.options.Namespace,
			"labels": e.labelsOf(s), "annotations": annotations,
			"ownerReferences": []any{object{"apiVersion": "v1", "kind": "ConfigMap", "name": ownerName, "uid": e.ownerUID(),
				"controller": true}},
		},
		"spec": spec,
	}
	if s.Image == nil {
		return pod, nil
	}
	who, err := accountOf(ctx, *s.Image)
	if err != nil {
		return nil, err
	}
	return pod, e.inImage(pod, s, who)
}

func (e *Engine) labelsOf(s engine.Spec) object {
	labels := object{labelInstall: e.install, labelKind: kindOf(s.Labels), labelID: s.ID}
	for _, name := range selectable {
		if value := s.Labels[name]; dnsName().MatchString(value) {
			labels["ingot.dev/"+name] = value
		}
	}
	if dnsName().MatchString(s.Zone.Space) {
		labels[labelSpace] = s.Zone.Space
	}
	return labels
}

func (e *Engine) podSpec(s engine.Spec, k agent.Keys) object {
	toleration := func(key string) object {
		return object{"key": "node.kubernetes.io/" + key, "operator": "Exists", "effect": "NoExecute",
			"tolerationSeconds": int64(moveAfter)}
	}
	spec := object{
		"restartPolicy":                 "Never",
		"automountServiceAccountToken":  false,
		"serviceAccountName":            serviceAccount,
		"enableServiceLinks":            false,
		"terminationGracePeriodSeconds": int64(gracePeriod),
		"securityContext": object{
			"runAsNonRoot": true, "runAsUser": int64(user), "runAsGroup": int64(user), "fsGroup": int64(user),
			"fsGroupChangePolicy": "OnRootMismatch", "seccompProfile": object{"type": "RuntimeDefault"},
		},
		"tolerations": []any{toleration("not-ready"), toleration("unreachable")},
		"containers":  []any{e.container(s, k)},
		"volumes": []any{e.homeVolume(s.Limits),
			object{"name": "tmp", "emptyDir": object{"sizeLimit": quantity(diskOf(s.Limits))}}},
	}
	if e.separate.Load() {
		spec["hostUsers"] = false
	}
	if e.options.PriorityClass != "" {
		spec["priorityClassName"] = e.options.PriorityClass
	}
	if process := s.Labels["process"]; dnsName().MatchString(process) {
		same := object{labelProcess: process}
		if version := s.Labels["version"]; dnsName().MatchString(version) {
			same[labelVersion] = version
		}
		selector := object{"matchLabels": same}
		spec["topologySpreadConstraints"] = []any{object{
			"maxSkew": int64(1), "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
			"labelSelector": selector,
		}}
		// Not a second constraint: the scheduler ignores all of them on nodes that lack the
		// label of one, and only clusters of clouds have zones.
		spec["affinity"] = object{"podAntiAffinity": object{"preferredDuringSchedulingIgnoredDuringExecution": []any{object{
			"weight": int64(100), "podAffinityTerm": object{"topologyKey": "topology.kubernetes.io/zone",
				"labelSelector": selector},
		}}}}
	}
	nodesOf(spec, s.Segment, e.avoid())
	return spec
}

func (e *Engine) container(s engine.Spec, k agent.Keys) object {
	variables := agent.Environment(s.ID, agent.Seed(k.Key, s.ID), k.Authority.Certificate())
	env := make([]any, 0, len(variables)+1)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		env = append(env, object{"name": name, "value": variables[name]})
	}
	env = append(env, object{"name": agentproto.EnvIP,
		"valueFrom": object{"fieldRef": object{"fieldPath": "status.podIP"}}})
	ports := []any{object{"name": "agent", "containerPort": int64(agentproto.Port)}}
	for _, port := range s.Ports {
		ports = append(ports, object{"name": "p" + strconv.Itoa(port), "containerPort": int64(port)})
	}
	c := object{
		"name": containerName, "image": e.options.Image, "imagePullPolicy": "IfNotPresent",
		"command":   []any{initInside, "--agent"},
		"env":       env,
		"ports":     ports,
		"lifecycle": object{"preStop": object{"sleep": object{"seconds": int64(preStop)}}},
		"resources": e.resources(s),
		"securityContext": object{
			"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": object{"drop": []any{"ALL"}},
		},
		"volumeMounts": []any{object{"name": "home", "mountPath": home}, object{"name": "tmp", "mountPath": "/tmp"}},
	}
	if !s.Launch.OneOff {
		c["readinessProbe"] = object{"tcpSocket": object{"port": int64(agentproto.ReadyPort)}, "periodSeconds": int64(5),
			"failureThreshold": int64(1)}
	}
	return c
}

// homeVolume returns the volume of the home directory: a directory on the node, or with a
// storage class its own volume, whose size is a hard limit.
func (e *Engine) homeVolume(l engine.Limits) object {
	if e.options.DiskClass == "" {
		return object{"name": "home", "emptyDir": object{"sizeLimit": quantity(diskOf(l))}}
	}
	return object{"name": "home", "ephemeral": object{"volumeClaimTemplate": object{"spec": object{
		"accessModes": []any{"ReadWriteOnce"}, "storageClassName": e.options.DiskClass,
		"resources": object{"requests": object{"storage": quantity(diskOf(l))}},
	}}}}
}

// resources returns the requests and limits of an instance. The processor share follows
// from its memory, as in Cloud Foundry.
func (e *Engine) resources(s engine.Spec) object {
	memory, disk := memoryOf(s.Limits), diskOf(s.Limits)
	milli := max(10, min(memory, 8<<30)*100>>30)
	requests := object{"cpu": fmt.Sprintf("%dm", milli), "memory": quantity(memory)}
	limits := object{"memory": quantity(memory)}
	if e.options.DiskClass == "" || s.Image != nil { // what an image writes is on the node's disk
		requests["ephemeral-storage"] = quantity(disk)
		limits["ephemeral-storage"] = quantity(disk + extraDisk)
	}
	if e.options.CPULimit {
		limits["cpu"] = fmt.Sprintf("%dm", max(100, 10*milli))
	}
	return object{"requests": requests, "limits": limits}
}

func memoryOf(l engine.Limits) int64 {
	if l.Memory <= 0 {
		return defaultMemory
	}
	return l.Memory
}

func diskOf(l engine.Limits) int64 {
	if l.Disk <= 0 {
		return defaultDisk
	}
	return l.Disk
}

// quantity returns bytes as Kubernetes writes them.
func quantity(n int64) string {
	if n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "Mi"
	}
	return strconv.FormatInt(n, 10)
}

// InstallName returns the name of an installation in labels, which follows from its
// first key.
func InstallName(key []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("install"))
	return hex.EncodeToString(mac.Sum(nil)[:6])
}

// pod is what the engine reads of a Pod.
type pod struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NodeName     string            `json:"nodeName"`
		NodeSelector map[string]string `json:"nodeSelector"`
		Containers   []struct {
			Image string `json:"image"`
			Ports []struct {
				Name          string `json:"name"`
				ContainerPort int    `json:"containerPort"`
			} `json:"ports"`
		} `json:"containers"`
	} `json:"spec"`
	Status podStatus `json:"status"`
}

type podStatus struct {
	Phase             string      `json:"phase"`
	Reason            string      `json:"reason"`
	Message           string      `json:"message"`
	PodIP             string      `json:"podIP"`
	Conditions        []condition `json:"conditions"`
	ContainerStatuses []struct {
		State containerState `json:"state"`
	} `json:"containerStatuses"`
	InitContainerStatuses []struct {
		State containerState `json:"state"`
	} `json:"initContainerStatuses"`
}

type condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type containerState struct {
	Waiting *struct {
		Reason  string `json:"reason"`
		Message string `json:"message"`
	} `json:"waiting"`
	Running    *struct{} `json:"running"`
	Terminated *struct {
		ExitCode int    `json:"exitCode"`
		Reason   string `json:"reason"`
		Message  string `json:"message"`
	} `json:"terminated"`
}

func (p *pod) container() containerState {
	if len(p.Status.ContainerStatuses) == 0 {
		return containerState{}
	}
	return p.Status.ContainerStatuses[0].State
}

// first returns the state of the container that runs before that of the app; nil if there is
// none.
func (p *pod) first() *containerState {
	if len(p.Status.InitContainerStatuses) == 0 {
		return nil
	}
	return &p.Status.InitContainerStatuses[0].State
}

// id returns the instance of a Pod.
func (p *pod) id() string { return p.Labels[labelID] }

// over reports whether the Pod's container has ended and does not start again.
func (p *pod) over() bool {
	c := p.container()
	// A kubelet that is short of resources sets the phase Failed before the container has
	// ended.
	return c.Terminated != nil || c.Running == nil && (p.Status.Phase == "Succeeded" || p.Status.Phase == "Failed")
}

// reachable reports whether an agent can be dialed.
func (p *pod) reachable() bool {
	return p.Status.PodIP != "" && p.container().Running != nil && !p.over()
}

func (p *pod) labels() map[string]string {
	var labels map[string]string
	if json.Unmarshal([]byte(p.Annotations[annotationLabels]), &labels) != nil {
		return nil
	}
	return labels
}

func (p *pod) limits() engine.Limits {
	var l engine.Limits
	_ = json.Unmarshal([]byte(p.Annotations[annotationLimits]), &l) // zero if it was edited
	return l
}

// ports returns the ports of the engine.Spec.
func (p *pod) ports() []engine.Port {
	var ports []engine.Port
	for _, c := range p.Spec.Containers {
		for _, one := range c.Ports {
			if strings.HasPrefix(one.Name, "p") {
				ports = append(ports, engine.Port{Inside: one.ContainerPort, Listens: one.ContainerPort,
					Address: joinPort(p.Status.PodIP, one.ContainerPort)})
			}
		}
	}
	return ports
}

func (p *pod) condition(kind string) (condition, bool) {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c, true
		}
	}
	return condition{}, false
}
