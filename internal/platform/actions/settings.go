package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// CreateStack stores another stack. It is a name that apps and buildpacks can ask for:
// the root file system is that of this server.
func (p *Platform) CreateStack(tx platform.Tx, by Actor, s *platform.Stack) error {
	if err := platform.CheckStack(s); err != nil {
		return err
	}
	err := tx.Stacks().Insert(s)
	if fault.Is(err, fault.Conflict) {
		return fault.Wrap(err, fault.Unprocessable, "Name must be unique")
	}
	if err != nil {
		return err
	}
	return p.recordStack(tx, "audit.stack.create", by, s, map[string]any{"name": s.Name, "state": s.State})
}

// DeleteStack deletes a stack that no app uses, except the one of this server.
func (p *Platform) DeleteStack(tx platform.Tx, by Actor, s *platform.Stack) error {
	if s.Default {
		return fault.Invalid("Cannot delete stack '" + s.Name + "' because it comes with the platform.")
	}
	if n, err := tx.Apps().Count(platform.Where("stack", s.Name)); err != nil {
		return err
	} else if n > 0 {
		return fault.Invalid("Cannot delete stack '" + s.Name + "' because apps are currently using the stack.")
	}
	if err := tx.Stacks().Delete(s.GUID); err != nil {
		return err
	}
	return p.recordStack(tx, "audit.stack.delete", by, s, nil)
}

func (p *Platform) recordStack(tx platform.Tx, event string, by Actor, s *platform.Stack,
	request map[string]any) error {
	data := map[string]any{}
	if request != nil {
		data["request"] = request
	}
	return p.Record(tx, event, by, Target{GUID: s.GUID, Type: "stack", Name: s.Name}, data)
}

// UpdateStack stores a changed state or metadata of a stack.
func (p *Platform) UpdateStack(tx platform.Tx, by Actor, s *platform.Stack) error {
	if err := platform.CheckStack(s); err != nil {
		return err
	}
	if err := tx.Stacks().Update(s); err != nil {
		return err
	}
	return p.recordStack(tx, "audit.stack.update", by, s, map[string]any{"state": s.State, "state_reason": s.StateReason})
}

// StackUsable refuses the stack of an app that may not be staged with it, and returns
// a warning if that will be so.
func (p *Platform) StackUsable(tx platform.Tx, app *platform.App, name string) (warning string, err error) {
	stack, err := tx.Stacks().First(platform.Where("name", name))
	if fault.Is(err, fault.NotFound) {
		return "", nil // of another lifecycle
	}
	if err != nil || stack.State == platform.StackActive {
		return "", err
	}
	staged, err := tx.Droplets().Count(platform.Where("app_guid", app.GUID))
	if err != nil {
		return "", err
	}
	return stack.Usable(staged == 0)
}

// SetFeatureFlag stores a feature flag.
func (p *Platform) SetFeatureFlag(tx platform.Tx, f *platform.FeatureFlag) error {
	if len([]rune(f.CustomErrorMessage)) > 250 {
		return fault.Invalid("Custom error message is too long (maximum is 250 characters)")
	}
	f.Updated = p.Now()
	return tx.SetFeatureFlag(*f)
}

// SetEnvGroup stores an environment variable group.
func (p *Platform) SetEnvGroup(tx platform.Tx, g *platform.EnvGroup) error {
	if err := platform.CheckEnv(g.Var); err != nil {
		return err
	}
	g.Updated = p.Now()
	return tx.SetEnvGroup(*g)
}
