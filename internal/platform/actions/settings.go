package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// UpdateStack changes the metadata of a stack.
func (p *Platform) UpdateStack(tx platform.Tx, by Actor, s *platform.Stack, patch *MetadataPatch) error {
	if err := UpdateMetadata(tx.Stacks(), s, patch); err != nil {
		return err
	}
	return p.Record(tx, "audit.stack.update", by, Target{GUID: s.GUID, Type: "stack", Name: s.Name}, nil)
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
	if err := CheckEnv(g.Var); err != nil {
		return err
	}
	g.Updated = p.Now()
	return tx.SetEnvGroup(*g)
}
