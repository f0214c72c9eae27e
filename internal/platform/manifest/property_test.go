package manifest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"
	"pgregory.net/rapid"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// drawn is a map of YAML whose members are drawn, some of them.
type drawn struct {
	t   *rapid.T
	out yaml.MapSlice
}

func (d *drawn) maybe(key string, value func() any) {
	if rapid.Bool().Draw(d.t, key) {
		d.out = append(d.out, yaml.MapItem{Key: key, Value: value()})
	}
}

func anyOf[T any](t *rapid.T, label string, values ...T) any {
	return rapid.SampledFrom(values).Draw(t, label)
}

var (
	// words are texts that YAML or shells may misunderstand.
	words = rapid.OneOf(
		rapid.SampledFrom([]string{"yes", "no", "null", "~", "1.0", "0x10", "012", "1e3", "2001-01-01", " lead", "trail ",
			"a: b", "- a", "#x", "*a", "&a", "!t", "%d", "@", "`", "'", `"`, "a\nb", "\t", "ü", "😀", "<<", "=", "12:30:45", "{}",
			"[", "|", "> x"}),
		rapid.StringN(1, 20, -1).Filter(func(s string) bool {
			return !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c == 0x7f || c == 0xfffd })
		}),
	)
	sizes = []string{"32M", "64MB", "0.5G", "65536K", "1g", "1GiB", "1048576000B", "100 M"}
)

