// Package policytest evaluates NetworkPolicies as the API of Kubernetes defines them, so
// that tests can say who reaches whom without a cluster that enforces policies.
//
// It knows networking.k8s.io/v1 and nothing of Ingot.
//
// Imports: the standard library only.
package policytest
