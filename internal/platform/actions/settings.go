package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// UpdateStack stores a changed state or metadata of a stack.
func (p *Platform) UpdateStack(tx platform.Tx, by Actor, s *platform.Stack) error {
	if err := platform.CheckStack(s); err != nil {
		return err
	}
	if err := tx.Stacks().Update(s); err != nil {
		return err
	}
	data := map[string]any{"request": map[string]any{"state": s.State, "state_reason": s.StateReason}}
	return p.Record(tx, "audit.stack.update", by, Target{GUID: s.GUID, Type: "stack", Name: s.Name}, data)
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
