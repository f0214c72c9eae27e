package cli

// The groups of commands, in the order they are listed.
const (
	groupEnter    = "Getting in"
	groupApps     = "Apps"
	groupLook     = "Looking at apps"
	groupRoutes   = "Routes"
	groupServices = "Services"
	groupOrgs     = "Orgs and spaces"
	groupOther    = "Notifications and more"
)

// commands is the table of all commands.
var commands []*command

func init() { //nolint:gochecknoinits // the table names functions that read it
	commands = []*command{
		{name: "login", aliases: []string{"l"}, group: groupEnter, summary: "Log in, and choose org and space", args: "[-a URL] [-u USER] [-p PASSWORD] [-o ORG] [-s SPACE]",
			about:   "What is not given is asked for. On the machine of a server that you run, no login is needed: the first command finds it.",
			example: []string{"login -a http://api.localhost:8080 -u admin", "login --sso"}, make: func() runner { return &loginCommand{} }},
		{name: "api", group: groupEnter, summary: "Choose the API, or show which one it is", args: "[URL]", example: []string{"api http://127.0.0.1:8080", "api"}, make: func() runner { return &apiCommand{} }},
		{name: "auth", group: groupEnter, summary: "Log in without questions, for scripts", args: "USER PASSWORD [--client-credentials]", need: anAPI,
			example: []string{"auth admin \"$PASSWORD\"", "auth my-client \"$SECRET\" --client-credentials"}, make: func() runner { return &authCommand{} }},
		{name: "logout", aliases: []string{"lo"}, group: groupEnter, summary: "Forget who was logged in", example: []string{"logout"}, make: func() runner { return &logoutCommand{} }},
		{name: "target", aliases: []string{"t"}, group: groupEnter, summary: "Choose org and space, or show them", args: "[-o ORG] [-s SPACE]", need: aLogin, example: []string{"target", "target -o demo -s dev"}, make: func() runner { return &targetCommand{} }},

		{name: "push", aliases: []string{"p"}, group: groupApps, summary: "Upload an app, build and start it", args: "[APP] [flags]", need: aSpace, progress: true,
			about:   "The name may be left out when a manifest has it. Files that .cfignore names stay here.",
			example: []string{"push", "push my-app -b binary_buildpack -c ./my-app -m 64M", "push -f deploy/manifest.yml --var host=blue", "push my-app -p app.jar --no-start", "push my-app --strategy rolling"}, make: func() runner { return &pushCommand{} }},
		{name: "create-app", group: groupApps, summary: "Create an app without files", args: "APP", need: aSpace, example: []string{"create-app my-app"}, make: func() runner { return &createAppCommand{} }},
		{name: "apply-manifest", group: groupApps, summary: "Make apps what a manifest says, without pushing", args: "[-f FILE]", need: aSpace, progress: true, example: []string{"apply-manifest -f manifest.yml"}, make: func() runner { return &applyManifestCommand{} }},
		{name: "start", aliases: []string{"st"}, group: groupApps, summary: "Start an app", args: "APP", need: aSpace, progress: true, example: []string{"start my-app"}, make: func() runner { return &startCommand{} }},
		{name: "stop", aliases: []string{"sp"}, group: groupApps, summary: "Stop an app", args: "APP", need: aSpace, example: []string{"stop my-app"}, make: func() runner { return &stopCommand{} }},
		{name: "restart", aliases: []string{"rs"}, group: groupApps, summary: "Stop an app and start it again", args: "APP [--strategy rolling|canary]", need: aSpace, progress: true, example: []string{"restart my-app", "restart my-app --strategy rolling --max-in-flight 2"}, make: func() runner { return &restartCommand{} }},
		{name: "restage", aliases: []string{"rg"}, group: groupApps, summary: "Build an app again and restart it", args: "APP [--strategy rolling|canary]", need: aSpace, progress: true, example: []string{"restage my-app", "restage my-app --strategy rolling"}, make: func() runner { return &restageCommand{} }},
		{name: "continue-deployment", group: groupApps, summary: "Go on with a canary deployment that is paused", args: "APP [--no-wait]", need: aSpace, progress: true, example: []string{"continue-deployment my-app"}, make: func() runner { return &continueDeploymentCommand{} }},
		{name: "cancel-deployment", group: groupApps, summary: "Go back to what ran before a deployment", args: "APP", need: aSpace, progress: true, example: []string{"cancel-deployment my-app"}, make: func() runner { return &cancelDeploymentCommand{} }},
		{name: "scale", group: groupApps, summary: "Change instances, memory or disk, or show them", args: "APP [-i N] [-m SIZE] [-k SIZE]", need: aSpace, progress: true, example: []string{"scale my-app -i 3", "scale my-app -m 256M -f"}, make: func() runner { return &scaleCommand{} }},
		{name: "run-task", aliases: []string{"rt"}, group: groupApps, summary: "Run a command once, with the files and the environment of an app", args: "APP --command COMMAND [--name NAME] [--wait]", need: aSpace, progress: true,
			about:   "A task has an instance of its own, which ends with the command. Its lines are in the log of the app, from APP/TASK/NAME.",
			example: []string{"run-task my-app --command './migrate --all' --name migrate --wait", "run-task my-app --process worker -m 512M"}, make: func() runner { return &runTaskCommand{} }},
		{name: "terminate-task", group: groupApps, summary: "End a task of an app before it is done", args: "APP ID", need: aSpace, example: []string{"terminate-task my-app 3"}, make: func() runner { return &terminateTaskCommand{} }},
		{name: "rename", group: groupApps, summary: "Give an app another name", args: "APP NEW_NAME", need: aSpace, example: []string{"rename my-app your-app"}, make: func() runner { return &renameCommand{} }},
		{name: "delete", aliases: []string{"d"}, group: groupApps, summary: "Delete an app", args: "APP [-f] [-r]", need: aSpace, progress: true, example: []string{"delete my-app -f -r"}, make: func() runner { return &deleteCommand{} }},
		{name: "env", aliases: []string{"e"}, group: groupApps, summary: "Show the environment of an app", args: "APP", need: aSpace, example: []string{"env my-app"}, make: func() runner { return &envCommand{} }},
		{name: "set-env", aliases: []string{"se"}, group: groupApps, summary: "Set a variable of an app", args: "APP NAME VALUE", need: aSpace, example: []string{"set-env my-app GREETING 'good morning'"}, make: func() runner { return &setEnvCommand{} }},
		{name: "unset-env", aliases: []string{"ue"}, group: groupApps, summary: "Remove a variable of an app", args: "APP NAME", need: aSpace, example: []string{"unset-env my-app GREETING"}, make: func() runner { return &unsetEnvCommand{} }},

		{name: "apps", aliases: []string{"a"}, group: groupLook, summary: "List the apps of the space", need: aSpace, example: []string{"apps", "apps --json"}, make: func() runner { return &appsCommand{} }},
		{name: "app", group: groupLook, summary: "Show how an app is", args: "APP", need: aSpace, example: []string{"app my-app", "app my-app --requests", "app my-app --guid"}, make: func() runner { return &appCommand{} }},
		{name: "logs", group: groupLook, summary: "Follow the log of an app", args: "APP [--recent]", need: aSpace,
			example: []string{"logs my-app", "logs my-app --recent --no-router", "logs my-app --process web --sidecar config-server"}, make: func() runner { return &logsCommand{} }},
		{name: "ssh", group: groupLook, summary: "Open a shell in an instance, or forward ports to it", args: "APP [-c COMMAND] [-i INDEX] [-L PORT:HOST:PORT]", need: aSpace,
			example: []string{"ssh my-app", "ssh my-app -c 'ls -l'", "ssh my-app -N -L 5432:localhost:5432"}, make: func() runner { return &sshCommand{} }},
		{name: "events", group: groupLook, summary: "Show what happened to an app", args: "APP", need: aSpace, example: []string{"events my-app"}, make: func() runner { return &eventsCommand{} }},
		{name: "tasks", group: groupLook, summary: "List the tasks of an app", args: "APP", need: aSpace, example: []string{"tasks my-app"}, make: func() runner { return &tasksCommand{} }},
		{name: "task", group: groupLook, summary: "Show a task of an app", args: "APP ID", need: aSpace, example: []string{"task my-app 3"}, make: func() runner { return &taskCommand{} }},

		{name: "routes", aliases: []string{"r"}, group: groupRoutes, summary: "List the routes of the space", need: aSpace, example: []string{"routes"}, make: func() runner { return &routesCommand{} }},
		{name: "map-route", group: groupRoutes, summary: "Lead a route to an app", args: "APP DOMAIN [-n HOST] [--app-port PORT]", need: aSpace, example: []string{"map-route my-app apps.localhost -n blue", "map-route my-app apps.localhost -n dump --app-port 8082"}, make: func() runner { return &mapRouteCommand{} }},
		{name: "unmap-route", group: groupRoutes, summary: "Lead a route no longer to an app", args: "APP DOMAIN [-n HOST]", need: aSpace, example: []string{"unmap-route my-app apps.localhost -n blue"}, make: func() runner { return &unmapRouteCommand{} }},

		{name: "marketplace", aliases: []string{"m"}, group: groupServices, summary: "List what services can be had", args: "[-e OFFERING]", need: aSpace, example: []string{"marketplace", "marketplace -e postgres"}, make: func() runner { return &marketplaceCommand{} }},
		{name: "services", aliases: []string{"s"}, group: groupServices, summary: "List the service instances of the space", need: aSpace, example: []string{"services"}, make: func() runner { return &servicesCommand{} }},
		{name: "service", group: groupServices, summary: "Show a service instance", args: "SERVICE", need: aSpace, example: []string{"service my-db"}, make: func() runner { return &serviceCommand{} }},
		{name: "create-service", aliases: []string{"cs"}, group: groupServices, summary: "Create a service instance", args: "OFFERING PLAN SERVICE [-c JSON] [-t TAGS] [--wait]", need: aSpace, progress: true, example: []string{"create-service postgres small my-db --wait"}, make: func() runner { return &createServiceCommand{} }},
		{name: "delete-service", aliases: []string{"ds"}, group: groupServices, summary: "Delete a service instance", args: "SERVICE [-f] [--wait]", need: aSpace, progress: true, example: []string{"delete-service my-db -f --wait"}, make: func() runner { return &deleteServiceCommand{} }},
		{name: "bind-service", aliases: []string{"bs"}, group: groupServices, summary: "Give an app the credentials of a service instance", args: "APP SERVICE [-c JSON]", need: aSpace, progress: true, example: []string{"bind-service my-app my-db"}, make: func() runner { return &bindServiceCommand{} }},
		{name: "unbind-service", aliases: []string{"us"}, group: groupServices, summary: "Take them away again", args: "APP SERVICE", need: aSpace, progress: true, example: []string{"unbind-service my-app my-db"}, make: func() runner { return &unbindServiceCommand{} }},
		{name: "create-service-key", aliases: []string{"csk"}, group: groupServices, summary: "Make credentials of a service instance for people", args: "SERVICE KEY [-c JSON]", need: aSpace, progress: true, example: []string{"create-service-key my-db my-key"}, make: func() runner { return &createServiceKeyCommand{} }},
		{name: "service-key", group: groupServices, summary: "Show them", args: "SERVICE KEY", need: aSpace, example: []string{"service-key my-db my-key"}, make: func() runner { return &serviceKeyCommand{} }},

		{name: "orgs", aliases: []string{"o"}, group: groupOrgs, summary: "List the orgs", need: aLogin, example: []string{"orgs"}, make: func() runner { return &orgsCommand{} }},
		{name: "spaces", group: groupOrgs, summary: "List the spaces of the org", need: anOrg, example: []string{"spaces"}, make: func() runner { return &spacesCommand{} }},
		{name: "create-org", aliases: []string{"co"}, group: groupOrgs, summary: "Create an org", args: "ORG", need: aLogin, example: []string{"create-org acme"}, make: func() runner { return &createOrgCommand{} }},
		{name: "create-space", aliases: []string{"csp"}, group: groupOrgs, summary: "Create a space", args: "SPACE [-o ORG]", need: aLogin, example: []string{"create-space shop -o acme"}, make: func() runner { return &createSpaceCommand{} }},

		{name: "notifications", group: groupOther, summary: "Register, send and follow notifications", make: func() runner { return &notifyKinds{} }, sub: []*command{
			{name: "notifications register", summary: "Register a kind", args: "KIND", need: aLogin, example: []string{"notifications register disk-full --source 'Disk watch' --description 'A disk is nearly full'"}, make: func() runner { return &notifyRegister{} }},
			{name: "notifications kinds", summary: "List the kinds", need: aLogin, example: []string{"notifications kinds"}, make: func() runner { return &notifyKinds{} }},
			{name: "notifications templates", summary: "List, create and assign templates", need: aLogin, example: []string{"notifications templates", "notifications templates --create plain --text @mail.txt --html @mail.html --assign disk-full"}, make: func() runner { return &notifyTemplates{} }},
			{name: "notifications send", summary: "Send a notification", args: "KIND", need: aLogin, example: []string{"notifications send disk-full --everyone --subject 'Disk full' --text 'Please tidy up'", "notifications send disk-full --space dev --text 'Please tidy up'"}, make: func() runner { return &notifySend{} }},
			{name: "notifications status", summary: "Say what became of one", args: "NOTIFICATION", need: aLogin, example: []string{"notifications status 1b2c3d"}, make: func() runner { return &notifyStatus{} }},
			{name: "notifications preferences", summary: "Show and change what you get", need: aLogin, example: []string{"notifications preferences", "notifications preferences --unsubscribe my-sender/disk-full"}, make: func() runner { return &notifyPreferences{} }},
		}},
		{name: "curl", group: groupOther, summary: "Send a raw request to the API", args: "PATH [-X METHOD] [-d BODY] [-H HEADER] [-i]", need: anAPI,
			example: []string{"curl /v3/apps", `curl -X PATCH /v3/routes/GUID/destinations -d '{"destinations":[]}'`}, make: func() runner { return &curlCommand{} }},
		{name: "doctor", group: groupOther, summary: "Say what is installed, what is missing and how to get it", example: []string{"doctor"}, make: func() runner { return &doctorCommand{} }},
		{name: "completion", group: groupOther, summary: "Write completion for a shell", args: "bash|zsh|fish", example: []string{"completion bash > /etc/bash_completion.d/ingot"}, make: func() runner { return &completionCommand{} }},
	}
	commands = inGroups(append(commands, everyday()...))
}
