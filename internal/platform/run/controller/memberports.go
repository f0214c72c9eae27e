package controller

import (
	"slices"

	"ingot/internal/platform"
)

// divide returns the ports of an instance with those of the main process first, and how many
// these are. Ports that sidecars declare are theirs: the main process neither listens on them
// nor has one of them as its PORT, and its checks do not ask for them, because a sidecar may
// be down while the instance lives. If routes lead only to sidecars, the main process has
// fallback.
func divide(ports []int, processType string, sidecars []*platform.Sidecar, fallback int) (all []int, own int) {
	declared := func(port int) bool {
		return port != fallback && platform.PortOwner(sidecars, processType, port) != nil
	}
	all = slices.DeleteFunc(slices.Clone(ports), declared)
	if len(all) == 0 {
		all = []int{fallback}
	}
	own = len(all)
	for _, port := range ports {
		if declared(port) {
			all = append(all, port)
		}
	}
	return all, own
}
