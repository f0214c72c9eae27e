package apps

import (
	"slices"

	"ingot/internal/cli/core"
)

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return slices.Concat([]*core.Command{
		{Name: "start", Aliases: []string{"st"}, Group: core.GroupApps, Summary: "Start an app", Args: "APP", Need: core.NeedsSpace, Progress: true, Example: []string{"start my-app"}, Make: func() core.Runner { return &startCommand{} }},
		{Name: "stop", Aliases: []string{"sp"}, Group: core.GroupApps, Summary: "Stop an app", Args: "APP", Need: core.NeedsSpace, Example: []string{"stop my-app"}, Make: func() core.Runner { return &stopCommand{} }},
		{Name: "restart", Aliases: []string{"rs"}, Group: core.GroupApps, Summary: "Restart an app", Args: "APP [--strategy rolling|canary]", Need: core.NeedsSpace, Progress: true, Example: []string{"restart my-app", "restart my-app --strategy rolling --max-in-flight 2"}, Make: func() core.Runner { return &restartCommand{} }},
		{Name: "restage", Aliases: []string{"rg"}, Group: core.GroupApps, Summary: "Rebuild an app from its newest package and restart it", Args: "APP [--strategy rolling|canary]", Need: core.NeedsSpace, Progress: true, Example: []string{"restage my-app", "restage my-app --strategy rolling"}, Make: func() core.Runner { return &restageCommand{} }},
		{Name: "continue-deployment", Group: core.GroupApps, Summary: "Continue a paused canary deployment", Args: "APP [--no-wait]", Need: core.NeedsSpace, Progress: true, Example: []string{"continue-deployment my-app"}, Make: func() core.Runner { return &continueDeploymentCommand{} }},
		{Name: "cancel-deployment", Group: core.GroupApps, Summary: "Cancel a deployment and restore the previous version", Args: "APP", Need: core.NeedsSpace, Progress: true, Example: []string{"cancel-deployment my-app"}, Make: func() core.Runner { return &cancelDeploymentCommand{} }},
		{Name: "scale", Group: core.GroupApps, Summary: "Change or show an app's instances, memory and disk", Args: "APP [-i N] [-m SIZE] [-k SIZE]", Need: core.NeedsSpace, Progress: true, Example: []string{"scale my-app -i 3", "scale my-app -m 256M -f"}, Make: func() core.Runner { return &scaleCommand{} }},
		{Name: "run-task", Aliases: []string{"rt"}, Group: core.GroupApps, Summary: "Run a one-off command in an app's environment", Args: "APP --command COMMAND [--name NAME] [--wait]", Need: core.NeedsSpace, Progress: true,
			About:   "A task runs in its own instance, which stops when the command exits. Its output is in the app's logs with the source APP/TASK/NAME.",
			Example: []string{"run-task my-app --command './migrate --all' --name migrate --wait", "run-task my-app --process worker -m 512M"}, Make: func() core.Runner { return &runTaskCommand{} }},
		{Name: "terminate-task", Group: core.GroupApps, Summary: "Cancel a running task", Args: "APP ID", Need: core.NeedsSpace, Example: []string{"terminate-task my-app 3"}, Make: func() core.Runner { return &terminateTaskCommand{} }},
		{Name: "rename", Group: core.GroupApps, Summary: "Rename an app", Args: "APP NEW_NAME", Need: core.NeedsSpace, Example: []string{"rename my-app your-app"}, Make: func() core.Runner { return &renameCommand{} }},
		{Name: "delete", Aliases: []string{"d"}, Group: core.GroupApps, Summary: "Delete an app", Args: "APP [-f] [-r]", Need: core.NeedsSpace, Progress: true, Example: []string{"delete my-app -f -r"}, Make: func() core.Runner { return &deleteCommand{} }},
		{Name: "env", Aliases: []string{"e"}, Group: core.GroupApps, Summary: "Show an app's environment variables", Args: "APP", Need: core.NeedsSpace, Example: []string{"env my-app"}, Make: func() core.Runner { return &envCommand{} }},
		{Name: "set-env", Aliases: []string{"se"}, Group: core.GroupApps, Summary: "Set an environment variable of an app", Args: "APP NAME VALUE", Need: core.NeedsSpace, Example: []string{"set-env my-app GREETING 'good morning'"}, Make: func() core.Runner { return &setEnvCommand{} }},
		{Name: "unset-env", Aliases: []string{"ue"}, Group: core.GroupApps, Summary: "Remove an environment variable of an app", Args: "APP NAME", Need: core.NeedsSpace, Example: []string{"unset-env my-app GREETING"}, Make: func() core.Runner { return &unsetEnvCommand{} }},
		{Name: "apps", Aliases: []string{"a"}, Group: core.GroupInspect, Summary: "List the apps in the target space", Need: core.NeedsSpace, Example: []string{"apps", "apps --json"}, Make: func() core.Runner { return &appsCommand{} }},
		{Name: "app", Group: core.GroupInspect, Summary: "Show an app's status", Args: "APP", Need: core.NeedsSpace, Example: []string{"app my-app", "app my-app --requests", "app my-app --guid"}, Make: func() core.Runner { return &appCommand{} }},
		{Name: "logs", Group: core.GroupInspect, Summary: "Show or follow an app's logs", Args: "APP [--recent]", Need: core.NeedsSpace,
			Example: []string{"logs my-app", "logs my-app --recent --no-router", "logs my-app --process web --sidecar config-server"}, Make: func() core.Runner { return &logsCommand{} }},
		{Name: "ssh", Group: core.GroupInspect, Summary: "Open a shell in an app instance or forward ports to it", Args: "APP [-c COMMAND] [-i INDEX] [-L PORT:HOST:PORT]", Need: core.NeedsSpace,
			Example: []string{"ssh my-app", "ssh my-app -c 'ls -l'", "ssh my-app -N -L 5432:localhost:5432"}, Make: func() core.Runner { return &sshCommand{} }},
		{Name: "events", Group: core.GroupInspect, Summary: "Show recent events of an app", Args: "APP", Need: core.NeedsSpace, Example: []string{"events my-app"}, Make: func() core.Runner { return &eventsCommand{} }},
		{Name: "tasks", Group: core.GroupInspect, Summary: "List an app's tasks", Args: "APP", Need: core.NeedsSpace, Example: []string{"tasks my-app"}, Make: func() core.Runner { return &tasksCommand{} }},
		{Name: "task", Group: core.GroupInspect, Summary: "Show a task of an app", Args: "APP ID", Need: core.NeedsSpace, Example: []string{"task my-app 3"}, Make: func() core.Runner { return &taskCommand{} }},
		topEntry,
		{Name: "restart-app-instance", Group: core.GroupApps, Summary: "Restart one instance of an app", Args: "APP INDEX [--process TYPE]", Need: core.NeedsSpace, Example: []string{"restart-app-instance my-app 0"}, Make: func() core.Runner { return &restartInstanceCommand{} }},
		{Name: "download-droplet", Group: core.GroupApps, Summary: "Download an app's droplet", Args: "APP [--path FILE]", Need: core.NeedsSpace, Progress: true, Example: []string{"download-droplet my-app --path my-app.tgz"}, Make: func() core.Runner { return &downloadDropletCommand{} }},
		{Name: "set-droplet", Group: core.GroupApps, Summary: "Set an app's current droplet", Args: "APP DROPLET_GUID", Need: core.NeedsSpace, Example: []string{"set-droplet my-app 1b2c3d"}, Make: func() core.Runner { return &setDropletCommand{} }},
		{Name: "rollback", Group: core.GroupApps, Summary: "Roll back an app to a revision", Args: "APP --version N [--strategy rolling|canary]", Need: core.NeedsSpace, Progress: true,
			About: "A rollback creates a new revision. It restores droplet, environment variables, commands, sidecars and settings of processes; the number of instances stays.", Example: []string{"rollback my-app --version 3", "rollback my-app --version 3 --strategy canary -f"}, Make: func() core.Runner { return &rollbackCommand{} }},
		{Name: "enable-ssh", Group: core.GroupApps, Summary: "Enable ssh for an app", Args: "APP", Need: core.NeedsSpace, Example: []string{"enable-ssh my-app"}, Make: func() core.Runner { return &allowSSHCommand{on: true} }},
		{Name: "disable-ssh", Group: core.GroupApps, Summary: "Disable ssh for an app", Args: "APP", Need: core.NeedsSpace, Example: []string{"disable-ssh my-app"}, Make: func() core.Runner { return &allowSSHCommand{} }},
		{Name: "revisions", Group: core.GroupInspect, Summary: "List an app's revisions", Args: "APP", Need: core.NeedsSpace, Example: []string{"revisions my-app"}, Make: func() core.Runner { return &revisionsCommand{} }},
		{Name: "revision", Group: core.GroupInspect, Summary: "Show a revision of an app", Args: "APP [--version N]", Need: core.NeedsSpace, Example: []string{"revision my-app", "revision my-app --version 3"}, Make: func() core.Runner { return &revisionCommand{} }},
		{Name: "diff", Group: core.GroupInspect, Summary: "Compare two revisions of an app", Args: "APP VERSION [VERSION]", Need: core.NeedsSpace, About: "Without a second version, compares with the one that runs.", Example: []string{"diff my-app 3 5", "diff my-app 3"}, Make: func() core.Runner { return &diffCommand{} }},
		{Name: "droplets", Group: core.GroupInspect, Summary: "List an app's droplets", Args: "APP", Need: core.NeedsSpace, Example: []string{"droplets my-app"}, Make: func() core.Runner { return &dropletsCommand{} }},
		{Name: "packages", Group: core.GroupInspect, Summary: "List an app's packages", Args: "APP", Need: core.NeedsSpace, Example: []string{"packages my-app"}, Make: func() core.Runner { return &packagesCommand{} }},
		{Name: "ssh-enabled", Group: core.GroupInspect, Summary: "Show whether ssh is enabled for an app", Args: "APP", Need: core.NeedsSpace, Example: []string{"ssh-enabled my-app"}, Make: func() core.Runner { return &sshEnabledCommand{} }},
		{Name: "labels", Group: core.GroupInspect, Summary: "List a resource's labels", Args: "KIND NAME", Need: core.NeedsLogin, About: "KIND is app, org, space, service-instance or domain.", Example: []string{"labels app my-app"}, Make: func() core.Runner { return &labelsCommand{} }},
		{Name: "set-label", Group: core.GroupInspect, Summary: "Set labels on a resource", Args: "KIND NAME KEY=VALUE...", Need: core.NeedsLogin, About: "KIND is app, org, space, service-instance or domain.", Example: []string{"set-label space dev notifications=on"}, Make: func() core.Runner { return &setLabelCommand{} }},
		{Name: "unset-label", Group: core.GroupInspect, Summary: "Remove labels from a resource", Args: "KIND NAME KEY...", Need: core.NeedsLogin, Example: []string{"unset-label space dev notifications"}, Make: func() core.Runner { return &unsetLabelCommand{} }},
		core.InGroup(core.GroupOther, core.Entry("open", "[APP] [--console] [--print]", "Open an app or the console in a browser", core.NeedsAPI, openInBrowser, "my-app", "my-app --console", ""))[0].Last(),
	}, core.Last(healthCheckCommands()))
}
