package e2e

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPushBuildpacks pushes an app for each bundled buildpack. If the machine
// lacks a program, the buildpack reports it.
func TestPushBuildpacks(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		var parts []part
		for _, one := range samples {
			parts = append(parts, part{one.name, func(t *testing.T) { pushSample(t, s, one) }})
		}
		together(t, parts...)
	})
}

func pushSample(t *testing.T, s *site, one sample) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range one.files {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if one.prepare != nil {
		dir = one.prepare(t, dir)
	}
	home := s.admin(t)
	out, code := cf(t, home, append([]string{"push", one.name, "-p", dir, "-k", "512M", "-t", "800"}, one.args...)...)
	if one.program != "" && !onSystem(one.program) {
		recent := cfOK(t, home, "logs", one.name, "--recent")
		if code != 1 || !strings.Contains(out, "BuildpackCompileFailed") {
			t.Errorf("without %s: exit code %d\n%s", one.program, code, out)
		}
		said := "is not installed on this machine: there is no program '" + one.program + "'"
		if one.program == "tomcat" {
			said = "Tomcat is not installed on this machine"
		}
		contains(t, recent, said, "Ask its operator to install it")
		contains(t, out, said) // the last lines of the build
		return
	}
	if code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out, cfOK(t, home, "logs", one.name, "--recent"))
	}
	contains(t, out, one.buildpack+"_buildpack")
	want := one.name
	if one.name == "binary" {
		want = "probe 0 /\n"
	}
	if got := string(s.reaches(t, one.name, "/", http.StatusOK).Body); got != want {
		t.Errorf("it answers %q, want %q", got, want)
	}
	// The droplet has the size and checksum of its resource.
	droplet := filepath.Join(t.TempDir(), "droplet.tgz")
	cfOK(t, home, "download-droplet", one.name, "-p", droplet)
	f, err := os.Open(droplet)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	head := make([]byte, 2)
	if _, err := io.ReadFull(f, head); err != nil || head[0] != 0x1f || head[1] != 0x8b {
		t.Errorf("the droplet begins with %x, %v", head, err)
	}
	cfOK(t, home, "delete", one.name, "-f", "-r")
}
