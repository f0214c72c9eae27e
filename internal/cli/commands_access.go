package cli

import "slices"

// subjectAccess returns the commands of this package.
func subjectAccess() []*command {
	return slices.Concat([]*command{
		{name: "login", aliases: []string{"l"}, group: groupLogin, summary: "Log in and select an org and space", args: "[-a URL] [-u USER] [-p PASSWORD] [-o ORG] [-s SPACE]",
			stray:   "the API endpoint is given by -a, such as 'login -a http://127.0.0.1:8080'",
			about:   "Prompts for values that are not given, including org and space. A server that you run on this machine needs no login: the client finds it.",
			example: []string{"login -a http://api.localhost:8080 -u admin", "login --sso"}, make: func() runner { return &loginCommand{} }},
		{name: "api", group: groupLogin, summary: "Set or show the API endpoint", args: "[URL]", example: []string{"api http://127.0.0.1:8080", "api"}, make: func() runner { return &apiCommand{} }},
		{name: "auth", group: groupLogin, summary: "Log in non-interactively", args: "USER PASSWORD [--client-credentials]", need: anAPI,
			example: []string{"auth admin \"$PASSWORD\"", "auth my-client \"$SECRET\" --client-credentials"}, make: func() runner { return &authCommand{} }},
		{name: "logout", aliases: []string{"lo"}, group: groupLogin, summary: "Log out", example: []string{"logout"}, make: func() runner { return &logoutCommand{} }},
		{name: "target", aliases: []string{"t"}, group: groupLogin, summary: "Set or show the targeted org and space", args: "[-o ORG] [-s SPACE]", need: aLogin, example: []string{"target", "target -o demo -s dev"}, make: func() runner { return &targetCommand{} }},
		{name: "orgs", aliases: []string{"o"}, group: groupOrgs, summary: "List orgs", need: aLogin, example: []string{"orgs"}, make: func() runner { return &orgsCommand{} }},
		{name: "spaces", group: groupOrgs, summary: "List the spaces in the target org", need: anOrg, example: []string{"spaces"}, make: func() runner { return &spacesCommand{} }},
		{name: "create-org", aliases: []string{"co"}, group: groupOrgs, summary: "Create an org", args: "ORG", need: aLogin, example: []string{"create-org acme"}, make: func() runner { return &createOrgCommand{} }},
		{name: "create-space", aliases: []string{"csp"}, group: groupOrgs, summary: "Create a space", args: "SPACE [-o ORG]", need: aLogin, example: []string{"create-space shop -o acme"}, make: func() runner { return &createSpaceCommand{} }},
		{name: "curl", group: groupOther, summary: "Send a raw request to the API", args: "PATH [-X METHOD] [-d BODY] [-H HEADER] [-i]", need: anAPI,
			example: []string{"curl /v3/apps", `curl -X PATCH /v3/routes/GUID/destinations -d '{"destinations":[]}'`}, make: func() runner { return &curlCommand{} }},
		{name: "passwd", aliases: []string{"pw"}, group: groupLogin, summary: "Change your password", need: aLogin, example: []string{"passwd"}, make: func() runner { return &passwdCommand{} }},
		{name: "oauth-token", group: groupLogin, summary: "Show the access token", need: aLogin, example: []string{"oauth-token", `curl -H "Authorization: $(ingot oauth-token)" …`}, make: func() runner { return &oauthTokenCommand{} }},
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
	}, clientCommands(), placeCommands(), quotaCommands(), segmentCommands())
}
