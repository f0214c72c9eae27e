package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// programs are the programs of a release. The first is the one that users start; it
// finds the others beside it, or in ../lib/ingot.
var programs = []string{"ingot", "ingot-builder", "ingot-init", "ingot-sftp", "ingot-static"}

// target is a system that programs are built for, by Go's names.
type target struct{ os, arch string }

func (t target) String() string { return t.os + "/" + t.arch }

// folder returns the name of the directory of its programs.
func (t target) folder() string {
	if t.os == "linux" {
		return t.arch
	}
	return t.os + "-" + t.arch
}

// programs returns the names of its programs. Systems other than Linux have the client.
func (t target) programs() []string {
	switch t.os {
	case "linux":
		return programs
	case "windows":
		return []string{programs[0] + ".exe"}
	}
	return programs[:1]
}

// file is a file of a release.
type file struct {
	name string // as in the source tree, or man/…, completions/…, a program's name
	mode fs.FileMode
	data []byte
}

// programsFor returns the directory of the programs for a system, which it builds
// if necessary.
func (o options) programsFor(ctx context.Context, t target) (string, error) {
	if o.programs != "" && t.os == "linux" {
		return o.programs, nil
	}
	dir, err := filepath.Abs(filepath.Join(o.work, t.folder()))
	if err != nil {
		return "", err
	}
	done := filepath.Join(dir, ".version")
	if built, err := os.ReadFile(done); err == nil && string(built) == o.version {
		return dir, nil
	}
	fmt.Fprintf(os.Stderr, "release: building %s for %s\n", o.version, t)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -X ingot/internal/base/version.stamped=" + o.version,
		"-o", dir + "/",
	}
	if t.os == "windows" {
		args = append(args, "-tags", "forceposix") // see cmd/ingot/posixflags_windows.go
	}
	for _, program := range t.programs() {
		args = append(args, "./cmd/"+strings.TrimSuffix(program, ".exe"))
	}
	if _, err := o.goTool(ctx, t, args...); err != nil {
		return "", err
	}
	return dir, os.WriteFile(done, []byte(o.version), 0o644) //nolint:gosec // not a secret
}

// goTool runs the go tool in the source tree. Settings of the environment that change
// programs are replaced.
func (o options) goTool(ctx context.Context, t target, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = o.source
	cmd.Env = append(os.Environ(), "GOOS="+t.os, "GOARCH="+t.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1",
		"GOARM64=v8.0", "GOEXPERIMENT=", "GOFIPS140=off", "GOWORK=off")
	return output(cmd)
}

// output returns what a command prints; an error has its messages.
func output(cmd *exec.Cmd) ([]byte, error) {
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, messages.String())
	}
	return out.Bytes(), nil
}

// builtPrograms reads programs of a directory.
func builtPrograms(dir string, names []string) ([]file, error) {
	var all []file
	for _, program := range names {
		data, err := os.ReadFile(filepath.Join(dir, program))
		if err != nil {
			return nil, fmt.Errorf("%w (run: make build)", err)
		}
		all = append(all, file{program, 0o755, data})
	}
	return all, nil
}

// generated returns the documents that the program in dir writes: manual pages and
// completions.
func generated(ctx context.Context, dir string) ([]file, error) {
	ingot, err := filepath.Abs(filepath.Join(dir, programs[0]))
	if err != nil {
		return nil, err
	}
	man, err := os.MkdirTemp("", "ingot-man-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(man)
	if _, err := output(exec.CommandContext(ctx, ingot, "man", "--dir", man)); err != nil {
		return nil, err
	}
	pages, err := os.ReadDir(man)
	if err != nil {
		return nil, err
	}
	var all []file
	for _, page := range pages {
		data, err := os.ReadFile(filepath.Join(man, page.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, file{"man/" + page.Name(), 0o644, data})
	}
	for shell, name := range map[string]string{"bash": "ingot.bash", "zsh": "_ingot", "fish": "ingot.fish"} {
		script, err := output(exec.CommandContext(ctx, ingot, "completion", shell))
		if err != nil {
			return nil, err
		}
		all = append(all, file{"completions/" + name, 0o644, script})
	}
	slices.SortFunc(all, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return all, nil
}

// sourceFiles returns the files of the source tree that are published: documents, units
// of systemd, and everything else for operators.
func (o options) sourceFiles() ([]file, error) {
	var all []file
	for _, name := range []string{"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "NOTICE", "SCOPE.md",
		"SECURITY.md", "docs", "packaging"} {
		root := filepath.Join(o.source, name)
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			data, err := os.ReadFile(path) //nolint:gosec // the source tree is the caller's
			if err != nil {
				return err
			}
			inside, err := filepath.Rel(o.source, path)
			if err != nil {
				return err
			}
			all = append(all, file{filepath.ToSlash(inside), 0o644, data})
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// isFor reports whether the archive for a system has the file. What operators of a server
// need is for Linux; Windows has no manual pages, and none of the shells of completions.
func (f file) isFor(t target) bool {
	switch folder, _, _ := strings.Cut(f.name, "/"); folder {
	case "packaging":
		return t.os == "linux"
	case "man", "completions":
		return t.os != "windows"
	}
	return true
}

// units returns the units of systemd, which are files of packaging/ itself.
func units(all []file) []file {
	var found []file
	for _, f := range all {
		if match, _ := filepath.Match("packaging/*.*", f.name); match && isUnit(f.name) {
			found = append(found, f)
		}
	}
	return found
}

func isUnit(name string) bool {
	return slices.Contains([]string{".service", ".socket", ".timer", ".path", ".target", ".slice"}, filepath.Ext(name))
}
