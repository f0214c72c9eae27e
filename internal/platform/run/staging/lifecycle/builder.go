package lifecycle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform/instance/initproto"
)

// Builder runs a plan in a home directory. Out and Err get what the buildpacks
// write and its own few lines.
type Builder struct {
	Home string
	Out  io.Writer
	Err  io.Writer
	// Environ is what the environment of the buildpacks begins with.
	Environ []string

	plan Plan
	env  []string
}

// Run builds, and returns the exit status.
func (b *Builder) Run(ctx context.Context) int {
	err := b.run(ctx)
	if err == nil {
		return ExitOK
	}
	status := ExitFailure
	var f *Failure
	if errors.As(err, &f) {
		status = f.Status
	}
	if fault.IsDiskFull(err) || full(b.Home) {
		status = ExitDiskFull
		fmt.Fprintln(b.Err, "No space left on the disk of this build")
	}
	fmt.Fprintln(b.Err, err)
	return status
}

func (b *Builder) run(ctx context.Context) error {
	if err := b.prepare(); err != nil {
		return err
	}
	s := &session{Builder: b, chosen: b.plan.Buildpacks}
	if b.plan.SkipDetect {
		s.detected = b.outputs(ctx)
	} else {
		at, output, err := b.detect(ctx)
		if err != nil {
			return err
		}
		s.chosen, s.first, s.detected = s.chosen[at:at+1], at, []string{output}
	}
	if err := s.makeDirs(); err != nil {
		return err
	}
	rel, err := s.build(ctx)
	if err != nil {
		return err
	}
	return s.finish(rel)
}

// finish describes what the buildpacks did, and puts the droplet together.
func (s *session) finish(rel release) error {
	result, info, err := s.describe(rel)
	if err != nil {
		return err
	}
	if len(result.ProcessTypes) == 0 {
		fmt.Fprintln(s.Err, "No start command specified by buildpack or via Procfile.")
		fmt.Fprintln(s.Err, "App will not start unless a command is provided at runtime.")
	}
	if err := s.cleanCache(); err != nil {
		return err
	}
	return s.write(result, info)
}

