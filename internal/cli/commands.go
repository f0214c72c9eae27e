package cli

import "slices"

// groups is the order in which the groups of commands are listed.
var groups = []string{
	groupLogin, groupApps, groupInspect, groupRoutes, groupServices, groupOrgs, groupUsers, groupQuotas, groupNetwork, groupSegments,
	groupClients, groupOperate, groupOther,
}

// commands is the table of all commands, in the order in which they are listed.
var commands = inGroups(slices.Concat(
	subjectPush(), subjectApps(), subjectRoutes(), subjectNotifications(), subjectAccess(), subjectAdmin(), []*command{completion}, subjectServices(),
))

// inGroups sorts commands by group and keeps their order within each.
func inGroups(all []*command) []*command {
	place := func(c *command) int {
		at := 2 * slices.Index(groups, c.group)
		if c.atEnd {
			at++
		}
		return at
	}
	slices.SortStableFunc(all, func(a, b *command) int { return place(a) - place(b) })
	return all
}
