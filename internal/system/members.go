package system

import (
	"ingot/internal/platform/api/apps"
	"ingot/internal/platform/run/controller/usage"
)

// membersForAPI translates the members of an instance.
func membersForAPI(members []usage.Member) []apps.MemberUsage {
	list := make([]apps.MemberUsage, 0, len(members))
	for _, m := range members {
		one := apps.MemberUsage{
			Name: m.Name, Sidecar: m.Sidecar, State: string(m.State), Since: m.Since, CPU: m.CPU, Memory: m.Memory,
			MemoryLimit: m.MemoryLimit, Restarts: m.Restarts,
		}
		if x := m.LastExit; x != nil {
			one.LastExit = &apps.MemberExit{Status: x.Status, Reason: x.Reason, Time: x.Time}
		}
		list = append(list, one)
	}
	return list
}