// prepare reads the plan and makes the environment.
func (b *Builder) prepare() error {
	planFile := b.at(StageDir, PlanFile)
	raw, err := os.ReadFile(planFile)
	if err != nil {
		return fmt.Errorf("the plan of this build cannot be read: %w", err)
	}
	if err := json.Unmarshal(raw, &b.plan); err != nil {
		return fmt.Errorf("the plan of this build is broken: %w", err)
	}
	// It holds the application's secrets in one handy file.
	if err := os.Remove(planFile); err != nil {
		return err
	}
	if len(b.plan.Buildpacks) == 0 {
		return fail(ExitDetect, "None of the buildpacks detected a compatible application: there are no buildpacks")
	}
	for _, dir := range []string{AppDir, CacheDir, "deps", "profile.d", "tmp"} {
		if err := os.MkdirAll(b.at(dir), 0o755); err != nil {
			return err
		}
	}
	env := map[string]string{}
	for _, kv := range b.Environ {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	env["LANG"] = initproto.Lang
	maps.Copy(env, b.plan.Env)
	maps.Copy(env, map[string]string{
		"HOME":     b.Home,
		"TMPDIR":   b.at("tmp"),
		"DEPS_DIR": b.at("deps"),
		"CF_STACK": b.plan.Stack,
	})
	if env["USER"] == "" {
		env["USER"] = "vcap"
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		b.env = append(b.env, k+"="+env[k])
	}
	return nil
}

func (b *Builder) at(parts ...string) string {
	return filepath.Join(append([]string{b.Home}, parts...)...)
}

func (b *Builder) buildpackDir(i int) string { return b.at(BuildpacksDir, strconv.Itoa(i)) }

// detect returns the position of the buildpack that takes the application, and
// what it said. When none does, those with a bin/detect-last are asked again:
// for signs that would be signs of something else to the others.
func (b *Builder) detect(ctx context.Context) (int, string, error) {
	for _, script := range []string{"detect", "detect-last"} {
		for i := range b.plan.Buildpacks {
			output, ok := b.ask(ctx, i, script)
			if ctx.Err() != nil {
				return 0, "", ctx.Err()
			}
			if ok {
				return i, output, nil
			}
		}
	}
	names := make([]string, len(b.plan.Buildpacks))
	for i, p := range b.plan.Buildpacks {
		names[i] = p.Name
	}
	return 0, "", fail(ExitDetect, "None of the buildpacks detected a compatible application\n"+
		"Tried: %s. Name one with -b, or see that its marker file (package.json, go.mod, requirements.txt, index.html …) "+
		"is in the folder that you pushed",
		strings.Join(names, ", "))
}

// ask runs a detect script of a buildpack and returns what it said, and whether
// it takes the application.
func (b *Builder) ask(ctx context.Context, i int, name string) (string, bool) {
	script := filepath.Join(b.buildpackDir(i), "bin", name)
	if !isProgram(script) {
		return "", false
	}
	var out limited
	err := b.command(ctx, &out, script, b.at(AppDir))
	return bounded(out.String()), err == nil
}

// outputs is what the buildpacks of the plan say of the application when they
// were asked for by name. None has to detect it.
func (b *Builder) outputs(ctx context.Context) []string {
	quiet := *b
	quiet.Err = io.Discard
	list := make([]string, len(b.plan.Buildpacks))
	for i := range list {
		if output, ok := quiet.ask(ctx, i, "detect"); ok {
			list[i] = output
		}
	}
	return list
}

func isProgram(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// command runs a script of a buildpack. Its standard output goes to out, its
// errors to the log.
func (b *Builder) command(ctx context.Context, out io.Writer, script string, args ...string) error {
	for try := time.Duration(1); ; try *= 2 {
		cmd := exec.CommandContext(ctx, script, args...)
		cmd.Env, cmd.Dir = b.env, b.Home
		cmd.Stdout, cmd.Stderr = out, b.Err
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		cmd.WaitDelay = 2 * time.Second
		err := cmd.Run()
		// The process that unpacked the script may have forked while it was open
		// for writing. It cannot be run until that child has called exec.
		if !errors.Is(err, syscall.ETXTBSY) || try > 100 {
			return err
		}
		time.Sleep(try * time.Millisecond)
	}
}

// session is the work on the buildpacks that were chosen.
type session struct {
	*Builder
	chosen   []Buildpack
	first    int      // the position of the first in the plan
	detected []string // what each said of the application, "" if it said nothing
}

func (s *session) program(i int, name string) (string, bool) {
	path := filepath.Join(s.buildpackDir(s.first+i), "bin", name)
	return path, isProgram(path)
}

// index is the name of a buildpack's directory in deps: its position, with as
// many digits as the last one has.
func (s *session) index(i int) string {
	width := len(strconv.Itoa(len(s.chosen) - 1))
	return fmt.Sprintf("%0*d", width, i)
}

// cache is where a buildpack keeps things: no buildpack sees what another kept,
// or what was made for another stack.
func (s *session) cache(i int) string {
	sum := sha256.Sum256([]byte(s.chosen[i].Name + "\n" + s.plan.Stack))
	return s.at(CacheDir, hex.EncodeToString(sum[:8]))
}

func (s *session) makeDirs() error {
	for i := range s.chosen {
		for _, dir := range []string{s.cache(i), s.at("deps", s.index(i))} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return err
			}
		}
	}
	return nil
}

