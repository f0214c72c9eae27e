package manifest_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/manifest"
	"ingot/internal/platform/platformdb"
)

var update = flag.Bool("update", false, "write what comes out into testdata")

// fixture is a space on a real store.
type fixture struct {
	t       testing.TB
	store   platform.Store
	applier *manifest.Applier
}

func setup(t testing.TB) *fixture {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, platformdb.Migrations)
	f := &fixture{t: t, store: platformdb.New(d)}
	p, admin := tcpPlatform(t), actions.Actor{GUID: "admin", Type: "client", Name: "admin"}
	f.do(func(tx platform.Tx) error {
		org, other := &platform.Organization{Name: "o"}, &platform.Organization{Name: "other"}
		space := &platform.Space{Name: "s"}
		elsewhere := &platform.Space{Name: "elsewhere"}
		shared := &platform.Domain{Name: "apps.localhost"}
		for _, step := range []func() error{
			func() error { return tx.Stacks().Insert(&platform.Stack{Name: "cflinuxfs4", Default: true}) },
			func() error { return tx.Buildpacks().Insert(&platform.Buildpack{Name: "go_buildpack", Position: 1}) },
			func() error { return p.CreateOrganization(tx, admin, org) },
			func() error { return p.CreateOrganization(tx, admin, other) },
			func() error { space.OrgGUID = org.GUID; return p.CreateSpace(tx, admin, space) },
			func() error { elsewhere.OrgGUID = org.GUID; return p.CreateSpace(tx, admin, elsewhere) },
			func() error { return tx.Domains().Insert(shared) },
			func() error { return tx.Domains().Insert(&platform.Domain{Name: "mine.org", OrgGUID: org.GUID}) },
			func() error {
				return tx.Domains().Insert(&platform.Domain{Name: "tcp.localhost", RouterGroup: p.TCP.GUID})
			},
			func() error { return tx.Domains().Insert(&platform.Domain{Name: "theirs.org", OrgGUID: other.GUID}) },
			func() error {
				return p.CreateRoute(tx, admin, &platform.Route{SpaceGUID: elsewhere.GUID, DomainGUID: shared.GUID,
					Host: "elsewhere"}, shared)
			},
		} {
			if err := step(); err != nil {
				return err
			}
		}
		f.applier = &manifest.Applier{Platform: p, Actor: admin, Space: space, Features: []string{"ssh", "revisions"}}
		return nil
	})
	return f
}

// tcpPlatform has TCP routes.
func tcpPlatform(t testing.TB) *actions.Platform {
	t.Helper()
	ports, err := platform.ParsePorts("1024-1033")
	if err != nil {
		t.Fatal(err)
	}
	p := actions.New()
	p.TCP = platform.DefaultTCPGroup(ports)
	return p
}

func (f *fixture) do(work func(platform.Tx) error) {
	f.t.Helper()
	if err := f.store.Update(f.t.Context(), work); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) read(work func(platform.Tx) error) {
	f.t.Helper()
	if err := f.store.View(f.t.Context(), work); err != nil {
		f.t.Fatal(err)
	}
}

// apply does what the API does with a manifest.
func (f *fixture) apply(text string) (*manifest.Manifest, error) {
	m, err := manifest.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	err = f.store.Update(f.t.Context(), func(tx platform.Tx) error {
		for _, app := range m.Apps {
			if err := f.applier.Create(tx, app); err != nil {
				return err
			}
		}
		return nil
	})
	for _, app := range m.Apps {
		if err == nil {
			err = f.store.Update(f.t.Context(), func(tx platform.Tx) error { return f.applier.Apply(tx, app) })
		}
	}
	return m, err
}

// apps writes all apps as manifests, in the order of their creation.
func (f *fixture) apps() string {
	f.t.Helper()
	var all []string
	f.read(func(tx platform.Tx) error {
		all = nil
		apps, _, err := tx.Apps().List(platform.Where("space_guid", f.applier.Space.GUID))
		for _, app := range apps {
			text, err := manifest.Of(tx, app)
			if err != nil {
				return err
			}
			all = append(all, string(text))
		}
		return err
	})
	return strings.Join(all, "")
}

// whole makes one manifest of those of several apps.
func whole(text string) string {
	return "applications:\n" + strings.ReplaceAll(text, "applications:\n", "")
}

func (f *fixture) diff(m *manifest.Manifest) (changes []manifest.Change) {
	f.t.Helper()
	f.read(func(tx platform.Tx) (err error) {
		changes, err = manifest.Diff(tx, f.applier.Space, m)
		return err
	})
	return changes
}

func messages(err error) string {
	var e *fault.Error
	if !errors.As(err, &e) {
		return "an internal error: " + err.Error() + "\n"
	}
	return string(e.Code) + "\n" + strings.Join(e.Messages(), "\n") + "\n"
}

// TestGolden applies the manifests of every file of testdata one after another.
// They are separated by "=== then"; behind "=== gives" stand the apps as they
// are read back, behind "=== fails" the problems of the last manifest. New ones
// need no Go: write the manifests and the word, and run with -update.
func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no files in testdata", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			t.Parallel()
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, want, fails := strings.Cut(string(text), "=== fails\n")
			if !fails {
				var ok bool
				if head, want, ok = strings.Cut(head, "=== gives\n"); !ok {
					t.Fatal("there is neither === gives nor === fails")
				}
			}
			f := setup(t)
			var m *manifest.Manifest
			for i, step := range strings.Split(head, "=== then\n") {
				if err != nil {
					t.Fatalf("manifest %d: %s", i, messages(err))
				}
				m, err = f.apply(step)
			}
			var got string
			switch {
			case fails && err == nil:
				t.Fatal("it applies")
			case fails:
				got = messages(err)
			case err != nil:
				t.Fatalf("manifest is refused: %v", messages(err))
			default:
				got = f.apps()
				f.stable(m)
			}
			if *update {
				word := map[bool]string{true: "=== fails\n", false: "=== gives\n"}[fails]
				if err := os.WriteFile(file, []byte(head+word+got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// stable holds that a manifest that was applied changes nothing a second time,
// nor does what is read back.
func (f *fixture) stable(m *manifest.Manifest) {
	f.t.Helper()
	if changes := f.diff(m); len(changes) > 0 {
		f.t.Errorf("after applying there is still a difference: %+v", changes)
	}
	before, back := f.snapshot(), whole(f.apps())
	again, err := f.apply(back)
	if err != nil {
		f.t.Fatalf("what was read back does not apply: %s\n%s", messages(err), back)
	}
	for _, app := range again.Apps {
		if len(app.Warnings) > 0 {
			f.t.Errorf("what was read back has keys that do nothing: %v", app.Warnings)
		}
	}
	if changes := f.diff(again); len(changes) > 0 {
		f.t.Errorf("what was read back differs: %+v\n%s", changes, back)
	}
	if after := f.snapshot(); after != before {
		f.t.Errorf("applying what was read back changed\n%s\nto\n%s", before, after)
	}
}
