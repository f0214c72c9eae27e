package platform

import (
	"slices"
	"strings"

	"ingot/internal/base/fault"
)

// CheckSidecars refuses sidecars without memory beside processes that use all the
// memory of their instance: those of the Java buildpack and, with needed set, of
// any other. The buildpacks are those of the droplet.
func CheckSidecars(buildpacks []DropletBuildpack, needed bool, sidecars []Sidecar) error {
	name := ""
	if needed {
		name = "this buildpack"
		if len(buildpacks) > 0 {
			name = buildpacks[len(buildpacks)-1].Name
		}
	}
	for _, b := range buildpacks {
		if IsJava(b.Name) || strings.EqualFold(b.BuildpackName, "java") {
			name = b.Name
		}
	}
	if name == "" {
		return nil
	}
	var problems []string
	for _, s := range sidecars {
		if s.MemoryMB > 0 {
			continue
		}
		problems = append(problems, "The sidecar \""+s.Name+"\" of "+strings.Join(slices.Concat(s.ProcessTypes, s.Options.RunIn), ", ")+" has no memory: "+
			"apps of "+name+" take all the memory they are told of, so nothing would be left for it. "+
			"Set `memory` of the sidecar (memory: 64MB in the manifest, memory_in_mb in the API) and stage again")
	}
	return fault.Invalid(problems...)
}

// MergeSidecars returns the user's sidecars and those of the droplet. Of two with
// the same name it takes the user's.
func MergeSidecars(users []Sidecar, droplets []DropletSidecar) []Sidecar {
	all := slices.Clone(users)
	for _, d := range droplets {
		if !slices.ContainsFunc(all, func(s Sidecar) bool { return s.Name == d.Name }) {
			all = append(all, *d.Sidecar())
		}
	}
	return all
}

// The origins of sidecars.
const (
	SidecarOfUser      = "user"
	SidecarOfBuildpack = "buildpack"
)

// Sidecar returns the sidecar of an app that has the droplet.
func (d DropletSidecar) Sidecar() *Sidecar {
	s := &Sidecar{Name: d.Name, Command: d.Command, ProcessTypes: d.ProcessTypes, MemoryMB: d.MemoryMB, Origin: SidecarOfBuildpack}
	if d.Options != nil {
		s.Options = *d.Options
	}
	return s
}

// RunsInTasks reports whether the sidecar accompanies tasks.
func (s *Sidecar) RunsInTasks() bool { return slices.Contains(s.Options.RunIn, RunInTasks) }
