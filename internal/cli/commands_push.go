package cli

import "slices"

// subjectPush returns the commands of this package.
func subjectPush() []*command {
	return slices.Concat([]*command{
		{name: "push", aliases: []string{"p"}, group: groupApps, summary: "Upload, build and start an app", args: "[APP] [flags]", need: aSpace, progress: true,
			about: "APP can be omitted when the manifest names it. Files listed in .cfignore are not uploaded.", example: []string{"push", "push my-app -b binary_buildpack -c ./my-app -m 64M", "push -f deploy/manifest.yml --var host=blue", "push my-app -p app.jar --no-start", "push my-app --strategy rolling", "push my-app --watch"}, make: func() runner { return &pushCommand{} }},
		devEntry,
		{name: "create-app", group: groupApps, summary: "Create an app without files", args: "APP", need: aSpace, example: []string{"create-app my-app"}, make: func() runner { return &createAppCommand{} }},
		{name: "apply-manifest", group: groupApps, summary: "Apply a manifest without pushing files", args: "[-f FILE]", need: aSpace, progress: true, example: []string{"apply-manifest -f manifest.yml"}, make: func() runner { return &applyManifestCommand{} }},
	}, last(packageCommands()))
}
