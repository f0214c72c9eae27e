package cli

import "slices"

// groups is the order in which the groups of commands are listed.
var groups = []string{
	groupLogin, groupApps, groupInspect, groupRoutes, groupServices, groupOrgs, groupUsers, groupQuotas, groupNetwork, groupSegments, groupClients, groupOperate, groupOther,
}

const (
	groupQuotas   = "Quotas"
	groupNetwork  = "Security groups and network policies"
	groupSegments = "Isolation segments"
	groupUsers    = "Users and roles"
	groupClients  = "OAuth clients"
	groupOperate  = "Administration"
)

// inGroups sorts commands by group and keeps their order within each.
func inGroups(all []*command) []*command {
	slices.SortStableFunc(all, func(a, b *command) int { return slices.Index(groups, a.group) - slices.Index(groups, b.group) })
	return all
}

// moreCommands returns the less frequently used commands.
func moreCommands() []*command {
	return []*command{
		inGroup(groupOther, entry("open", "[APP] [--console] [--print]", "Open an app or the console in a browser", anAPI, openInBrowser, "my-app", "my-app --console", ""))[0],
		{name: "passwd", aliases: []string{"pw"}, group: groupLogin, summary: "Change your password", need: aLogin, example: []string{"passwd"}, make: func() runner { return &passwdCommand{} }},
		{name: "oauth-token", group: groupLogin, summary: "Show the access token", need: aLogin, example: []string{"oauth-token", `curl -H "Authorization: $(ingot oauth-token)" …`}, make: func() runner { return &oauthTokenCommand{} }},

		{name: "restart-app-instance", group: groupApps, summary: "Restart one instance of an app", args: "APP INDEX [--process TYPE]", need: aSpace, example: []string{"restart-app-instance my-app 0"}, make: func() runner { return &restartInstanceCommand{} }},
		{name: "download-droplet", group: groupApps, summary: "Download an app's droplet", args: "APP [--path FILE]", need: aSpace, progress: true, example: []string{"download-droplet my-app --path my-app.tgz"}, make: func() runner { return &downloadDropletCommand{} }},
		{name: "set-droplet", group: groupApps, summary: "Set an app's current droplet", args: "APP DROPLET_GUID", need: aSpace, example: []string{"set-droplet my-app 1b2c3d"}, make: func() runner { return &setDropletCommand{} }},
		{name: "rollback", group: groupApps, summary: "Roll back an app to a revision", args: "APP --version N [--strategy rolling|canary]", need: aSpace, progress: true,
			about: "A rollback creates a new revision. It restores droplet, environment variables, commands, sidecars and settings of processes; the number of instances stays.", example: []string{"rollback my-app --version 3", "rollback my-app --version 3 --strategy canary -f"}, make: func() runner { return &rollbackCommand{} }},
		{name: "enable-ssh", group: groupApps, summary: "Enable ssh for an app", args: "APP", need: aSpace, example: []string{"enable-ssh my-app"}, make: func() runner { return &allowSSHCommand{on: true} }},
		{name: "disable-ssh", group: groupApps, summary: "Disable ssh for an app", args: "APP", need: aSpace, example: []string{"disable-ssh my-app"}, make: func() runner { return &allowSSHCommand{} }},

		{name: "revisions", group: groupInspect, summary: "List an app's revisions", args: "APP", need: aSpace, example: []string{"revisions my-app"}, make: func() runner { return &revisionsCommand{} }},
		{name: "revision", group: groupInspect, summary: "Show a revision of an app", args: "APP [--version N]", need: aSpace, example: []string{"revision my-app", "revision my-app --version 3"}, make: func() runner { return &revisionCommand{} }},
		{name: "diff", group: groupInspect, summary: "Compare two revisions of an app", args: "APP VERSION [VERSION]", need: aSpace, about: "Without a second version, compares with the one that runs.", example: []string{"diff my-app 3 5", "diff my-app 3"}, make: func() runner { return &diffCommand{} }},
		{name: "droplets", group: groupInspect, summary: "List an app's droplets", args: "APP", need: aSpace, example: []string{"droplets my-app"}, make: func() runner { return &dropletsCommand{} }},
		{name: "packages", group: groupInspect, summary: "List an app's packages", args: "APP", need: aSpace, example: []string{"packages my-app"}, make: func() runner { return &packagesCommand{} }},
		{name: "ssh-enabled", group: groupInspect, summary: "Show whether ssh is enabled for an app", args: "APP", need: aSpace, example: []string{"ssh-enabled my-app"}, make: func() runner { return &sshEnabledCommand{} }},
		{name: "labels", group: groupInspect, summary: "List a resource's labels", args: "KIND NAME", need: aLogin, about: "KIND is app, org, space, service-instance or domain.", example: []string{"labels app my-app"}, make: func() runner { return &labelsCommand{} }},
		{name: "set-label", group: groupInspect, summary: "Set labels on a resource", args: "KIND NAME KEY=VALUE...", need: aLogin, about: "KIND is app, org, space, service-instance or domain.", example: []string{"set-label space dev notifications=on"}, make: func() runner { return &setLabelCommand{} }},
		{name: "unset-label", group: groupInspect, summary: "Remove labels from a resource", args: "KIND NAME KEY...", need: aLogin, example: []string{"unset-label space dev notifications"}, make: func() runner { return &unsetLabelCommand{} }},

		{name: "create-route", group: groupRoutes, summary: "Create a route", args: "DOMAIN [-n HOST] [--path PATH]", need: aSpace, example: []string{"create-route apps.localhost -n blue"}, make: func() runner { return &createRouteCommand{} }},
		{name: "delete-route", group: groupRoutes, summary: "Delete a route", args: "DOMAIN [-n HOST] [-f]", need: aSpace, progress: true, example: []string{"delete-route apps.localhost -n blue -f"}, make: func() runner { return &deleteRouteCommand{} }},
		{name: "domains", group: groupRoutes, summary: "List the domains of the target org", need: anOrg, example: []string{"domains"}, make: func() runner { return &domainsCommand{} }},

		{name: "update-service", group: groupServices, summary: "Update a service instance's plan, parameters or tags", args: "SERVICE [-p PLAN] [-c JSON] [-t TAGS] [--wait]", need: aSpace, progress: true, example: []string{"update-service my-db -p large --wait"}, make: func() runner { return &updateServiceCommand{} }},
		{name: "rename-service", group: groupServices, summary: "Rename a service instance", args: "SERVICE NEW_NAME", need: aSpace, example: []string{"rename-service my-db your-db"}, make: func() runner { return &renameServiceCommand{} }},
		{name: "create-user-provided-service", aliases: []string{"cups"}, group: groupServices, summary: "Create a service instance from your own credentials", args: "SERVICE [-p JSON] [-l URL] [-r URL] [-t TAGS]", need: aSpace,
			example: []string{`create-user-provided-service my-api -p '{"url":"https://api.example.com"}'`, "create-user-provided-service my-drain -l syslog-tls://logs.example.com:6514"}, make: func() runner { return &createProvidedCommand{} }},
		{name: "update-user-provided-service", aliases: []string{"uups"}, group: groupServices, summary: "Update a user-provided service instance", args: "SERVICE [-p JSON] [-l URL] [-r URL] [-t TAGS]", need: aSpace, example: []string{"update-user-provided-service my-api -p credentials.json"}, make: func() runner { return &updateProvidedCommand{} }},
		{name: "service-keys", aliases: []string{"sk"}, group: groupServices, summary: "List the keys of a service instance", args: "SERVICE", need: aSpace, example: []string{"service-keys my-db"}, make: func() runner { return &serviceKeysCommand{} }},
		{name: "delete-service-key", aliases: []string{"dsk"}, group: groupServices, summary: "Delete a service key", args: "SERVICE KEY [-f] [--wait]", need: aSpace, progress: true, example: []string{"delete-service-key my-db my-key -f"}, make: func() runner { return &deleteServiceKeyCommand{} }},
		{name: "rotate-credentials", group: groupServices, summary: "Replace the credentials of a service instance", args: "SERVICE [--app APP]... [--grace DURATION] [--keys] [--no-restart] [--force] [--wait]", need: aSpace, progress: true,
			about:   "Bound apps get new credentials: by a rolling restart, or in their service files if their manifest says 'on-credentials'. The old ones are revoked when no instance uses them and the grace period is over.",
			example: []string{"rotate-credentials my-db", "rotate-credentials my-db --app my-app --grace 1h --wait"}, make: func() runner { return &rotateCredentialsCommand{} }},

		{name: "delete-org", group: groupOrgs, summary: "Delete an org and everything in it", args: "ORG [-f]", need: aLogin, progress: true, example: []string{"delete-org acme -f"}, make: func() runner { return &deleteOrgCommand{} }},
		{name: "delete-space", group: groupOrgs, summary: "Delete a space and everything in it", args: "SPACE [-o ORG] [-f]", need: aLogin, progress: true, example: []string{"delete-space shop -o acme -f"}, make: func() runner { return &deleteSpaceCommand{} }},

		{name: "create-user", group: groupUsers, summary: "Create a user", args: "USER [PASSWORD]", need: aLogin, about: "Prompts for PASSWORD when it is not given.", example: []string{"create-user ann@example.com"}, make: func() runner { return &createUserCommand{} }},
		{name: "delete-user", group: groupUsers, summary: "Delete a user", args: "USER [-f]", need: aLogin, progress: true, example: []string{"delete-user ann@example.com -f"}, make: func() runner { return &deleteUserCommand{} }},
		{name: "org-users", group: groupUsers, summary: "List the users of an org by role", args: "ORG", need: aLogin, example: []string{"org-users acme"}, make: func() runner { return &orgUsersCommand{} }},
		{name: "set-org-role", group: groupUsers, summary: "Assign an org role to a user", args: "USER ORG ROLE", need: aLogin, about: "ROLE is OrgManager, BillingManager, OrgAuditor or OrgUser.", example: []string{"set-org-role ann@example.com acme OrgManager"}, make: func() runner { return &orgRoleCommand{give: true} }},
		{name: "unset-org-role", group: groupUsers, summary: "Remove an org role from a user", args: "USER ORG ROLE", need: aLogin, example: []string{"unset-org-role ann@example.com acme OrgManager"}, make: func() runner { return &orgRoleCommand{} }},
		{name: "space-users", group: groupUsers, summary: "List the users of a space by role", args: "ORG SPACE", need: aLogin, example: []string{"space-users acme shop"}, make: func() runner { return &spaceUsersCommand{} }},
		{name: "set-space-role", group: groupUsers, summary: "Assign a space role to a user", args: "USER ORG SPACE ROLE", need: aLogin, about: "ROLE is SpaceManager, SpaceDeveloper, SpaceSupporter or SpaceAuditor.", example: []string{"set-space-role ann@example.com acme shop SpaceDeveloper"}, make: func() runner { return &spaceRoleCommand{give: true} }},
		{name: "unset-space-role", group: groupUsers, summary: "Remove a space role from a user", args: "USER ORG SPACE ROLE", need: aLogin, example: []string{"unset-space-role ann@example.com acme shop SpaceDeveloper"}, make: func() runner { return &spaceRoleCommand{} }},

		{name: "buildpacks", group: groupOperate, summary: "List buildpacks", need: aLogin, example: []string{"buildpacks"}, make: func() runner { return &buildpacksCommand{} }},
		{name: "stacks", group: groupOperate, summary: "List stacks", need: aLogin, example: []string{"stacks"}, make: func() runner { return &stacksCommand{} }},
		{name: "feature-flags", group: groupOperate, summary: "List feature flags", need: aLogin, example: []string{"feature-flags"}, make: func() runner { return &featureFlagsCommand{} }},
		{name: "enable-feature-flag", group: groupOperate, summary: "Enable a feature flag", args: "FLAG", need: aLogin, example: []string{"enable-feature-flag user_org_creation"}, make: func() runner { return &switchFlagCommand{on: true} }},
		{name: "disable-feature-flag", group: groupOperate, summary: "Disable a feature flag", args: "FLAG", need: aLogin, example: []string{"disable-feature-flag user_org_creation"}, make: func() runner { return &switchFlagCommand{} }},
		{name: "service-brokers", group: groupOperate, summary: "List service brokers", need: aLogin, example: []string{"service-brokers"}, make: func() runner { return &serviceBrokersCommand{} }},
		{name: "create-service-broker", aliases: []string{"csb"}, group: groupOperate, summary: "Register a service broker", args: "BROKER USER PASSWORD URL [--space-scoped]", need: aLogin, progress: true, example: []string{"create-service-broker my-broker user password https://broker.example.com"}, make: func() runner { return &createBrokerCommand{} }},
		{name: "delete-service-broker", group: groupOperate, summary: "Remove a service broker", args: "BROKER [-f]", need: aLogin, progress: true, example: []string{"delete-service-broker my-broker -f"}, make: func() runner { return &deleteBrokerCommand{} }},
		{name: "enable-service-access", group: groupOperate, summary: "Allow access to a service offering", args: "OFFERING [-p PLAN] [-o ORG]", need: aLogin, example: []string{"enable-service-access postgres", "enable-service-access postgres -p large -o acme"}, make: func() runner { return &serviceAccessCommand{give: true} }},
		{name: "disable-service-access", group: groupOperate, summary: "Revoke access to a service offering", args: "OFFERING [-p PLAN] [-o ORG]", need: aLogin, example: []string{"disable-service-access postgres"}, make: func() runner { return &serviceAccessCommand{} }},
	}
}
