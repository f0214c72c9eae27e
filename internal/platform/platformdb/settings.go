package platformdb

import (
	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// FeatureFlags implements platform.Tx. They come by name.
func (x *transaction) FeatureFlags() ([]platform.FeatureFlag, error) {
	return db.All(x.Tx, func(s db.Scanner) (f platform.FeatureFlag, err error) {
		var updated int64
		err = s.Scan(&f.Name, &f.Enabled, &f.CustomErrorMessage, &updated)
		f.Updated = db.Time(updated)
		return f, err
	}, "SELECT name, enabled, custom_error_message, updated_at FROM platform_feature_flags ORDER BY name")
}

// SetFeatureFlag implements platform.Tx. The flag is updated now, whatever it says.
func (x *transaction) SetFeatureFlag(f platform.FeatureFlag) error {
	_, err := x.Exec(`INSERT INTO platform_feature_flags (name, enabled, custom_error_message, updated_at) VALUES (?, ?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET enabled = excluded.enabled,
			custom_error_message = excluded.custom_error_message, updated_at = excluded.updated_at`,
		f.Name, f.Enabled, f.CustomErrorMessage, db.Nanos(x.clock.now()))
	return written(err)
}

const envGroupVariables = "platform_env_groups.variables"

// EnvGroup implements platform.Tx. A group that was never set is empty.
func (x *transaction) EnvGroup(name string) (platform.EnvGroup, error) {
	g := platform.EnvGroup{Name: name}
	var sealed string
	var updated int64
	err := x.QueryRow("SELECT variables, updated_at FROM platform_env_groups WHERE name = ?", name).Scan(&sealed, &updated)
	if missing(err) {
		return g, nil
	}
	if err != nil {
		return platform.EnvGroup{}, err
	}
	g.Updated = db.Time(updated)
	if sealed == "" {
		return g, nil
	}
	plain, err := x.Unseal(envGroupVariables, name, sealed)
	if err != nil {
		return platform.EnvGroup{}, err
	}
	err = decode(string(plain), &g.Var)
	return g, err
}

// SetEnvGroup implements platform.Tx. The group is updated now, whatever it says.
func (x *transaction) SetEnvGroup(g platform.EnvGroup) error {
	text, err := encode(g.Var)
	if err != nil {
		return err
	}
	if text != "" {
		text = x.Seal(envGroupVariables, g.Name, []byte(text))
	}
	_, err = x.Exec(`INSERT INTO platform_env_groups (name, variables, updated_at) VALUES (?, ?, ?)
		ON CONFLICT (name) DO UPDATE SET variables = excluded.variables, updated_at = excluded.updated_at`,
		g.Name, text, db.Nanos(x.clock.now()))
	return written(err)
}
