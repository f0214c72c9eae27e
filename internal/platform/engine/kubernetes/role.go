package kubernetes

import "strings"

// Permission is what a Role permits for one kind of object.
type Permission struct {
	Group    string // of the API; empty is the core group
	Resource string
	Names    []string // the only objects; nil means all of the namespace
	Verbs    []string
}

// Role returns the permissions that the engine needs in its namespace. The packaged Role
// has exactly these.
func Role() []Permission {
	change := []string{"create", "get", "list", "patch", "delete"}
	return []Permission{
		{Resource: "pods", Verbs: []string{"create", "get", "list", "watch", "delete"}},
		{Resource: "pods/log", Verbs: []string{"get"}},
		{Resource: "secrets", Verbs: []string{"create"}},
		{Resource: "configmaps", Names: []string{ownerName}, Verbs: []string{"get"}},
		{Group: "policy", Resource: "poddisruptionbudgets", Verbs: change},
		{Group: "networking.k8s.io", Resource: "networkpolicies", Verbs: change},
	}
}

// permitted returns the Role as text.
func permitted() string {
	var all []string
	for _, p := range Role() {
		all = append(all, p.Resource+" ("+strings.Join(p.Verbs, ", ")+")")
	}
	return strings.Join(all, ", ")
}
