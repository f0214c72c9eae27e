// Package kubetest is a Kubernetes cluster for tests: an API server in this process
// whose Pods are processes of this machine.
//
//	engine ── HTTP ──▶ api ──▶ store (objects, versions, events) ──▶ watches
//	                    │         ▲ status
//	                    └──▶ kubelet: ingot-init --agent, at an address of 127.64.0.0/10
//
// It has the parts of the API that the Kubernetes engine uses: pods with their log,
// secrets, configmaps, poddisruptionbudgets and networkpolicies. It also does what a cluster
// does to its clients: watches end, repeat events and expire, the API server does not
// answer, nodes disappear, Pods are evicted, do not fit, or have no image. It enforces
// a Role and records which permissions were used.
//
// Imports: base/background, base/testkit,
// platform/engine/kubernetes/policytest, platform/engine/local,
// github.com/google/uuid.
package kubetest
