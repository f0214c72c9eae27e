package access

import (
	"slices"

	"ingot/internal/cli/core"
)

// Commands returns the commands of this package.
func Commands() []*core.Command {
	return slices.Concat([]*core.Command{
		{Name: "login", Aliases: []string{"l"}, Group: core.GroupLogin, Summary: "Log in and select an org and space", Args: "[-a URL] [-u USER] [-p PASSWORD] [-o ORG] [-s SPACE]",
			Stray:   "the API endpoint is given by -a, such as 'login -a http://127.0.0.1:8080'",
			About:   "Prompts for values that are not given, including org and space. A server that you run on this machine needs no login: the client finds it.",
			Example: []string{"login -a http://api.localhost:8080 -u admin", "login --sso"}, Make: func() core.Runner { return &loginCommand{} }},
		{Name: "api", Group: core.GroupLogin, Summary: "Set or show the API endpoint", Args: "[URL]", Example: []string{"api http://127.0.0.1:8080", "api"}, Make: func() core.Runner { return &apiCommand{} }},
		{Name: "auth", Group: core.GroupLogin, Summary: "Log in non-interactively", Args: "USER PASSWORD [--client-credentials]", Need: core.NeedsAPI,
			Example: []string{"auth admin \"$PASSWORD\"", "auth my-client \"$SECRET\" --client-credentials"}, Make: func() core.Runner { return &authCommand{} }},
		{Name: "logout", Aliases: []string{"lo"}, Group: core.GroupLogin, Summary: "Log out", Example: []string{"logout"}, Make: func() core.Runner { return &logoutCommand{} }},
		{Name: "target", Aliases: []string{"t"}, Group: core.GroupLogin, Summary: "Set or show the targeted org and space", Args: "[-o ORG] [-s SPACE]", Need: core.NeedsLogin, Example: []string{"target", "target -o demo -s dev"}, Make: func() core.Runner { return &targetCommand{} }},
		{Name: "orgs", Aliases: []string{"o"}, Group: core.GroupOrgs, Summary: "List orgs", Need: core.NeedsLogin, Example: []string{"orgs"}, Make: func() core.Runner { return &orgsCommand{} }},
		{Name: "spaces", Group: core.GroupOrgs, Summary: "List the spaces in the target org", Need: core.NeedsOrg, Example: []string{"spaces"}, Make: func() core.Runner { return &spacesCommand{} }},
		{Name: "create-org", Aliases: []string{"co"}, Group: core.GroupOrgs, Summary: "Create an org", Args: "ORG", Need: core.NeedsLogin, Example: []string{"create-org acme"}, Make: func() core.Runner { return &createOrgCommand{} }},
		{Name: "create-space", Aliases: []string{"csp"}, Group: core.GroupOrgs, Summary: "Create a space", Args: "SPACE [-o ORG]", Need: core.NeedsLogin, Example: []string{"create-space shop -o acme"}, Make: func() core.Runner { return &createSpaceCommand{} }},
		{Name: "curl", Group: core.GroupOther, Summary: "Send a raw request to the API", Args: "PATH [-X METHOD] [-d BODY] [-H HEADER] [-i]", Need: core.NeedsAPI,
			Example: []string{"curl /v3/apps", `curl -X PATCH /v3/routes/GUID/destinations -d '{"destinations":[]}'`}, Make: func() core.Runner { return &curlCommand{} }},
		{Name: "passwd", Aliases: []string{"pw"}, Group: core.GroupLogin, Summary: "Change your password", Need: core.NeedsLogin, Example: []string{"passwd"}, Make: func() core.Runner { return &passwdCommand{} }},
		{Name: "oauth-token", Group: core.GroupLogin, Summary: "Show the access token", Need: core.NeedsLogin, Example: []string{"oauth-token", `curl -H "Authorization: $(ingot oauth-token)" …`}, Make: func() core.Runner { return &oauthTokenCommand{} }},
		{Name: "delete-org", Group: core.GroupOrgs, Summary: "Delete an org and everything in it", Args: "ORG [-f]", Need: core.NeedsLogin, Progress: true, Example: []string{"delete-org acme -f"}, Make: func() core.Runner { return &deleteOrgCommand{} }},
		{Name: "delete-space", Group: core.GroupOrgs, Summary: "Delete a space and everything in it", Args: "SPACE [-o ORG] [-f]", Need: core.NeedsLogin, Progress: true, Example: []string{"delete-space shop -o acme -f"}, Make: func() core.Runner { return &deleteSpaceCommand{} }},
		{Name: "create-user", Group: core.GroupUsers, Summary: "Create a user", Args: "USER [PASSWORD]", Need: core.NeedsLogin, About: "Prompts for PASSWORD when it is not given.", Example: []string{"create-user ann@example.com"}, Make: func() core.Runner { return &createUserCommand{} }},
		{Name: "delete-user", Group: core.GroupUsers, Summary: "Delete a user", Args: "USER [-f]", Need: core.NeedsLogin, Progress: true, Example: []string{"delete-user ann@example.com -f"}, Make: func() core.Runner { return &deleteUserCommand{} }},
		{Name: "org-users", Group: core.GroupUsers, Summary: "List the users of an org by role", Args: "ORG", Need: core.NeedsLogin, Example: []string{"org-users acme"}, Make: func() core.Runner { return &orgUsersCommand{} }},
		{Name: "set-org-role", Group: core.GroupUsers, Summary: "Assign an org role to a user", Args: "USER ORG ROLE", Need: core.NeedsLogin, About: "ROLE is OrgManager, BillingManager, OrgAuditor or OrgUser.", Example: []string{"set-org-role ann@example.com acme OrgManager"}, Make: func() core.Runner { return &orgRoleCommand{give: true} }},
		{Name: "unset-org-role", Group: core.GroupUsers, Summary: "Remove an org role from a user", Args: "USER ORG ROLE", Need: core.NeedsLogin, Example: []string{"unset-org-role ann@example.com acme OrgManager"}, Make: func() core.Runner { return &orgRoleCommand{} }},
		{Name: "space-users", Group: core.GroupUsers, Summary: "List the users of a space by role", Args: "ORG SPACE", Need: core.NeedsLogin, Example: []string{"space-users acme shop"}, Make: func() core.Runner { return &spaceUsersCommand{} }},
		{Name: "set-space-role", Group: core.GroupUsers, Summary: "Assign a space role to a user", Args: "USER ORG SPACE ROLE", Need: core.NeedsLogin, About: "ROLE is SpaceManager, SpaceDeveloper, SpaceSupporter or SpaceAuditor.", Example: []string{"set-space-role ann@example.com acme shop SpaceDeveloper"}, Make: func() core.Runner { return &spaceRoleCommand{give: true} }},
		{Name: "unset-space-role", Group: core.GroupUsers, Summary: "Remove a space role from a user", Args: "USER ORG SPACE ROLE", Need: core.NeedsLogin, Example: []string{"unset-space-role ann@example.com acme shop SpaceDeveloper"}, Make: func() core.Runner { return &spaceRoleCommand{} }},
	}, clientCommands(), placeCommands(), quotaCommands(), segmentCommands())
}
