package system

import (
	"ingot/internal/platform/api"
	"ingot/internal/platform/run/controller/usage"
)

// membersForAPI translates the members of an instance.
func membersForAPI(members []usage.Member) []api.MemberUsage {
	list := make([]api.MemberUsage, 0, len(members))
	for _, m := range members {
		one := api.MemberUsage{
			Name: m.Name, Sidecar: m.Sidecar, State: string(m.State), Since: m.Since, CPU: m.CPU, Memory: m.Memory,
			MemoryLimit: m.MemoryLimit, Restarts: m.Restarts,
		}
		if x := m.LastExit; x != nil {
			one.LastExit = &api.MemberExit{Status: x.Status, Reason: x.Reason, Time: x.Time}
		}
		list = append(list, one)
	}
	return list
}
