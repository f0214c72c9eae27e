package staging

import (
	"encoding/json"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/staging/lifecycle"
)

// CheckSidecars refuses a sidecar without memory beside processes that take all
// the memory there is: those of the Java buildpack, and of buildpacks that say so
// (see the package comment). Buildpacks and executionMetadata are the droplet's.
//
// Staging calls it with the sidecars there are; whoever starts an app should
// too, since sidecars can be added later. The error is a fault.Unprocessable.
func CheckSidecars(buildpacks []platform.DropletBuildpack, executionMetadata string, sidecars []platform.Sidecar) error {
	var who string
	var execution lifecycle.Execution
	if executionMetadata != "" && json.Unmarshal([]byte(executionMetadata), &execution) == nil && execution.NeedsSidecarMemory {
		who = "this buildpack"
		if len(buildpacks) > 0 {
			who = buildpacks[len(buildpacks)-1].Name
		}
	}
	for _, b := range buildpacks {
		if platform.IsJava(b.Name) || strings.EqualFold(b.BuildpackName, "java") {
			who = b.Name
		}
	}
	if who == "" {
		return nil
	}
	return refuseWithout(who, sidecars)
}

func refuseWithout(buildpack string, sidecars []platform.Sidecar) error {
	var problems []string
	for _, s := range sidecars {
		if s.MemoryMB > 0 {
			continue
		}
		problems = append(problems, "The sidecar \""+s.Name+"\" of "+strings.Join(s.ProcessTypes, ", ")+" has no memory: "+
			"apps of "+buildpack+" take all the memory they are told of, so nothing would be left for it. "+
			"Set `memory` of the sidecar (memory: 64MB in the manifest, memory_in_mb in the API) and stage again")
	}
	return fault.Invalid(problems...)
}

// allSidecars are the user's and those of the droplet. Of two with one name the
// user's counts.
func allSidecars(users []platform.Sidecar, droplets []platform.DropletSidecar) []platform.Sidecar {
	all := slices.Clone(users)
	for _, d := range droplets {
		if !slices.ContainsFunc(all, func(s platform.Sidecar) bool { return s.Name == d.Name }) {
			all = append(all, platform.Sidecar{Name: d.Name, Command: d.Command, ProcessTypes: d.ProcessTypes, MemoryMB: d.MemoryMB, Origin: "buildpack"})
		}
	}
	return all
}
