package rest

import (
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// featureFlags are Cloud Foundry's feature flags with their defaults.
var featureFlags = map[string]bool{
	"user_org_creation": false, "private_domain_creation": true, "app_bits_upload": true, "app_scaling": true,
	"route_creation": true,
	"route_sharing":  false, "service_instance_creation": true, FlagDocker: false, "diego_cnb": false,
	"set_roles_by_username":   true,
	"unset_roles_by_username": true, "task_creation": true, "env_var_visibility": true,
	"space_scoped_private_broker_creation": true,
	"space_developer_env_var_visibility":   true, "service_instance_sharing": false,
	"hide_marketplace_from_unauthenticated_users": false,
	"resource_matching":                           true, FlagHashRouting: false,
}

const (
	// FlagHashRouting allows routes that are balanced by a header.
	FlagHashRouting = "hash_based_routing"
	// FlagDocker allows apps that are container images, also of administrators.
	FlagDocker = "diego_docker"
)

// Flag returns a feature flag, with its default if it is not set.
func Flag(tx platform.Tx, name string) (platform.FeatureFlag, error) {
	if _, ok := featureFlags[name]; !ok {
		return platform.FeatureFlag{}, fault.New(fault.NotFound, "Feature flag not found")
	}
	set, err := tx.FeatureFlags()
	return flagIn(set, name), err
}

// flagIn returns a feature flag from those that are set, or its default.
func flagIn(set []platform.FeatureFlag, name string) platform.FeatureFlag {
	if i := slices.IndexFunc(set, func(f platform.FeatureFlag) bool { return f.Name == name }); i >= 0 {
		return set[i]
	}
	return platform.FeatureFlag{Name: name, Enabled: featureFlags[name]}
}

// Flags returns all feature flags, in no order.
func Flags(tx platform.Tx) ([]platform.FeatureFlag, error) {
	set, err := tx.FeatureFlags()
	out := make([]platform.FeatureFlag, 0, len(featureFlags))
	for name := range featureFlags {
		out = append(out, flagIn(set, name))
	}
	return out, err
}

// FlagOn reports whether a feature is enabled for callers that are not
// administrators.
func FlagOn(tx platform.Tx, name string) (bool, error) {
	f, err := Flag(tx, name)
	return f.Enabled, err
}

// NeedFlag returns an error if the feature is disabled.
func (req *Request) NeedFlag(name string) error {
	if req.Caller.Admin {
		return nil
	}
	return NeedEnabled(req.Tx, name)
}

// NeedEnabled is like NeedFlag, for features that administrators cannot use either
// while they are disabled.
func NeedEnabled(tx platform.Tx, name string) error {
	f, err := Flag(tx, name)
	if err != nil || f.Enabled {
		return err
	}
	if f.CustomErrorMessage != "" {
		return fault.New(fault.FeatureDisabled, "Feature Disabled: %s", f.CustomErrorMessage)
	}
	return fault.New(fault.FeatureDisabled, "Feature Disabled: %s", name)
}
