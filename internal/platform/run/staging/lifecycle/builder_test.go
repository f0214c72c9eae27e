package lifecycle_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"ingot/internal/platform/run/staging/lifecycle"
)

var update = flag.Bool("update", false, "write the golden files anew")

// pack is a buildpack of a test: scripts by name, other files by path.
type pack struct {
	name  string
	files map[string]string
}

// home makes the home directory of a staging instance.
func home(t *testing.T, app map[string]string, skip bool, packs ...pack) string {
	t.Helper()
	dir := t.TempDir()
	plan := lifecycle.Plan{SkipDetect: skip, Stack: "cflinuxfs4", Env: map[string]string{"GREETING": "hello",
		"CF_STACK": "other"}}
	write(t, filepath.Join(dir, "app"), app)
	for i, p := range packs {
		plan.Buildpacks = append(plan.Buildpacks, lifecycle.Buildpack{Name: p.name, Key: "key-" + p.name})
		write(t, filepath.Join(dir, "buildpacks", strconv.Itoa(i)), p.files)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "stage"), map[string]string{"plan.json": string(text)})
	return dir
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		mode := os.FileMode(0o644)
		if strings.HasPrefix(name, "bin/") {
			text, mode = "#!/bin/sh\nset -e\n"+text, 0o755
		}
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

func build(t *testing.T, dir string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	b := lifecycle.Builder{Home: dir, Out: &out, Err: &out, Environ: []string{"PATH=" + os.Getenv("PATH")}}
	status := b.Run(context.Background())
	return status, out.String()
}

func content(t *testing.T, parts ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	modern = pack{"modern", map[string]string{
		"bin/detect":   `test -f "$1/modern" && echo modern app`,
		"bin/supply":   `echo "supply $4"; mkdir -p "$3/$4/bin"; printf 'name: modern\nversion: 1.2\n' > "$3/$4/config.yml"; echo kept > "$2/kept"`,
		"bin/finalize": `echo "finalize $4"; echo "export A=1" > "$5/a.sh"; printf 'processes:\n- type: web\n  command: run web\n- type: helper\n  command: run helper\n  limits: {memory: 64MB}\n  platforms: {cloudfoundry: {sidecar_for: [web, worker]}}\n' > "$3/$4/launch.yml"`,
	}}
	legacy = pack{"legacy", map[string]string{
		"bin/detect":  `test -f "$1/legacy" && echo legacy app`,
		"bin/compile": `echo compiling; echo built > "$1/built"; echo "$GREETING $CF_STACK $HOME" > "$1/env"`,
		"bin/release": "cat <<'X'\n---\ndefault_process_types:\n  web: ./old web\n  clock: ./old clock\nconfig:\n  " +
			"entrypoint_prefix: env\nX",
	}}
	supplier = pack{"supplier", map[string]string{
		"bin/supply":   `echo "supplying $4"; printf 'name: tools\nversion: "3"\n' > "$3/$4/config.yml"; printf 'processes:\n- {type: agent, command: agent run, limits: {memory: 32}, platforms: {cloudfoundry: {sidecar_for: [web]}}}\n' > "$3/$4/launch.yml"`,
		"manifest.yml": "language: tools\nneeds_sidecar_memory: true\n",
	}}
	never = pack{"never", map[string]string{"bin/detect": "exit 1", "bin/finalize": "exit 9"}}
)

func TestBuildGolden(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		app   map[string]string
		skip  bool
		packs []pack
	}{
		"detected":        {map[string]string{"modern": ""}, false, []pack{never, legacy, modern}},
		"detected-legacy": {map[string]string{"legacy": "", "modern": ""}, false, []pack{never, legacy, modern}},
		"asked-for":       {nil, true, []pack{modern}},
		"multi":           {nil, true, []pack{supplier, modern}},
		"multi-legacy":    {nil, true, []pack{supplier, legacy}},
		"procfile":        {map[string]string{"Procfile": "web: mine $PORT\nworker: 'other: thing'\n"}, true, []pack{modern}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := home(t, test.app, test.skip, test.packs...)
			status, out := build(t, dir)
			if status != 0 {
				t.Fatalf("status %d: %s", status, out)
			}
			var got bytes.Buffer
			for _, file := range []string{"out/meta/result.json", "out/droplet/staging_info.yml"} {
				got.WriteString("== " + file + "\n")
				if err := json.Indent(&got, []byte(content(t, dir, file)), "", "  "); err != nil {
					t.Fatal(err)
				}
				got.WriteString("\n")
			}
			got.WriteString("== output\n" + out)
			golden := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(content(t, golden), got.String()); diff != "" {
				t.Errorf("output differs from %s (-want +got):\n%s", golden, diff)
			}
			for _, part := range []string{"app", "deps", "profile.d", "tmp", "logs"} {
				if info, err := os.Stat(filepath.Join(dir, "out", "droplet", part)); err != nil || !info.IsDir() {
					t.Errorf("the droplet has no %s: %v", part, err)
				}
			}
		})
	}
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	dir := home(t, nil, true, legacy)
	if status, out := build(t, dir); status != 0 {
		t.Fatalf("build ended with status %d: %s", status, out)
	}
	if got, want := content(t, dir, "out/droplet/app/env"), "hello cflinuxfs4 "+dir+"\n"; got != want {
		t.Errorf("a buildpack saw %q, want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "stage", "plan.json")); err == nil {
		t.Error("the plan with its secrets is still there")
	}
}

