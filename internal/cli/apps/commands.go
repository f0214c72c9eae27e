package apps

import (
	"slices"

	"ingot/internal/cli/core"
)

// Commands returns the commands of this package, in the order in which their groups list them.
func Commands() []*core.Command {
	return slices.Concat(
		lifecycleCommands(), deploymentsCommands(), scaleCommands(), appsCommands(), appCommands(), logsCommands(),
		sshCommands(), eventsCommands(),
		tasksCommands(), deleteCommands(), envCommands(), instancesCommands(), topCommands(), dropletsCommands(),
		revisionsCommands(), packagesCommands(), gitSourceCommands(),
		sshAccessCommands(), labelsCommands(), healthCheckCommands(), openCommands(),
	)
}
