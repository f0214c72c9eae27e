package api

import (
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// featureFlags are Cloud Foundry's feature flags with their defaults.
var featureFlags = map[string]bool{
	"user_org_creation": false, "private_domain_creation": true, "app_bits_upload": true, "app_scaling": true, "route_creation": true,
	"route_sharing": false, "service_instance_creation": true, flagDocker: false, "diego_cnb": false, "set_roles_by_username": true,
	"unset_roles_by_username": true, "task_creation": true, "env_var_visibility": true, "space_scoped_private_broker_creation": true,
	"space_developer_env_var_visibility": true, "service_instance_sharing": false, "hide_marketplace_from_unauthenticated_users": false,
	"resource_matching": true, flagHashRouting: false,
}

const (
	// flagHashRouting allows routes that are balanced by a header.
	flagHashRouting = "hash_based_routing"
	// flagDocker allows apps that are container images, also of administrators.
	flagDocker = "diego_docker"
)

// flagNamed returns a feature flag, with its default if it is not set.
func flagNamed(tx platform.Tx, name string) (platform.FeatureFlag, error) {
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

// flagOn reports whether a feature is enabled for callers that are not
// administrators.
func flagOn(tx platform.Tx, name string) (bool, error) {
	f, err := flagNamed(tx, name)
	return f.Enabled, err
}

// needFlag returns an error if the feature is disabled.
func (req *request) needFlag(name string) error {
	if req.caller.Admin {
		return nil
	}
	return needEnabled(req.tx, name)
}

// needEnabled is like needFlag, for features that administrators cannot use either
// while they are disabled.
func needEnabled(tx platform.Tx, name string) error {
	f, err := flagNamed(tx, name)
	if err != nil || f.Enabled {
		return err
	}
	if f.CustomErrorMessage != "" {
		return fault.New(fault.FeatureDisabled, "Feature Disabled: %s", f.CustomErrorMessage)
	}
	return fault.New(fault.FeatureDisabled, "Feature Disabled: %s", name)
}
