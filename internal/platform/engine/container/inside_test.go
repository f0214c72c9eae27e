package container

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestInside: a container is recognized by the files that its runtime puts there, by its first
// process and by its control groups.
func TestInside(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		file, content string
		want          string
	}{
		"machine":    {"proc/1/cgroup", "0::/init.scope\n", ""},
		"docker":     {".dockerenv", "", "docker"},
		"podman":     {"run/.containerenv", "engine=\"podman-4.3.1\"\n", "podman"},
		"Pod":        {"var/run/secrets/kubernetes.io/serviceaccount/token", "x", "kubernetes"},
		"variable":   {"proc/1/environ", "PATH=/bin\x00container=systemd-nspawn\x00", "systemd-nspawn"},
		"version 1":  {"proc/1/cgroup", "4:memory:/docker/0123\n", "docker"},
		"version 2":  {"proc/1/cgroup", "0::/machine.slice/libpod-0123.scope\n", "podman"},
		"kubernetes": {"proc/1/cgroup", "4:memory:/kubepods/besteffort/pod1\n", "kubernetes"},
	} {
		root := t.TempDir()
		path := filepath.Join(root, tc.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(tc.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := Inside(root); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
	if hint := InsideHint("docker"); !strings.Contains(hint, "--privileged --cgroupns=private") {
		t.Errorf("got %q, want the flags of docker run", hint)
	}
}