func drawEnv(t *rapid.T) any {
	out := yaml.MapSlice{}
	for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[A-U][A-Z0-9_]{0,6}`), 0, 4, rapid.ID).
		Draw(t, "env names") {
		if name == "PORT" {
			continue
		}
		out = append(out, yaml.MapItem{Key: name, Value: rapid.OneOf(
			rapid.Map(words, func(s string) any { return s }), rapid.Map(rapid.Int(), func(n int) any { return n }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }),
			rapid.Map(rapid.Float64(), func(f float64) any { return f }), rapid.Just[any](nil),
			rapid.Just[any]([]any{1, "a", nil}),
			rapid.Just[any](yaml.MapSlice{{Key: "a", Value: 1.0}}),
		).Draw(t, "env value")})
	}
	return out
}

func drawProcessKeys(d *drawn) {
	t := d.t
	d.maybe("command", func() any {
		return rapid.OneOf(rapid.Map(words, func(s string) any { return s }), rapid.Just[any](nil)).Draw(t, "command")
	})
	d.maybe("instances", func() any {
		return rapid.OneOf(rapid.Map(rapid.IntRange(0, 9), func(n int) any { return n }), rapid.Just[any]("3")).Draw(t, "n")
	})
	d.maybe("memory", func() any { return anyOf(t, "memory", sizes...) })
	d.maybe(rapid.SampledFrom([]string{"disk_quota", "disk-quota"}).Draw(t, "spelling"),
		func() any { return anyOf(t, "disk", sizes...) })
	d.maybe("log-rate-limit-per-second", func() any { return anyOf[any](t, "rate", -1, 0, "-1", "1K", "1000B", "2MB") })
	d.maybe("user", func() any { return anyOf[any](t, "user", "vcap", "root", nil) })
	d.maybe("min-healthy-time", func() any { return anyOf[any](t, "least", 0, 10, "20", nil) })
	d.maybe("on_credentials", func() any { return anyOf[any](t, "on credentials", "none", "Restart", "hup", nil) })
	d.maybe("timeout", func() any { return rapid.IntRange(1, 300).Draw(t, "timeout") })
	for _, prefix := range []string{"health-check", "readiness_health_check"} {
		switch rapid.IntRange(0, 3).Draw(t, prefix) {
		case 0:
			d.out = append(d.out, yaml.MapItem{Key: prefix + "-type", Value: anyOf(t, "type", "port", "process",
				"none", "http")})
		case 1:
			d.out = append(d.out, yaml.MapItem{Key: prefix + "-type", Value: "http"},
				yaml.MapItem{Key: prefix + "-http-endpoint", Value: anyOf(t, "endpoint", "/", "/health?x=y", "/a b")})
		case 2:
			d.maybe(prefix+"-invocation-timeout", func() any { return rapid.IntRange(1, 9).Draw(t, "invocation") })
			d.maybe(prefix+"-interval", func() any { return rapid.IntRange(1, 9).Draw(t, "interval") })
		}
	}
}

func drawSidecars(t *rapid.T) any {
	out := []yaml.MapSlice{}
	for _, name := range rapid.SliceOfNDistinct(words, 0, 3, rapid.ID).Draw(t, "sidecar names") {
		d := &drawn{t: t, out: yaml.MapSlice{
			{Key: "name", Value: name}, {Key: "command", Value: words.Draw(t, "command")},
			{Key: "process_types", Value: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"worker", "web", "clock"}), 1, 3,
				rapid.ID).Draw(t, "types")},
		}}
		d.maybe("memory", func() any { return anyOf(t, "memory", "8M", "16MB", "0.5G", "1G") })
		out = append(out, d.out)
	}
	return out
}

// drawApp draws an app. Its routes are its own: two apps that ask for different
// options of one route contradict each other.
func drawApp(t *rapid.T, name string) yaml.MapSlice {
	d := &drawn{t: t, out: yaml.MapSlice{{Key: "name", Value: name}}}
	drawProcessKeys(d)
	d.maybe("env", func() any { return drawEnv(t) })
	d.maybe("stack", func() any { return "cflinuxfs4" })
	d.maybe("buildpacks", func() any {
		return anyOf(t, "buildpacks", []string{}, []string{"go_buildpack"}, []string{"https://example.org/x"})
	})
	d.maybe("features", func() any { return map[string]bool{"ssh": rapid.Bool().Draw(t, "ssh")} })
	d.maybe("metadata", func() any {
		return map[string]any{"labels": map[string]any{"k": anyOf[any](t, "label", "v", "", 1, nil, true),
			"example.org/x": "y"}, "annotations": map[string]any{"n": words.Draw(t, "annotation")}}
	})
	d.maybe("processes", func() any {
		out := []yaml.MapSlice{}
		for _, kind := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"web", "worker", "clock"}), 0, 3, rapid.ID).
			Draw(t, "types") {
			p := &drawn{t: t, out: yaml.MapSlice{{Key: "type", Value: kind}}}
			drawProcessKeys(p)
			out = append(out, p.out)
		}
		return out
	})
	d.maybe("sidecars", func() any { return drawSidecars(t) })
	d.maybe("routes", func() any {
		out := []yaml.MapSlice{}
		for _, r := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{name + ".apps.localhost", "https://B-" + name +
			".apps.localhost/P/", "mine.org/" + name, "*.mine.org/" + name}), 0, 3, rapid.ID).Draw(t, "routes") {
			one := &drawn{t: t, out: yaml.MapSlice{{Key: "route", Value: r}}}
			one.maybe("protocol", func() any { return anyOf(t, "protocol", "http1", "http2") })
			one.maybe("options", func() any {
				return map[string]any{"loadbalancing": anyOf[any](t, "lb", "round-robin", "least-connection", nil)}
			})
			out = append(out, one.out)
		}
		return out
	})
	switch rapid.IntRange(0, 5).Draw(t, "route flag") {
	case 0:
		d.out = append(d.out, yaml.MapItem{Key: "no-route", Value: true})
	case 1:
		d.out = append(d.out, yaml.MapItem{Key: "default-route", Value: true})
	case 2:
		d.out = append(d.out, yaml.MapItem{Key: "random-route", Value: true})
	}
	return d.out
}

// Any manifest that applies changes nothing when it is applied again, nor does
// what is read back.
func TestApplyIsStable(t *testing.T) {
	t.Parallel()
	f := setup(t)
	n, applied := 0, 0
	rapid.Check(t, func(r *rapid.T) {
		n++
		// A new name each time: the store is kept.
		var apps []yaml.MapSlice
		for i := range rapid.IntRange(1, 2).Draw(r, "apps") {
			apps = append(apps, drawApp(r, fmt.Sprintf("app-%d-%d", n, i)))
		}
		text, err := yaml.Marshal(map[string]any{"applications": apps})
		if err != nil {
			r.Fatal(err)
		}
		m, err := f.apply(string(text))
		if err != nil {
			if !fault.Is(err, fault.Unprocessable) {
				r.Fatalf("error is %v, want %s, for\n%s", err, fault.Unprocessable, text)
			}
			f.clear()
			return
		}
		applied++
		before := f.snapshot()
		if _, err := f.apply(string(text)); err != nil {
			r.Fatalf("the second time: %v\n%s", err, text)
		}
		if after := f.snapshot(); after != before {
			r.Fatalf("the second time changed\n%s\nto\n%s\nby\n%s", before, after, text)
		}
		if changes := f.diff(m); len(changes) > 0 {
			r.Fatalf("still a difference: %+v\n%s", changes, text)
		}
		back := whole(f.apps())
		again, err := f.apply(back)
		if err != nil {
			r.Fatalf("what was read back does not apply: %v\n%s", err, back)
		}
		if after := f.snapshot(); after != before {
			r.Fatalf("what was read back changed\n%s\nto\n%s\nby\n%s", before, after, back)
		}
		if changes := f.diff(again); len(changes) > 0 {
			r.Fatalf("what was read back differs: %+v\n%s", changes, back)
		}
		f.clear()
	})
	if applied*4 < n {
		t.Errorf("only %d of %d manifests applied: the generator tests too little", applied, n)
	}
}

// clear removes the apps and their routes.
func (f *fixture) clear() {
	f.t.Helper()
	f.do(func(tx platform.Tx) error {
		apps, _, err := tx.Apps().List(platform.Query{})
		if err != nil {
			return err
		}
		for _, app := range apps {
			if err := f.applier.Platform.DeleteApp(tx, f.applier.Actor, app); err != nil {
				return err
			}
		}
		_, err = tx.Routes().DeleteAll(platform.Where("space_guid", f.applier.Space.GUID))
		return err
	})
}

// Whatever is done to sidecars and processes, every process keeps some memory
// for itself.
func TestSidecarsLeaveMemory(t *testing.T) {
	t.Parallel()
	f := setup(t)
	p, by := f.applier.Platform, f.applier.Actor
	kinds := []string{"web", "worker", "clock"}
	refused := 0
	rapid.Check(t, func(r *rapid.T) {
		app := &platform.App{Name: "app", SpaceGUID: f.applier.Space.GUID}
		f.do(func(tx platform.Tx) error { app.Resource = platform.Resource{}; return p.CreateApp(tx, by, app) })
		defer f.clear()
		try := func(work func(tx platform.Tx) error) {
			err := f.store.Update(f.t.Context(), work)
			if fault.Is(err, fault.Unprocessable) || fault.Is(err, fault.NotFound) {
				refused++
			} else if err != nil {
				r.Fatal(err)
			}
		}
		memory := rapid.SampledFrom([]int{0, 1, 32, 64, 100, 512, 1023, 1024, 2000})
		some := func() []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(kinds), 1, 3, rapid.ID).Draw(r, "types")
		}
		name := rapid.SampledFrom([]string{"a", "b", "c"})
		sidecar := func(tx platform.Tx, name string) (*platform.Sidecar, error) {
			return tx.Sidecars().First(platform.Where("app_guid", app.GUID).And(platform.In("name", name)))
		}
		r.Repeat(map[string]func(*rapid.T){
			"create": func(r *rapid.T) {
				s := platform.Sidecar{Name: name.Draw(r, "name"), Command: "x", ProcessTypes: some(),
					MemoryMB: memory.Draw(r, "memory")}
				try(func(tx platform.Tx) error { s := s; return p.CreateSidecar(tx, by, app, &s) })
			},
			"memory": func(r *rapid.T) {
				n, mb := name.Draw(r, "name"), memory.Draw(r, "memory")
				try(func(tx platform.Tx) error {
					s, err := sidecar(tx, n)
					if err != nil {
						return err
					}
					s.MemoryMB = mb
					return p.UpdateSidecar(tx, by, app, s, true)
				})
			},
			"types": func(r *rapid.T) {
				n, types := name.Draw(r, "name"), some()
				try(func(tx platform.Tx) error {
					s, err := sidecar(tx, n)
					if err != nil {
						return err
					}
					s.ProcessTypes = slices.Clone(types)
					return p.UpdateSidecar(tx, by, app, s, true)
				})
			},
			"delete": func(r *rapid.T) {
				n := name.Draw(r, "name")
				try(func(tx platform.Tx) error {
					s, err := sidecar(tx, n)
					if err != nil {
						return err
					}
					return tx.Sidecars().Delete(s.GUID)
				})
			},
			"scale": func(r *rapid.T) {
				kind, mb := rapid.SampledFrom(kinds).Draw(r, "type"), memory.Draw(r, "memory")
				try(func(tx platform.Tx) error {
					process, err := tx.Processes().First(platform.Where("app_guid", app.GUID).And(platform.In("type", kind)))
					if err != nil {
						return err
					}
					return p.ScaleProcess(tx, by, app, process, platform.Scale{MemoryMB: &mb}, false)
				})
			},
			"droplet": func(r *rapid.T) {
				types := map[string]string{}
				for _, kind := range some() {
					types[kind] = "./x"
				}
				own := []platform.DropletSidecar{{Name: rapid.SampledFrom([]string{"a", "bp"}).Draw(r, "own"), Command: "x",
					ProcessTypes: some(), MemoryMB: memory.Draw(r, "memory")}}
				try(func(tx platform.Tx) error {
					d := &platform.Droplet{AppGUID: app.GUID, State: platform.DropletStaged, ProcessTypes: types, Sidecars: own}
					if err := tx.Droplets().Insert(d); err != nil {
						return err
					}
					fresh, err := tx.Apps().Get(app.GUID)
					if err != nil {
						return err
					}
					return p.AssignDroplet(tx, by, fresh, d)
				})
			},
			"manifest": func(r *rapid.T) {
				text := fmt.Sprintf("applications: [{name: app, processes: [{type: %s, memory: %dM}], sidecars: [{name: %s, "+
					"command: x, process_types: [%s], memory: %dM}]}]",
					rapid.SampledFrom(kinds).Draw(r, "type"), memory.Draw(r, "memory"), name.Draw(r, "name"),
					strings.Join(some(), ", "), memory.Draw(r, "sidecar"))
				if _, err := f.apply(text); err != nil && !fault.Is(err, fault.Unprocessable) {
					r.Fatalf("error is %v, want none or %s, for\n%s", err, fault.Unprocessable, text)
				}
			},
			"": func(r *rapid.T) {
				f.read(func(tx platform.Tx) error {
					processes, _, err := tx.Processes().List(platform.Where("app_guid", app.GUID))
					for _, process := range processes {
						sidecars, err := actions.SidecarsOf(tx, process)
						if err != nil {
							return err
						}
						if left, _ := actions.Memory(process.MemoryMB, sidecars); left <= 0 {
							r.Fatalf("%s has %d MB and its sidecars leave %d", process.Type, process.MemoryMB, left)
						}
					}
					return err
				})
			},
		})
	})
	if refused == 0 {
		t.Error("nothing was ever refused")
	}
}
