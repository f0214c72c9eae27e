package actions

import (
	"fmt"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// checkSidecarMemory holds that the sidecars of a process leave something for
// it. without is left out of the sum: the sidecar as it was.
func (p *Platform) checkSidecarMemory(tx platform.Tx, s *platform.Sidecar, without string) error {
	processes, _, err := tx.Processes().List(platform.Where("app_guid", s.AppGUID))
	if err != nil {
		return err
	}
	for _, process := range processes {
		if !slices.Contains(s.ProcessTypes, process.Type) {
			continue
		}
		others, err := SidecarsOf(tx, process)
		if err != nil {
			return err
		}
		others = append(slices.DeleteFunc(others, func(o *platform.Sidecar) bool {
			return o.GUID == without &&
				without != ""
		}), s)
		if sidecarMemory(others) >= process.MemoryMB {
			return fault.Invalid(fmt.Sprintf("The memory allocation defined is too large to run with the dependent %q process",
				process.Type) + figures(process, others))
		}
	}
	return nil
}

// figures explains why sidecars leave nothing for their process, if the memory of one of them
// is enforced. Others get the words of Cloud Foundry alone.
func figures(process *platform.Process, sidecars []*platform.Sidecar) string {
	if !slices.ContainsFunc(sidecars, func(s *platform.Sidecar) bool { return s.Options.MemoryEnforced }) {
		return ""
	}
	var list []string
	for _, s := range sidecars {
		if s.MemoryMB > 0 {
			list = append(list, fmt.Sprintf("%s %dM", s.Name, s.MemoryMB))
		}
	}
	return fmt.Sprintf(" (the process has %dM, and its sidecars get %dM of it: %s)", process.MemoryMB,
		sidecarMemory(sidecars), strings.Join(list, ", "))
}

// checkMemberLimits refuses limits that cannot be enforced: a sidecar must not run with less
// than it asks for.
func (p *Platform) checkMemberLimits(s *platform.Sidecar) error {
	if s.Options.LimitsMember() && p.NoMemberLimits != "" {
		return fault.New(fault.Unprocessable, "%s", p.NoMemberLimits)
	}
	if s.Options.MemoryEnforced && s.MemoryMB == 0 {
		return fault.Invalid("Memory enforced needs the memory of the sidecar: set `memory` (memory_in_mb in the API)")
	}
	return nil
}

// SidecarsFit refuses the sidecars of an app that wait for each other, or declare the same
// port. It is called after sidecars were stored, in the same transaction, which is
// serializable: two changes at the same time cannot make a cycle that neither of them has.
func (p *Platform) SidecarsFit(tx platform.Tx, app *platform.App) error {
	all, _, err := tx.Sidecars().List(platform.Where("app_guid", app.GUID))
	if err != nil {
		return err
	}
	if err := platform.CheckSidecarOrder(all); err != nil {
		return err
	}
	return platform.CheckSidecarPorts(all, app.Lifecycle)
}

// CreateSidecar stores a sidecar of a user. It replaces one of a buildpack that has the same
// name. The caller calls SidecarsFit.
func (p *Platform) CreateSidecar(tx platform.Tx, by Actor, app *platform.App, s *platform.Sidecar) error {
	s.AppGUID, s.Origin = app.GUID, platform.SidecarOfUser
	if err := platform.CheckSidecar(s); err != nil {
		return err
	}
	if err := p.checkMemberLimits(s); err != nil {
		return err
	}
	same := platform.Where("app_guid", app.GUID).And(platform.In("name", s.Name)).
		And(platform.In("origin", platform.SidecarOfBuildpack))
	if _, err := tx.Sidecars().DeleteAll(same); err != nil {
		return err
	}
	if s.MemoryMB > 0 {
		if err := p.checkSidecarMemory(tx, s, ""); err != nil {
			return err
		}
	}
	slices.Sort(s.ProcessTypes)
	if err := sidecarConflict(s, tx.Sidecars().Insert(s)); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.update", by, app, map[string]any{"request": map[string]any{"sidecar": s.Name}})
}

// UpdateSidecar stores a changed sidecar. One of a buildpack becomes the user's, so that the
// change outlives the next build. The caller calls SidecarsFit.
func (p *Platform) UpdateSidecar(tx platform.Tx, by Actor, app *platform.App, s *platform.Sidecar,
	checkMemory bool) error {
	s.Origin = platform.SidecarOfUser
	if err := platform.CheckSidecar(s); err != nil {
		return err
	}
	if err := p.checkMemberLimits(s); err != nil {
		return err
	}
	if checkMemory {
		if err := p.checkSidecarMemory(tx, s, s.GUID); err != nil {
			return err
		}
	}
	slices.Sort(s.ProcessTypes)
	if err := sidecarConflict(s, tx.Sidecars().Update(s)); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.update", by, app, map[string]any{"request": map[string]any{"sidecar": s.Name}})
}

// DeleteSidecar removes a sidecar.
func (p *Platform) DeleteSidecar(tx platform.Tx, by Actor, app *platform.App, s *platform.Sidecar) error {
	if err := tx.Sidecars().Delete(s.GUID); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.update", by, app, map[string]any{"request": map[string]any{"sidecar": s.Name}})
}

func sidecarConflict(s *platform.Sidecar, err error) error {
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Sidecar with name '%s' already exists for given app", s.Name)
	}
	return err
}

// syncBuildpackSidecars gives an app the sidecars of a droplet instead of those of the droplet
// before. A sidecar of the user with the same name stays, and hides that of the buildpack.
func (p *Platform) syncBuildpackSidecars(tx platform.Tx, app *platform.App, d *platform.Droplet) error {
	of := platform.Where("app_guid", app.GUID)
	if _, err := tx.Sidecars().DeleteAll(of.And(platform.In("origin", platform.SidecarOfBuildpack))); err != nil {
		return err
	}
	all, _, err := tx.Sidecars().List(of)
	if err != nil {
		return err
	}
	for _, defined := range d.Sidecars {
		if slices.ContainsFunc(all, func(s *platform.Sidecar) bool { return s.Name == defined.Name }) {
			continue
		}
		s := defined.Sidecar()
		s.AppGUID = app.GUID
		if err := tx.Sidecars().Insert(s); err != nil {
			return err
		}
		all = append(all, s)
	}
	if len(d.Sidecars) == 0 {
		return nil // what is left was stored before
	}
	if err := platform.CheckSidecarCycles(all); err != nil {
		return err
	}
	return platform.CheckSidecarPorts(all, app.Lifecycle)
}
