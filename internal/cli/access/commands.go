package access

import (
	"slices"

	"ingot/internal/cli/core"
)

// Commands returns the commands of this package, in the order in which their groups list them.
func Commands() []*core.Command {
	return slices.Concat(
		loginCommands(), contextCommands(), usersCommands(), orgsCommands(), placeCommands(), rolesCommands(),
		quotaCommands(), segmentCommands(), clientCommands(), curlCommands(), gitCommands(),
	)
}
