package platform

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
)

// CheckSidecarPorts refuses two members of one process, or of a task, that declare the same
// port. The main process of web declares the port that routes without one lead to, unless it
// is an image, which has ports of its own.
func CheckSidecarPorts(all []*Sidecar, l Lifecycle) error {
	groups := map[string][]*Sidecar{}
	for _, s := range all {
		for _, kind := range s.ProcessTypes {
			groups["process "+kind] = append(groups["process "+kind], s)
		}
		if s.RunsInTasks() {
			groups["tasks"] = append(groups["tasks"], s)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		owners := map[int]string{}
		if group == "process "+WebProcess && l.Type != LifecycleDocker {
			owners[DefaultPort] = MainMember
		}
		for _, s := range groups[group] {
			for _, port := range s.Options.Ports {
				switch owner := owners[port]; owner {
				case "":
					owners[port] = s.Name
				case MainMember:
					return fault.Invalid(fmt.Sprintf("The sidecar %q declares port %d, which is that of the main process of %s (PORT): use another port", s.Name, port, WebProcess))
				default:
					return fault.Invalid(fmt.Sprintf("The sidecars %q and %q of the %s declare the same port %d: use another port for one of them", owner, s.Name, group, port))
				}
			}
		}
	}
	return nil
}

// PortOwner returns the sidecar of a process type that declares a port, or nil.
func PortOwner(all []*Sidecar, processType string, port int) *Sidecar {
	i := slices.IndexFunc(all, func(s *Sidecar) bool {
		return slices.Contains(s.ProcessTypes, processType) && slices.Contains(s.Options.Ports, port)
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// DeclaredPorts says which sidecars of a process type declare which ports; it is empty if none
// does.
func DeclaredPorts(all []*Sidecar, processType string) string {
	var words []string
	for _, s := range all {
		if !slices.Contains(s.ProcessTypes, processType) || len(s.Options.Ports) == 0 {
			continue
		}
		ports := make([]string, 0, len(s.Options.Ports))
		for _, n := range s.Options.Ports {
			ports = append(ports, strconv.Itoa(n))
		}
		words = append(words, "sidecar "+s.Name+" declares "+strings.Join(ports, ", "))
	}
	return strings.Join(words, "; ")
}
