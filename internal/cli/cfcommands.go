package cli

// CFGroup is a group of commands, as the help lists them.
type CFGroup struct {
	Title    string
	Commands []string
}

// CFCommands are the commands of the cf CLI, as "cf help -a" lists them. An
// end-to-end test compares them with the real cf CLI.
var CFCommands = []CFGroup{
	{"Getting started", []string{
		"help", "version", "login", "logout", "passwd", "target", "api", "auth",
	}},
	{"Apps", []string{
		"apps", "app", "create-app", "push", "scale", "delete", "rename", "cancel-deployment", "continue-deployment",
		"start", "stop",
		"restart", "stage-package", "restage", "restart-app-instance", "run-task", "task", "tasks",
		"terminate-task", "packages",
		"create-package", "revision", "revisions", "rollback", "droplets", "set-droplet", "download-droplet", "events",
		"logs", "env",
		"set-env", "unset-env", "stacks", "stack", "update-stack", "copy-source", "create-app-manifest", "get-health-check",
		"set-health-check", "get-readiness-health-check", "enable-ssh", "disable-ssh", "ssh-enabled", "ssh",
	}},
	{"Services", []string{
		"marketplace", "services", "service", "create-service", "update-service", "upgrade-service", "delete-service",
		"rename-service", "create-service-key", "service-keys", "service-key", "delete-service-key", "bind-service",
		"unbind-service",
		"cleanup-outdated-service-bindings", "bind-route-service", "unbind-route-service", "create-user-provided-service",
		"update-user-provided-service", "share-service", "unshare-service",
	}},
	{"Orgs", []string{
		"orgs", "org", "create-org", "delete-org", "rename-org",
	}},
	{"Spaces", []string{
		"spaces", "space", "create-space", "delete-space", "rename-space", "apply-manifest", "allow-space-ssh",
		"disallow-space-ssh",
		"space-ssh-allowed",
	}},
	{"Domains", []string{
		"domains", "create-private-domain", "delete-private-domain", "create-shared-domain", "delete-shared-domain",
		"router-groups",
	}},
	{"Routes", []string{
		"routes", "route", "create-route", "update-route", "check-route", "map-route", "unmap-route", "delete-route",
		"delete-orphaned-routes", "update-destination", "share-route", "unshare-route", "move-route",
	}},
	{"Network policies", []string{
		"network-policies", "add-network-policy", "remove-network-policy",
	}},
	{"Buildpacks", []string{
		"buildpacks", "create-buildpack", "update-buildpack", "delete-buildpack",
	}},
	{"User admin", []string{
		"create-user", "delete-user", "org-users", "set-org-role", "unset-org-role", "space-users", "set-space-role",
		"unset-space-role",
	}},
	{"Org admin", []string{
		"org-quotas", "org-quota", "set-org-quota", "create-org-quota", "delete-org-quota", "update-org-quota",
		"share-private-domain",
		"unshare-private-domain",
	}},
	{"Space admin", []string{
		"space-quotas", "space-quota", "create-space-quota", "update-space-quota", "delete-space-quota", "set-space-quota",
		"unset-space-quota",
	}},
	{"Service admin", []string{
		"service-brokers", "create-service-broker", "update-service-broker", "delete-service-broker", "rename-service-broker",
		"purge-service-offering", "purge-service-instance", "service-access", "enable-service-access",
		"disable-service-access",
	}},
	{"Security group", []string{
		"security-group", "security-groups", "create-security-group", "update-security-group", "delete-security-group",
		"bind-security-group", "unbind-security-group", "bind-staging-security-group", "staging-security-groups",
		"unbind-staging-security-group", "bind-running-security-group", "running-security-groups",
		"unbind-running-security-group",
	}},
	{"Environment variable groups", []string{
		"running-environment-variable-group", "staging-environment-variable-group", "set-staging-environment-variable-group",
		"set-running-environment-variable-group",
	}},
	{"Isolation segments", []string{
		"isolation-segments", "create-isolation-segment", "delete-isolation-segment", "enable-org-isolation",
		"disable-org-isolation",
		"set-org-default-isolation-segment", "reset-org-default-isolation-segment", "set-space-isolation-segment",
		"reset-space-isolation-segment",
	}},
	{"Feature flags", []string{
		"feature-flags", "feature-flag", "enable-feature-flag", "disable-feature-flag",
	}},
	{"Metadata", []string{
		"labels", "set-label", "unset-label",
	}},
	{"Advanced", []string{
		"curl", "config", "oauth-token", "ssh-code",
	}},
	{"Add/remove plugin repository", []string{
		"add-plugin-repo", "remove-plugin-repo", "list-plugin-repos", "repo-plugins",
	}},
	{"Add/remove plugin", []string{
		"plugins", "install-plugin", "uninstall-plugin",
	}},
}
