package actions

import (
	"fmt"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// CheckSidecar says what is wrong with a sidecar by itself.
func CheckSidecar(s *platform.Sidecar) error {
	var problems []string
	switch {
	case s.Name == "":
		problems = append(problems, "Name can't be blank")
	case len([]rune(s.Name)) > 255:
		problems = append(problems, "Name is too long (maximum is 255 characters)")
	case strings.ContainsFunc(s.Name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		problems = append(problems, "Name must not contain control characters")
	}
	switch {
	case s.Command == "":
		problems = append(problems, "Command can't be blank")
	case len([]rune(s.Command)) > 4096:
		problems = append(problems, "Command is too long (maximum is 4096 characters)")
	}
	if len(s.ProcessTypes) == 0 {
		problems = append(problems, "Process types must have at least 1 process_type")
	}
	for i, t := range s.ProcessTypes {
		switch {
		case t == "" || len([]rune(t)) > 255:
			problems = append(problems, "Process types must be 1 to 255 characters long")
		case slices.Contains(s.ProcessTypes[:i], t):
			problems = append(problems, "Process types must not contain duplicates: "+t)
		}
	}
	if s.MemoryMB < 0 {
		problems = append(problems, "Memory in mb must be greater than 0")
	}
	return fault.Invalid(problems...)
}

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
		sum := s.MemoryMB
		for _, o := range others {
			if o.GUID != without {
				sum += o.MemoryMB
			}
		}
		if sum >= process.MemoryMB {
			return fault.Invalid(fmt.Sprintf("The memory allocation defined is too large to run with the dependent %q process", process.Type))
		}
	}
	return nil
}

// CreateSidecar stores a sidecar of a user.
func (p *Platform) CreateSidecar(tx platform.Tx, by Actor, app *platform.App, s *platform.Sidecar) error {
	s.AppGUID, s.Origin = app.GUID, "user"
	if err := CheckSidecar(s); err != nil {
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

// UpdateSidecar stores a changed sidecar.
func (p *Platform) UpdateSidecar(tx platform.Tx, by Actor, app *platform.App, s *platform.Sidecar, checkMemory bool) error {
	if err := CheckSidecar(s); err != nil {
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