func TestIndexHasDigitsOfTheLast(t *testing.T) {
	t.Parallel()
	packs := []pack{}
	for range 10 {
		packs = append(packs, supplier)
	}
	dir := home(t, nil, true, append(packs, modern)...)
	status, out := build(t, dir)
	if status != 0 || !strings.Contains(out, "supplying 00\n") || !strings.Contains(out, "finalize 10\n") {
		t.Errorf("status %d: %s", status, out)
	}
}

func TestCacheIsKeptByBuildpack(t *testing.T) {
	t.Parallel()
	dir := home(t, nil, true, modern)
	write(t, filepath.Join(dir, "cache", "0123456789abcdef"),
		map[string]string{"old": "of a buildpack that is not used any more"})
	if status, out := build(t, dir); status != 0 {
		t.Fatalf("build ended with status %d: %s", status, out)
	}
	kept, _ := filepath.Glob(filepath.Join(dir, "cache", "*", "*"))
	if len(kept) != 1 || filepath.Base(kept[0]) != "kept" {
		t.Errorf("the cache has %v", kept)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	with := func(p pack, files map[string]string) pack {
		all := map[string]string{}
		for _, m := range []map[string]string{p.files, files} {
			for k, v := range m {
				if all[k] = v; v == "" {
					delete(all, k)
				}
			}
		}
		return pack{p.name, all}
	}
	bad := "echo sorry; exit 3"
	for name, test := range map[string]struct {
		app    map[string]string
		skip   bool
		packs  []pack
		status int
		want   string
	}{
		"none detects": {nil, false, []pack{never, legacy}, 222,
			"None of the buildpacks detected a compatible application"},
		"no buildpacks": {nil, false, nil, 222, "None of the buildpacks detected"},
		"compile": {nil, true, []pack{with(legacy, map[string]string{"bin/compile": bad})}, 223,
			"Failed to compile droplet: legacy: exit status 3"},
		"nothing to compile": {nil, true, []pack{{"empty", nil}}, 223, "has neither bin/finalize nor bin/compile"},
		"release": {nil, true, []pack{with(legacy, map[string]string{"bin/release": bad})}, 224,
			"Failed to build droplet release"},
		"release says junk": {nil, true, []pack{with(legacy, map[string]string{"bin/release": "echo '- a'"})}, 224,
			"not YAML"},
		"supply": {nil, true, []pack{with(supplier, map[string]string{"bin/supply": bad}), modern}, 225,
			"Failed to run all supply scripts: supplier: exit status 3"},
		"last supply": {nil, true, []pack{with(modern, map[string]string{"bin/supply": bad})}, 225,
			"Failed to run all supply scripts"},
		"no supply": {nil, true, []pack{legacy, modern}, 225, "does not support multi-buildpack apps"},
		"finalize": {nil, true, []pack{with(modern, map[string]string{"bin/finalize": bad})}, 226,
			"Failed to run finalize script: modern: exit status 3"},
		"Procfile": {map[string]string{"Procfile": "web\n"}, true, []pack{modern}, 224,
			"Failed to read command from Procfile"},
		"Procfile list": {map[string]string{"Procfile": "web: [a]\n"}, true, []pack{modern}, 224,
			`the command of "web" is not a text`},
		"Procfile type": {map[string]string{"Procfile": "a/b: c\n"}, true, []pack{modern}, 224, "is not a process type"},
		"launch.yml": {nil, true, []pack{with(modern, map[string]string{
			"bin/finalize": `printf 'processes: [{type: x, command: y, limits: {memory: lots}, platforms: {cloudfoundry: {sidecar_for: [web]}}}]' > "$3/$4/launch.yml"`,
		})}, 224, `the memory of the sidecar "x" is not a number of megabytes`},
		"detect is ignored when asked for": {nil, true, []pack{never}, 226, "Failed to run finalize script"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := home(t, test.app, test.skip, test.packs...)
			status, out := build(t, dir)
			if status != test.status || !strings.Contains(out, test.want) {
				t.Errorf("status %d, want %d, and %q in:\n%s", status, test.status, test.want, out)
			}
			if _, err := os.Stat(filepath.Join(dir, "out")); err == nil {
				t.Error("there is a result all the same")
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	dir := home(t, nil, true, pack{"slow", map[string]string{"bin/finalize": "echo begun; exec sleep 600"}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	out := writerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	var complaint bytes.Buffer
	b := lifecycle.Builder{Home: dir, Out: out, Err: &complaint, Environ: []string{"PATH=" + os.Getenv("PATH")}}
	if status := b.Run(ctx); status != lifecycle.ExitFinalize || !strings.Contains(complaint.String(), "told to stop") {
		t.Errorf("status %d: %s", status, complaint.String())
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func FuzzTexts(f *testing.F) {
	f.Add([]byte("web: run\n"))
	f.Add([]byte("processes:\n- {type: a, command: b, limits: {memory: 1G}, platforms: {cloudfoundry: {sidecar_for: " +
		"[web]}}}\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		types, err := lifecycle.ParseProcfile(b)
		if err == nil {
			if err := lifecycle.Check(lifecycle.Result{ProcessTypes: types}); err != nil {
				t.Error(err)
			}
		}
		types, sidecars, err := lifecycle.ParseLaunch(b)
		if err == nil && len(types) < 100 && len(sidecars) < 100 {
			if err := lifecycle.Check(lifecycle.Result{ProcessTypes: types, Sidecars: sidecars}); err != nil {
				t.Error(err)
			}
		}
	})
}
