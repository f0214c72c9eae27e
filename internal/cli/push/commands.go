package push

import (
	"slices"

	"ingot/internal/cli/core"
)

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return slices.Concat([]*core.Command{
		{Name: "push", Aliases: []string{"p"}, Group: core.GroupApps, Summary: "Upload, build and start an app", Args: "[APP] [flags]", Need: core.NeedsSpace, Progress: true,
			About: "APP can be omitted when the manifest names it. Files listed in .cfignore are not uploaded.", Example: []string{"push", "push my-app -b binary_buildpack -c ./my-app -m 64M", "push -f deploy/manifest.yml --var host=blue", "push my-app -p app.jar --no-start", "push my-app --strategy rolling", "push my-app --watch"}, Make: func() core.Runner { return &pushCommand{} }},
		devEntry,
		{Name: "create-app", Group: core.GroupApps, Summary: "Create an app without files", Args: "APP", Need: core.NeedsSpace, Example: []string{"create-app my-app"}, Make: func() core.Runner { return &createAppCommand{} }},
		{Name: "apply-manifest", Group: core.GroupApps, Summary: "Apply a manifest without pushing files", Args: "[-f FILE]", Need: core.NeedsSpace, Progress: true, Example: []string{"apply-manifest -f manifest.yml"}, Make: func() core.Runner { return &applyManifestCommand{} }},
	}, core.Last(packageCommands()))
}
