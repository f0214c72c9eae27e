package cli

import "slices"

// subjectAdmin returns the commands of this package.
func subjectAdmin() []*command {
	return slices.Concat([]*command{
		{name: "doctor", group: groupOther, summary: "Check a machine or a cluster for what Ingot needs", args: "[--engine kubernetes]",
			about:   "With --engine kubernetes it checks a cluster as a server would use it, with the values of the INGOT_ environment variables where flags are missing. It starts Pods and removes them. The exit status is 1 if something does not work.",
			example: []string{"doctor", "doctor --engine kubernetes --kubernetes-kubeconfig ~/.kube/config --kubernetes-image registry.example.com/ingot/stack:0.1.0"}, make: func() runner { return &doctorCommand{} }},
		{name: "buildpacks", group: groupOperate, summary: "List buildpacks", need: aLogin, example: []string{"buildpacks"}, make: func() runner { return &buildpacksCommand{} }},
		{name: "stacks", group: groupOperate, summary: "List stacks", need: aLogin, example: []string{"stacks"}, make: func() runner { return &stacksCommand{} }},
		{name: "feature-flags", group: groupOperate, summary: "List feature flags", need: aLogin, example: []string{"feature-flags"}, make: func() runner { return &featureFlagsCommand{} }},
		{name: "enable-feature-flag", group: groupOperate, summary: "Enable a feature flag", args: "FLAG", need: aLogin, example: []string{"enable-feature-flag user_org_creation"}, make: func() runner { return &switchFlagCommand{on: true} }},
		{name: "disable-feature-flag", group: groupOperate, summary: "Disable a feature flag", args: "FLAG", need: aLogin, example: []string{"disable-feature-flag user_org_creation"}, make: func() runner { return &switchFlagCommand{} }},
	}, last(buildpackCommands(), settingCommands()))
}
