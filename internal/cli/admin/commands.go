package admin

import (
	"slices"

	"ingot/internal/cli/core"
)

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return slices.Concat([]*core.Command{
		{Name: "doctor", Group: core.GroupOther, Summary: "Check a machine or a cluster for what Ingot needs", Args: "[--engine kubernetes]",
			About:   "With --engine kubernetes it checks a cluster as a server would use it, with the values of the INGOT_ environment variables where flags are missing. It starts Pods and removes them. The exit status is 1 if something does not work.",
			Example: []string{"doctor", "doctor --engine kubernetes --kubernetes-kubeconfig ~/.kube/config --kubernetes-image registry.example.com/ingot/stack:0.1.0"}, Make: func() core.Runner { return &doctorCommand{} }},
		{Name: "buildpacks", Group: core.GroupOperate, Summary: "List buildpacks", Need: core.NeedsLogin, Example: []string{"buildpacks"}, Make: func() core.Runner { return &buildpacksCommand{} }},
		{Name: "stacks", Group: core.GroupOperate, Summary: "List stacks", Need: core.NeedsLogin, Example: []string{"stacks"}, Make: func() core.Runner { return &stacksCommand{} }},
		{Name: "feature-flags", Group: core.GroupOperate, Summary: "List feature flags", Need: core.NeedsLogin, Example: []string{"feature-flags"}, Make: func() core.Runner { return &featureFlagsCommand{} }},
		{Name: "enable-feature-flag", Group: core.GroupOperate, Summary: "Enable a feature flag", Args: "FLAG", Need: core.NeedsLogin, Example: []string{"enable-feature-flag user_org_creation"}, Make: func() core.Runner { return &switchFlagCommand{on: true} }},
		{Name: "disable-feature-flag", Group: core.GroupOperate, Summary: "Disable a feature flag", Args: "FLAG", Need: core.NeedsLogin, Example: []string{"disable-feature-flag user_org_creation"}, Make: func() core.Runner { return &switchFlagCommand{} }},
	}, core.Last(buildpackCommands(), settingCommands()))
}
