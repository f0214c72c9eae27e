package services

import (
	"slices"

	"ingot/internal/cli/core"
)

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return slices.Concat([]*core.Command{
		{Name: "marketplace", Aliases: []string{"m"}, Group: core.GroupServices, Summary: "List available service offerings", Args: "[-e OFFERING]", Need: core.NeedsSpace, Example: []string{"marketplace", "marketplace -e postgres"}, Make: func() core.Runner { return &marketplaceCommand{} }},
		{Name: "services", Aliases: []string{"s"}, Group: core.GroupServices, Summary: "List the service instances in the target space", Need: core.NeedsSpace, Example: []string{"services"}, Make: func() core.Runner { return &servicesCommand{} }},
		{Name: "service", Group: core.GroupServices, Summary: "Show a service instance", Args: "SERVICE", Need: core.NeedsSpace, Example: []string{"service my-db"}, Make: func() core.Runner { return &serviceCommand{} }},
		{Name: "create-service", Aliases: []string{"cs"}, Group: core.GroupServices, Summary: "Create a service instance", Args: "OFFERING PLAN SERVICE [-c JSON] [-t TAGS] [--wait]", Need: core.NeedsSpace, Progress: true, Example: []string{"create-service postgres small my-db --wait"}, Make: func() core.Runner { return &createServiceCommand{} }},
		{Name: "delete-service", Aliases: []string{"ds"}, Group: core.GroupServices, Summary: "Delete a service instance", Args: "SERVICE [-f] [--wait]", Need: core.NeedsSpace, Progress: true, Example: []string{"delete-service my-db -f --wait"}, Make: func() core.Runner { return &deleteServiceCommand{} }},
		{Name: "bind-service", Aliases: []string{"bs"}, Group: core.GroupServices, Summary: "Bind a service instance to an app", Args: "APP SERVICE [-c JSON]", Need: core.NeedsSpace, Progress: true, Example: []string{"bind-service my-app my-db"}, Make: func() core.Runner { return &bindServiceCommand{} }},
		{Name: "unbind-service", Aliases: []string{"us"}, Group: core.GroupServices, Summary: "Unbind a service instance from an app", Args: "APP SERVICE", Need: core.NeedsSpace, Progress: true, Example: []string{"unbind-service my-app my-db"}, Make: func() core.Runner { return &unbindServiceCommand{} }},
		{Name: "create-service-key", Aliases: []string{"csk"}, Group: core.GroupServices, Summary: "Create a service key", Args: "SERVICE KEY [-c JSON]", Need: core.NeedsSpace, Progress: true, Example: []string{"create-service-key my-db my-key"}, Make: func() core.Runner { return &createServiceKeyCommand{} }},
		{Name: "service-key", Group: core.GroupServices, Summary: "Show a service key's credentials", Args: "SERVICE KEY", Need: core.NeedsSpace, Example: []string{"service-key my-db my-key"}, Make: func() core.Runner { return &serviceKeyCommand{} }},
		{Name: "update-service", Group: core.GroupServices, Summary: "Update a service instance's plan, parameters or tags", Args: "SERVICE [-p PLAN] [-c JSON] [-t TAGS] [--wait]", Need: core.NeedsSpace, Progress: true, Example: []string{"update-service my-db -p large --wait"}, Make: func() core.Runner { return &updateServiceCommand{} }},
		{Name: "rename-service", Group: core.GroupServices, Summary: "Rename a service instance", Args: "SERVICE NEW_NAME", Need: core.NeedsSpace, Example: []string{"rename-service my-db your-db"}, Make: func() core.Runner { return &renameServiceCommand{} }},
		{Name: "create-user-provided-service", Aliases: []string{"cups"}, Group: core.GroupServices, Summary: "Create a service instance from your own credentials", Args: "SERVICE [-p JSON] [-l URL] [-r URL] [-t TAGS]", Need: core.NeedsSpace,
			Example: []string{`create-user-provided-service my-api -p '{"url":"https://api.example.com"}'`, "create-user-provided-service my-drain -l syslog-tls://logs.example.com:6514"}, Make: func() core.Runner { return &createProvidedCommand{} }},
		{Name: "update-user-provided-service", Aliases: []string{"uups"}, Group: core.GroupServices, Summary: "Update a user-provided service instance", Args: "SERVICE [-p JSON] [-l URL] [-r URL] [-t TAGS]", Need: core.NeedsSpace, Example: []string{"update-user-provided-service my-api -p credentials.json"}, Make: func() core.Runner { return &updateProvidedCommand{} }},
		{Name: "service-keys", Aliases: []string{"sk"}, Group: core.GroupServices, Summary: "List the keys of a service instance", Args: "SERVICE", Need: core.NeedsSpace, Example: []string{"service-keys my-db"}, Make: func() core.Runner { return &serviceKeysCommand{} }},
		{Name: "delete-service-key", Aliases: []string{"dsk"}, Group: core.GroupServices, Summary: "Delete a service key", Args: "SERVICE KEY [-f] [--wait]", Need: core.NeedsSpace, Progress: true, Example: []string{"delete-service-key my-db my-key -f"}, Make: func() core.Runner { return &deleteServiceKeyCommand{} }},
		{Name: "rotate-credentials", Group: core.GroupServices, Summary: "Replace the credentials of a service instance", Args: "SERVICE [--app APP]... [--grace DURATION] [--keys] [--no-restart] [--force] [--wait]", Need: core.NeedsSpace, Progress: true,
			About:   "Bound apps get new credentials: by a rolling restart, or in their service files if their manifest says 'on-credentials'. The old ones are revoked when no instance uses them and the grace period is over.",
			Example: []string{"rotate-credentials my-db", "rotate-credentials my-db --app my-app --grace 1h --wait"}, Make: func() core.Runner { return &rotateCredentialsCommand{} }},
		{Name: "service-brokers", Group: core.GroupOperate, Summary: "List service brokers", Need: core.NeedsLogin, Example: []string{"service-brokers"}, Make: func() core.Runner { return &serviceBrokersCommand{} }},
		{Name: "create-service-broker", Aliases: []string{"csb"}, Group: core.GroupOperate, Summary: "Register a service broker", Args: "BROKER USER PASSWORD URL [--space-scoped]", Need: core.NeedsLogin, Progress: true, Example: []string{"create-service-broker my-broker user password https://broker.example.com"}, Make: func() core.Runner { return &createBrokerCommand{} }},
		{Name: "delete-service-broker", Group: core.GroupOperate, Summary: "Remove a service broker", Args: "BROKER [-f]", Need: core.NeedsLogin, Progress: true, Example: []string{"delete-service-broker my-broker -f"}, Make: func() core.Runner { return &deleteBrokerCommand{} }},
		{Name: "enable-service-access", Group: core.GroupOperate, Summary: "Allow access to a service offering", Args: "OFFERING [-p PLAN] [-o ORG]", Need: core.NeedsLogin, Example: []string{"enable-service-access postgres", "enable-service-access postgres -p large -o acme"}, Make: func() core.Runner { return &serviceAccessCommand{give: true} }},
		{Name: "disable-service-access", Group: core.GroupOperate, Summary: "Revoke access to a service offering", Args: "OFFERING [-p PLAN] [-o ORG]", Need: core.NeedsLogin, Example: []string{"disable-service-access postgres"}, Make: func() core.Runner { return &serviceAccessCommand{} }},
	}, serviceAdminCommands())
}
