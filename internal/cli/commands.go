package cli

import "slices"

// The groups of commands, in the order they are listed.
const (
	groupLogin    = "Log in"
	groupApps     = "Apps"
	groupInspect  = "Inspect apps"
	groupRoutes   = "Routes"
	groupServices = "Services"
	groupOrgs     = "Orgs and spaces"
	groupOther    = "Notifications and more"
)

// commands is the table of all commands.
var commands []*command

func init() { //nolint:gochecknoinits // the table names functions that read it
	commands = []*command{
		{name: "login", aliases: []string{"l"}, group: groupLogin, summary: "Log in and select an org and space", args: "[-a URL] [-u USER] [-p PASSWORD] [-o ORG] [-s SPACE]",
			stray:   "the API endpoint is given by -a, such as 'login -a http://127.0.0.1:8080'",
			about:   "Prompts for values that are not given, including org and space. A server that you run on this machine needs no login: the client finds it.",
			example: []string{"login -a http://api.localhost:8080 -u admin", "login --sso"}, make: func() runner { return &loginCommand{} }},
		{name: "api", group: groupLogin, summary: "Set or show the API endpoint", args: "[URL]", example: []string{"api http://127.0.0.1:8080", "api"}, make: func() runner { return &apiCommand{} }},
		{name: "auth", group: groupLogin, summary: "Log in non-interactively", args: "USER PASSWORD [--client-credentials]", need: anAPI,
			example: []string{"auth admin \"$PASSWORD\"", "auth my-client \"$SECRET\" --client-credentials"}, make: func() runner { return &authCommand{} }},
		{name: "logout", aliases: []string{"lo"}, group: groupLogin, summary: "Log out", example: []string{"logout"}, make: func() runner { return &logoutCommand{} }},
		{name: "target", aliases: []string{"t"}, group: groupLogin, summary: "Set or show the targeted org and space", args: "[-o ORG] [-s SPACE]", need: aLogin, example: []string{"target", "target -o demo -s dev"}, make: func() runner { return &targetCommand{} }},

		{name: "push", aliases: []string{"p"}, group: groupApps, summary: "Upload, build and start an app", args: "[APP] [flags]", need: aSpace, progress: true,
			about: "APP can be omitted when the manifest names it. Files listed in .cfignore are not uploaded.", example: []string{"push", "push my-app -b binary_buildpack -c ./my-app -m 64M", "push -f deploy/manifest.yml --var host=blue", "push my-app -p app.jar --no-start", "push my-app --strategy rolling", "push my-app --watch"}, make: func() runner { return &pushCommand{} }},
		devEntry,
		{name: "create-app", group: groupApps, summary: "Create an app without files", args: "APP", need: aSpace, example: []string{"create-app my-app"}, make: func() runner { return &createAppCommand{} }},
		{name: "apply-manifest", group: groupApps, summary: "Apply a manifest without pushing files", args: "[-f FILE]", need: aSpace, progress: true, example: []string{"apply-manifest -f manifest.yml"}, make: func() runner { return &applyManifestCommand{} }},
		{name: "start", aliases: []string{"st"}, group: groupApps, summary: "Start an app", args: "APP", need: aSpace, progress: true, example: []string{"start my-app"}, make: func() runner { return &startCommand{} }},
		{name: "stop", aliases: []string{"sp"}, group: groupApps, summary: "Stop an app", args: "APP", need: aSpace, example: []string{"stop my-app"}, make: func() runner { return &stopCommand{} }},
		{name: "restart", aliases: []string{"rs"}, group: groupApps, summary: "Restart an app", args: "APP [--strategy rolling|canary]", need: aSpace, progress: true, example: []string{"restart my-app", "restart my-app --strategy rolling --max-in-flight 2"}, make: func() runner { return &restartCommand{} }},
		{name: "restage", aliases: []string{"rg"}, group: groupApps, summary: "Rebuild an app from its newest package and restart it", args: "APP [--strategy rolling|canary]", need: aSpace, progress: true, example: []string{"restage my-app", "restage my-app --strategy rolling"}, make: func() runner { return &restageCommand{} }},
		{name: "continue-deployment", group: groupApps, summary: "Continue a paused canary deployment", args: "APP [--no-wait]", need: aSpace, progress: true, example: []string{"continue-deployment my-app"}, make: func() runner { return &continueDeploymentCommand{} }},
		{name: "cancel-deployment", group: groupApps, summary: "Cancel a deployment and restore the previous version", args: "APP", need: aSpace, progress: true, example: []string{"cancel-deployment my-app"}, make: func() runner { return &cancelDeploymentCommand{} }},
		{name: "scale", group: groupApps, summary: "Change or show an app's instances, memory and disk", args: "APP [-i N] [-m SIZE] [-k SIZE]", need: aSpace, progress: true, example: []string{"scale my-app -i 3", "scale my-app -m 256M -f"}, make: func() runner { return &scaleCommand{} }},
		{name: "run-task", aliases: []string{"rt"}, group: groupApps, summary: "Run a one-off command in an app's environment", args: "APP --command COMMAND [--name NAME] [--wait]", need: aSpace, progress: true,
			about:   "A task runs in its own instance, which stops when the command exits. Its output is in the app's logs with the source APP/TASK/NAME.",
			example: []string{"run-task my-app --command './migrate --all' --name migrate --wait", "run-task my-app --process worker -m 512M"}, make: func() runner { return &runTaskCommand{} }},
		{name: "terminate-task", group: groupApps, summary: "Cancel a running task", args: "APP ID", need: aSpace, example: []string{"terminate-task my-app 3"}, make: func() runner { return &terminateTaskCommand{} }},
		{name: "rename", group: groupApps, summary: "Rename an app", args: "APP NEW_NAME", need: aSpace, example: []string{"rename my-app your-app"}, make: func() runner { return &renameCommand{} }},
		{name: "delete", aliases: []string{"d"}, group: groupApps, summary: "Delete an app", args: "APP [-f] [-r]", need: aSpace, progress: true, example: []string{"delete my-app -f -r"}, make: func() runner { return &deleteCommand{} }},
		{name: "env", aliases: []string{"e"}, group: groupApps, summary: "Show an app's environment variables", args: "APP", need: aSpace, example: []string{"env my-app"}, make: func() runner { return &envCommand{} }},
		{name: "set-env", aliases: []string{"se"}, group: groupApps, summary: "Set an environment variable of an app", args: "APP NAME VALUE", need: aSpace, example: []string{"set-env my-app GREETING 'good morning'"}, make: func() runner { return &setEnvCommand{} }},
		{name: "unset-env", aliases: []string{"ue"}, group: groupApps, summary: "Remove an environment variable of an app", args: "APP NAME", need: aSpace, example: []string{"unset-env my-app GREETING"}, make: func() runner { return &unsetEnvCommand{} }},

		{name: "apps", aliases: []string{"a"}, group: groupInspect, summary: "List the apps in the target space", need: aSpace, example: []string{"apps", "apps --json"}, make: func() runner { return &appsCommand{} }},
		{name: "app", group: groupInspect, summary: "Show an app's status", args: "APP", need: aSpace, example: []string{"app my-app", "app my-app --requests", "app my-app --guid"}, make: func() runner { return &appCommand{} }},
		{name: "logs", group: groupInspect, summary: "Show or follow an app's logs", args: "APP [--recent]", need: aSpace,
			example: []string{"logs my-app", "logs my-app --recent --no-router", "logs my-app --process web --sidecar config-server"}, make: func() runner { return &logsCommand{} }},
		{name: "ssh", group: groupInspect, summary: "Open a shell in an app instance or forward ports to it", args: "APP [-c COMMAND] [-i INDEX] [-L PORT:HOST:PORT]", need: aSpace,
			example: []string{"ssh my-app", "ssh my-app -c 'ls -l'", "ssh my-app -N -L 5432:localhost:5432"}, make: func() runner { return &sshCommand{} }},
		{name: "events", group: groupInspect, summary: "Show recent events of an app", args: "APP", need: aSpace, example: []string{"events my-app"}, make: func() runner { return &eventsCommand{} }},
		{name: "tasks", group: groupInspect, summary: "List an app's tasks", args: "APP", need: aSpace, example: []string{"tasks my-app"}, make: func() runner { return &tasksCommand{} }},
		{name: "task", group: groupInspect, summary: "Show a task of an app", args: "APP ID", need: aSpace, example: []string{"task my-app 3"}, make: func() runner { return &taskCommand{} }},

		{name: "routes", aliases: []string{"r"}, group: groupRoutes, summary: "List the routes in the target space", need: aSpace, example: []string{"routes"}, make: func() runner { return &routesCommand{} }},
		{name: "map-route", group: groupRoutes, summary: "Map a route to an app", args: "APP DOMAIN [-n HOST] [--app-port PORT | --sidecar NAME]", need: aSpace, example: []string{"map-route my-app apps.localhost -n blue", "map-route my-app apps.localhost -n dump --app-port 8082", "map-route my-app apps.localhost -n proxy --sidecar proxy"}, make: func() runner { return &mapRouteCommand{} }},
		{name: "unmap-route", group: groupRoutes, summary: "Unmap a route from an app", args: "APP DOMAIN [-n HOST]", need: aSpace, example: []string{"unmap-route my-app apps.localhost -n blue"}, make: func() runner { return &unmapRouteCommand{} }},

		{name: "marketplace", aliases: []string{"m"}, group: groupServices, summary: "List available service offerings", args: "[-e OFFERING]", need: aSpace, example: []string{"marketplace", "marketplace -e postgres"}, make: func() runner { return &marketplaceCommand{} }},
		{name: "services", aliases: []string{"s"}, group: groupServices, summary: "List the service instances in the target space", need: aSpace, example: []string{"services"}, make: func() runner { return &servicesCommand{} }},
		{name: "service", group: groupServices, summary: "Show a service instance", args: "SERVICE", need: aSpace, example: []string{"service my-db"}, make: func() runner { return &serviceCommand{} }},
		{name: "create-service", aliases: []string{"cs"}, group: groupServices, summary: "Create a service instance", args: "OFFERING PLAN SERVICE [-c JSON] [-t TAGS] [--wait]", need: aSpace, progress: true, example: []string{"create-service postgres small my-db --wait"}, make: func() runner { return &createServiceCommand{} }},
		{name: "delete-service", aliases: []string{"ds"}, group: groupServices, summary: "Delete a service instance", args: "SERVICE [-f] [--wait]", need: aSpace, progress: true, example: []string{"delete-service my-db -f --wait"}, make: func() runner { return &deleteServiceCommand{} }},
		{name: "bind-service", aliases: []string{"bs"}, group: groupServices, summary: "Bind a service instance to an app", args: "APP SERVICE [-c JSON]", need: aSpace, progress: true, example: []string{"bind-service my-app my-db"}, make: func() runner { return &bindServiceCommand{} }},
		{name: "unbind-service", aliases: []string{"us"}, group: groupServices, summary: "Unbind a service instance from an app", args: "APP SERVICE", need: aSpace, progress: true, example: []string{"unbind-service my-app my-db"}, make: func() runner { return &unbindServiceCommand{} }},
		{name: "create-service-key", aliases: []string{"csk"}, group: groupServices, summary: "Create a service key", args: "SERVICE KEY [-c JSON]", need: aSpace, progress: true, example: []string{"create-service-key my-db my-key"}, make: func() runner { return &createServiceKeyCommand{} }},
		{name: "service-key", group: groupServices, summary: "Show a service key's credentials", args: "SERVICE KEY", need: aSpace, example: []string{"service-key my-db my-key"}, make: func() runner { return &serviceKeyCommand{} }},

		{name: "orgs", aliases: []string{"o"}, group: groupOrgs, summary: "List orgs", need: aLogin, example: []string{"orgs"}, make: func() runner { return &orgsCommand{} }},
		{name: "spaces", group: groupOrgs, summary: "List the spaces in the target org", need: anOrg, example: []string{"spaces"}, make: func() runner { return &spacesCommand{} }},
		{name: "create-org", aliases: []string{"co"}, group: groupOrgs, summary: "Create an org", args: "ORG", need: aLogin, example: []string{"create-org acme"}, make: func() runner { return &createOrgCommand{} }},
		{name: "create-space", aliases: []string{"csp"}, group: groupOrgs, summary: "Create a space", args: "SPACE [-o ORG]", need: aLogin, example: []string{"create-space shop -o acme"}, make: func() runner { return &createSpaceCommand{} }},

		{name: "notifications", group: groupOther, summary: "Register, send and track notifications", about: notifyAlone, make: func() runner { return &notifyKinds{} }, sub: []*command{
			{name: "notifications register", summary: "Register a notification kind", args: "KIND", need: aLogin, example: []string{"notifications register disk-full --source 'Disk watch' --description 'A disk is nearly full'"}, make: func() runner { return &notifyRegister{} }},
			{name: "notifications kinds", summary: "List notification kinds", need: aLogin, example: []string{"notifications kinds"}, make: func() runner { return &notifyKinds{} }},
			{name: "notifications templates", summary: "List, create and assign templates", need: aLogin, example: []string{"notifications templates", "notifications templates --create plain --text @mail.txt --html @mail.html --assign disk-full"}, make: func() runner { return &notifyTemplates{} }},
			{name: "notifications send", summary: "Send a notification", args: "KIND", need: aLogin, example: []string{"notifications send disk-full --everyone --subject 'Disk full' --text 'Please tidy up'", "notifications send disk-full --space dev --text 'Please tidy up'"}, make: func() runner { return &notifySend{} }},
			{name: "notifications status", summary: "Show a notification's delivery status", args: "NOTIFICATION", need: aLogin, example: []string{"notifications status 1b2c3d"}, make: func() runner { return &notifyStatus{} }},
			{name: "notifications preferences", summary: "Show or change your subscriptions", need: aLogin, example: []string{"notifications preferences", "notifications preferences --unsubscribe my-sender/disk-full"}, make: func() runner { return &notifyPreferences{} }},
		}},
		{name: "curl", group: groupOther, summary: "Send a raw request to the API", args: "PATH [-X METHOD] [-d BODY] [-H HEADER] [-i]", need: anAPI,
			example: []string{"curl /v3/apps", `curl -X PATCH /v3/routes/GUID/destinations -d '{"destinations":[]}'`}, make: func() runner { return &curlCommand{} }},
		{name: "doctor", group: groupOther, summary: "Check a machine or a cluster for what Ingot needs", args: "[--engine kubernetes]",
			about:   "With --engine kubernetes it checks a cluster as a server would use it, with the values of the INGOT_ environment variables where flags are missing. It starts Pods and removes them. The exit status is 1 if something does not work.",
			example: []string{"doctor", "doctor --engine kubernetes --kubernetes-kubeconfig ~/.kube/config --kubernetes-image registry.example.com/ingot/stack:0.1.0"}, make: func() runner { return &doctorCommand{} }},
		{name: "completion", group: groupOther, summary: "Print a shell completion script", args: "bash|zsh|fish", example: []string{"completion bash > /etc/bash_completion.d/ingot"}, make: func() runner { return &completionCommand{} }},
	}
	commands = inGroups(slices.Concat(commands, topCommands(), moreCommands(), clientCommands(), adminCommands()))
}
