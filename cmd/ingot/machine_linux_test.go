package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/cli/core"
	"ingot/internal/platform/engine/choice"
	"ingot/internal/system"
)

// Doctor looks for every program that a bundled buildpack needs, and names its
// package.
func TestRuntimesOfBuildpacks(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../internal/platform/run/staging/buildpacks/packs/*/bin/*")
	if err != nil || len(files) == 0 {
		t.Fatalf("no buildpacks: %v", err)
	}
	need := regexp.MustCompile(`(?m)^\s*need ([\w.-]+) `)
	var found []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range need.FindAllStringSubmatch(string(text), -1) {
			found = append(found, m[1])
			if !slices.ContainsFunc(runtimes, func(r runtimeProgram) bool { return r.name == m[1] }) {
				t.Errorf("%s needs %s, which doctor does not look for", file, m[1])
			}
		}
	}
	if len(found) < 8 {
		t.Errorf("only %v", found)
	}
	for _, name := range []string{"node", "npm", "python3", "pip3", "go", "ruby", "bundle", "php", "composer", "java",
		"nginx", "catalina.sh"} {
		if !slices.ContainsFunc(runtimes, func(r runtimeProgram) bool {
			return r.name == name && r.use != ""
		}) {
			t.Errorf("%s is missing", name)
		}
	}
}

// Doctor checks the data directory that the environment names.
func TestDoctorDataDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		env         func(string) string
		state, text string
	}{
		{env(), core.FindingOK, "/home/vcap/.local/share/ingot"}, {env("INGOT_DATA_DIR", "/data/mine"), core.FindingOK,
			"/data/mine (from INGOT_DATA_DIR)"},
		{env("INGOT_DATA_DIR", file), core.FindingMissing, "is not a directory"}, {env("HOME", ""), core.FindingMissing,
			"INGOT_DATA_DIR"},
	} {
		p := &process{getenv: tc.env, uid: 1000}
		if f := p.dataDirectory(); f.State != tc.state || !strings.Contains(f.Found+f.Get, tc.text) {
			t.Errorf("%+v, want %s and %q", f, tc.state, tc.text)
		}
	}
}

// The JSON output contains all findings.
func TestDoctor(t *testing.T) {
	t.Parallel()
	var out, errs bytes.Buffer
	dir := t.TempDir()
	p := &process{name: "ingot", args: []string{"doctor", "--json"}, getenv: env("INGOT_DATA_DIR", dir, "INGOT_HOME",
		t.TempDir()), uid: 1000, out: &out, err: &errs}
	if code := p.run(); code != 0 {
		t.Fatalf("exit code %d, want 0: %s", code, &errs)
	}
	var got struct{ Findings []core.Finding }
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got.Findings {
		names = append(names, f.Name)
		if f.State == core.FindingMissing && f.Get == "" {
			t.Errorf("%s is missing, and it does not say how to get it", f.Name)
		}
	}
	for _, name := range []string{"data directory", "ingot-init", "runc", "node", "php", "engine",
		"server on this machine"} {
		if !slices.Contains(names, name) {
			t.Errorf("%s is not among %v", name, names)
		}
	}
	if !strings.Contains(out.String(), dir) {
		t.Errorf("not about %s:\n%s", dir, &out)
	}
}

// TestDoctorRepeatsTheRuntime: the engine's finding has the words of runc, and no guess.
//
//nolint:paralleltest // it changes PATH
func TestDoctorRepeatsTheRuntime(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("without root no container is tried")
	}
	dir := t.TempDir()
	testkit.WriteProgram(t, filepath.Join(dir, "runc"),
		"#!/bin/sh\ncase \"$*\" in *--version*) echo runc version 1.1.5;; *) echo 'exec /.ingot-init: permission denied' "+
			">&2; exit 1;; esac\n")
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	p := &process{getenv: env("INGOT_PROGRAMS", testkit.Programs(t)), uid: 0}
	f := p.engine(t.Context())
	if f.State != core.FindingNote || !strings.Contains(f.Get, "exec /.ingot-init: permission denied") ||
		strings.Contains(f.Get, "need root") {
		t.Errorf("%+v, want the words of runc only", f)
	}
}

// TestTellEnded: 'ingot down' says only what is known.
func TestTellEnded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		ended system.Ended
		want  string
	}{
		{system.Ended{}, ""},
		{system.Ended{Server: 7}, ""}, // it may still be stopping
		{system.Ended{Stopped: true, Server: 7}, "Stopped the server (pid 7).\nNo app was running.\n"},
		{system.Ended{Stopped: true, InCluster: true},
			"No server was running.\nApp instances keep running in the cluster.\n"},
		{system.Ended{Stopped: true, Apps: choice.Stopped{Instances: 1}},
			"No server was running.\nStopped 1 app instance.\n"},
		{system.Ended{Stopped: true, Apps: choice.Stopped{Left: 2}},
			"No server was running.\nCould not stop 2 app instances.\n"},
		{system.Ended{Stopped: true, Apps: choice.Stopped{Instances: 3, Left: 1}},
			"No server was running.\nStopped 3 app instances.\nCould not stop 1 app instance.\n"},
		{system.Ended{Stopped: true, Apps: choice.Stopped{Unknown: true}},
			"No server was running.\nNot all app instances could be listed; some may still be running.\n"},
	} {
		var out bytes.Buffer
		(&process{out: &out}).tellEnded(tc.ended)
		if out.String() != tc.want {
			t.Errorf("%+v: got %q, want %q", tc.ended, &out, tc.want)
		}
	}
}