// build runs the scripts of the chosen buildpacks. What it returns is what a
// release script said, if there is one.
func (s *session) build(ctx context.Context) (release, error) {
	last := len(s.chosen) - 1
	app, deps := s.at(AppDir), s.at("deps")
	for i, p := range s.chosen {
		supply, ok := s.program(i, "supply")
		if !ok {
			if i < last {
				return release{}, fail(ExitSupply, "Failed to run all supply scripts: %s has no bin/supply; "+
					"one of the buildpacks chosen to supply dependencies does not support multi-buildpack apps", p.Name)
			}
			continue
		}
		if i == last {
			if _, ok := s.program(i, "finalize"); !ok {
				continue // of the old kind, whatever else it has
			}
		}
		if err := s.command(ctx, s.Out, supply, app, s.cache(i), deps, s.index(i)); err != nil {
			return release{}, fail(ExitSupply, "Failed to run all supply scripts: %s: %s", p.Name, reason(ctx, err))
		}
	}
	name := s.chosen[last].Name
	if finalize, ok := s.program(last, "finalize"); ok {
		if err := s.command(ctx, s.Out, finalize, app, s.cache(last), deps, s.index(last), s.at("profile.d")); err != nil {
			return release{}, fail(ExitFinalize, "Failed to run finalize script: %s: %s", name, reason(ctx, err))
		}
		return s.release(ctx, last)
	}
	compile, ok := s.program(last, "compile")
	if !ok {
		return release{}, fail(ExitCompile, "Failed to compile droplet: %s has neither bin/finalize nor bin/compile", name)
	}
	if len(s.chosen) > 1 {
		fmt.Fprintf(s.Out, "       WARNING: %s has no bin/finalize: it is run alone, and may not see what the others "+
			"supplied\n", name)
	}
	if err := s.command(ctx, s.Out, compile, app, s.cache(last)); err != nil {
		return release{}, fail(ExitCompile, "Failed to compile droplet: %s: %s", name, reason(ctx, err))
	}
	return s.release(ctx, last)
}

func (s *session) release(ctx context.Context, last int) (release, error) {
	script, ok := s.program(last, "release")
	if !ok {
		return release{}, nil
	}
	var out limited
	err := s.command(ctx, &out, script, s.at(AppDir))
	if err != nil {
		return release{}, fail(ExitRelease, "Failed to build droplet release: %s: %s", s.chosen[last].Name, reason(ctx, err))
	}
	r, err := parseRelease(out.Bytes())
	if err != nil {
		return release{}, fail(ExitRelease, "Failed to build droplet release: %s: bin/release: %s", s.chosen[last].Name, err)
	}
	return r, nil
}

// limited is a buffer that forgets what is beyond any sensible size.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if room := maxFile - l.Len(); len(p) > room {
		l.Buffer.Write(p[:room])
		return len(p), nil
	}
	return l.Buffer.Write(p)
}

func reason(ctx context.Context, err error) string {
	if ctx.Err() != nil {
		return "it was told to stop"
	}
	return err.Error()
}

// describe reads what the buildpacks left: who they are, what to run.
func (s *session) describe(rel release) (Result, Info, error) {
	types := maps.Clone(rel.DefaultProcessTypes)
	if types == nil {
		types = map[string]string{}
	}
	sidecars := []Sidecar{}
	for i, p := range s.chosen {
		raw, err := readFile(s.at("deps", s.index(i), "launch.yml"))
		if err != nil {
			return Result{}, Info{}, fail(ExitRelease, "Failed to read launch.yml of %s: %s", p.Name, err)
		}
		t, more, err := ParseLaunch(raw)
		if err != nil {
			return Result{}, Info{}, fail(ExitRelease, "Failed to read launch.yml of %s: %s", p.Name, err)
		}
		maps.Copy(types, t)
		for _, c := range more { // a later buildpack's sidecar replaces one of the same name
			sidecars = slices.DeleteFunc(sidecars, func(old Sidecar) bool { return old.Name == c.Name })
			sidecars = append(sidecars, c)
		}
	}
	procfile, err := readFile(s.at(AppDir, "Procfile"))
	if err == nil && procfile != nil {
		var t map[string]string
		t, err = ParseProcfile(procfile)
		maps.Copy(types, t)
	}
	if err != nil {
		return Result{}, Info{}, fail(ExitRelease, "Failed to read command from Procfile: %s", err)
	}

	var execution Execution
	used := make([]UsedBuildpack, len(s.chosen))
	for i, p := range s.chosen {
		manifest := readConfig(filepath.Join(s.buildpackDir(s.first+i), "manifest.yml"))
		config := readConfig(s.at("deps", s.index(i), "config.yml"))
		used[i] = UsedBuildpack{
			Key: p.Key, Name: p.Name,
			BuildpackName: firstOf(config.Name, manifest.Language, manifest.Name),
			Version:       bounded(firstOf(config.version(), manifest.version(), s.versionFile(i))),
		}
		used[i].DetectOutput = firstOf(s.detected[i], strings.TrimSpace(used[i].BuildpackName+" "+used[i].Version))
		if manifest.NeedsSidecarMemory || config.NeedsSidecarMemory {
			execution.NeedsSidecarMemory = true
		}
		execution.Sync = joinSync(execution.Sync, config.Sync, i == 0)
	}
	last := len(used) - 1
	detected := firstOf(s.detected[last], used[last].BuildpackName, used[last].Name)

	result := Result{
		Lifecycle: LifecycleMetadata{
			BuildpackKey: used[last].Key, DetectedBuildpack: detected, Buildpacks: used,
		},
		ProcessTypes: types, Processes: []Process{}, Sidecars: sidecars, LifecycleType: "buildpack",
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		result.Processes = append(result.Processes, Process{Type: name, Command: types[name]})
	}
	if execution != (Execution{}) {
		text, err := json.Marshal(execution)
		if err != nil {
			return Result{}, Info{}, err
		}
		result.ExecutionMetadata = string(text)
	}
	info := Info{
		DetectedBuildpack: detected, StartCommand: types["web"],
		ProcessTypes: types, Sidecars: sidecars, Buildpacks: used, ExecutionMetadata: result.ExecutionMetadata,
	}
	if rel.Config.EntrypointPrefix != "" {
		info.Config = &InfoConfig{EntrypointPrefix: rel.Config.EntrypointPrefix}
	}
	return result, info, nil
}

