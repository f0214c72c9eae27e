// Package podsecurity checks the Pods of apps against the types and the Pod Security
// Standards of Kubernetes. It is a module of its own, because Kubernetes' types are large
// and the product does not use them.
package podsecurity
