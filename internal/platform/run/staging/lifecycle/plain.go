package lifecycle

import (
	"fmt"
	"os"
	"path/filepath"
)

// PlainPack is a buildpack that does the same for every app, so that its scripts need not run.
type PlainPack struct {
	Buildpack
	// Manifest is its manifest.yml, Config its deps/0/config.yml, and Profile the only script in profile.d, with
	// its name.
	Manifest, Config, ProfileName, Profile string
	// Say is what its scripts write.
	Say string
}

// RunPlain does what Run does with a single plain buildpack, outside of a staging instance: of the app, Home has the
// Procfile only, if there is one.
func (b *Builder) RunPlain(p PlainPack, stack string) error {
	b.plan = Plan{Buildpacks: []Buildpack{p.Buildpack}, SkipDetect: true, Stack: stack}
	s := &session{Builder: b, chosen: b.plan.Buildpacks, detected: []string{""}}
	deps := b.at("deps", s.index(0))
	for _, dir := range []string{b.at(AppDir), b.at(CacheDir), b.at("profile.d"), s.buildpackDir(0), deps} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		filepath.Join(s.buildpackDir(0), "manifest.yml"): p.Manifest,
		filepath.Join(deps, "config.yml"):                p.Config,
		b.at("profile.d", p.ProfileName):                 p.Profile,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil { //nolint:gosec // as the scripts do
			return err
		}
	}
	if _, err := fmt.Fprint(b.Out, p.Say); err != nil {
		return err
	}
	return s.finish(release{})
}
