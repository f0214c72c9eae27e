package cli

import "slices"

// subjectServices returns the commands of this package.
func subjectServices() []*command {
	return slices.Concat([]*command{
		{name: "marketplace", aliases: []string{"m"}, group: groupServices, summary: "List available service offerings", args: "[-e OFFERING]", need: aSpace, example: []string{"marketplace", "marketplace -e postgres"}, make: func() runner { return &marketplaceCommand{} }},
		{name: "services", aliases: []string{"s"}, group: groupServices, summary: "List the service instances in the target space", need: aSpace, example: []string{"services"}, make: func() runner { return &servicesCommand{} }},
		{name: "service", group: groupServices, summary: "Show a service instance", args: "SERVICE", need: aSpace, example: []string{"service my-db"}, make: func() runner { return &serviceCommand{} }},
		{name: "create-service", aliases: []string{"cs"}, group: groupServices, summary: "Create a service instance", args: "OFFERING PLAN SERVICE [-c JSON] [-t TAGS] [--wait]", need: aSpace, progress: true, example: []string{"create-service postgres small my-db --wait"}, make: func() runner { return &createServiceCommand{} }},
		{name: "delete-service", aliases: []string{"ds"}, group: groupServices, summary: "Delete a service instance", args: "SERVICE [-f] [--wait]", need: aSpace, progress: true, example: []string{"delete-service my-db -f --wait"}, make: func() runner { return &deleteServiceCommand{} }},
		{name: "bind-service", aliases: []string{"bs"}, group: groupServices, summary: "Bind a service instance to an app", args: "APP SERVICE [-c JSON]", need: aSpace, progress: true, example: []string{"bind-service my-app my-db"}, make: func() runner { return &bindServiceCommand{} }},
		{name: "unbind-service", aliases: []string{"us"}, group: groupServices, summary: "Unbind a service instance from an app", args: "APP SERVICE", need: aSpace, progress: true, example: []string{"unbind-service my-app my-db"}, make: func() runner { return &unbindServiceCommand{} }},
		{name: "create-service-key", aliases: []string{"csk"}, group: groupServices, summary: "Create a service key", args: "SERVICE KEY [-c JSON]", need: aSpace, progress: true, example: []string{"create-service-key my-db my-key"}, make: func() runner { return &createServiceKeyCommand{} }},
		{name: "service-key", group: groupServices, summary: "Show a service key's credentials", args: "SERVICE KEY", need: aSpace, example: []string{"service-key my-db my-key"}, make: func() runner { return &serviceKeyCommand{} }},
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
		{name: "service-brokers", group: groupOperate, summary: "List service brokers", need: aLogin, example: []string{"service-brokers"}, make: func() runner { return &serviceBrokersCommand{} }},
		{name: "create-service-broker", aliases: []string{"csb"}, group: groupOperate, summary: "Register a service broker", args: "BROKER USER PASSWORD URL [--space-scoped]", need: aLogin, progress: true, example: []string{"create-service-broker my-broker user password https://broker.example.com"}, make: func() runner { return &createBrokerCommand{} }},
		{name: "delete-service-broker", group: groupOperate, summary: "Remove a service broker", args: "BROKER [-f]", need: aLogin, progress: true, example: []string{"delete-service-broker my-broker -f"}, make: func() runner { return &deleteBrokerCommand{} }},
		{name: "enable-service-access", group: groupOperate, summary: "Allow access to a service offering", args: "OFFERING [-p PLAN] [-o ORG]", need: aLogin, example: []string{"enable-service-access postgres", "enable-service-access postgres -p large -o acme"}, make: func() runner { return &serviceAccessCommand{give: true} }},
		{name: "disable-service-access", group: groupOperate, summary: "Revoke access to a service offering", args: "OFFERING [-p PLAN] [-o ORG]", need: aLogin, example: []string{"disable-service-access postgres"}, make: func() runner { return &serviceAccessCommand{} }},
	}, serviceAdminCommands())
}