// joinSync adds what another buildpack declares. Changes can be synced only if all
// buildpacks allow it.
func joinSync(all, one *Sync, first bool) *Sync {
	switch {
	case one == nil || all == nil && !first:
		return nil
	case all == nil:
		all = &Sync{}
	}
	return &Sync{
		Restage:         slices.Concat([]string{}, all.Restage, one.Restage),
		RestagePresence: slices.Concat(all.RestagePresence, one.RestagePresence),
	}
}

func (s *session) versionFile(i int) string {
	b, err := readFile(filepath.Join(s.buildpackDir(s.first+i), "VERSION"))
	if err != nil {
		return ""
	}
	return string(b)
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// cleanCache removes what buildpacks kept that are no longer used.
func (s *session) cleanCache() error {
	keep := map[string]bool{}
	for i := range s.chosen {
		keep[filepath.Base(s.cache(i))] = true
	}
	entries, err := os.ReadDir(s.at(CacheDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !keep[e.Name()] {
			if err := removeAll(s.at(CacheDir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeAll also removes read-only directories: Go's module
// cache is full of them.
func removeAll(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(p string, e fs.DirEntry, _ error) error {
		if e != nil && e.IsDir() {
			_ = os.Chmod(p, 0o700) //nolint:gosec // our own user's files, in our own instance; RemoveAll says what matters
		}
		return nil
	})
	return os.RemoveAll(path)
}

// write puts the droplet together and tells of it.
func (b *Builder) write(result Result, info Info) error {
	if err := os.MkdirAll(b.at(DropletDir), 0o755); err != nil {
		return err
	}
	for _, dir := range []string{AppDir, "deps", "profile.d"} {
		if err := os.Rename(b.at(dir), b.at(DropletDir, dir)); err != nil {
			return fmt.Errorf("Failed to build droplet: %w", //nolint:staticcheck,revive // a line for the log, as users know it
				err)
		}
	}
	for _, dir := range []string{"tmp", "logs"} {
		if err := os.MkdirAll(b.at(DropletDir, dir), 0o755); err != nil {
			return err
		}
	}
	if err := writeJSON(b.at(DropletDir, InfoFile), info); err != nil {
		return err
	}
	if err := os.MkdirAll(b.at(MetaDir), 0o755); err != nil {
		return err
	}
	return writeJSON(b.at(MetaDir, ResultFile), result)
}

func writeJSON(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o644)
}
