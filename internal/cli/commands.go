package cli

import (
	"slices"

	"ingot/internal/cli/access"
	"ingot/internal/cli/admin"
	"ingot/internal/cli/apps"
	"ingot/internal/cli/core"
	"ingot/internal/cli/docs"
	"ingot/internal/cli/notifications"
	"ingot/internal/cli/push"
	"ingot/internal/cli/routes"
	"ingot/internal/cli/services"
)

// groups is the order in which the groups of commands are listed.
var groups = []string{
	core.GroupLogin, core.GroupApps, core.GroupInspect, core.GroupRoutes, core.GroupServices, core.GroupOrgs,
	core.GroupUsers, core.GroupQuotas, core.GroupNetwork, core.GroupSegments,
	core.GroupClients, core.GroupOperate, core.GroupOther,
}

// commands is the table of all commands, in the order in which they are listed.
var commands = inGroups(slices.Concat(
	push.Commands(), apps.Commands(), routes.Commands(), notifications.Commands(), access.Commands(), admin.Commands(),
	docs.Commands(), completion, services.Commands(),
))

// inGroups sorts commands by group and keeps their order within each.
func inGroups(all []*core.Command) []*core.Command {
	place := func(c *core.Command) int {
		at := 2 * slices.Index(groups, c.Group)
		if c.AtEnd {
			at++
		}
		return at
	}
	slices.SortStableFunc(all, func(a, b *core.Command) int { return place(a) - place(b) })
	return all
}
