package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ingot/internal/cli/core"
)

// TestDoctorMounts: a directory in which no program can be executed is named with its mount.
func TestDoctorMounts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	dir := t.TempDir()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	want := "with noexec (" + dir + "); allow it with 'mount -o remount,exec " + dir + "'"
	data := filepath.Join(dir, "not", "made", "yet")
	p := &process{getenv: env("INGOT_DATA_DIR", data), uid: 1000}
	if f := p.dataDirectory(); f.State != core.FindingNote || !strings.Contains(f.Get, data+" is on a mount "+want) {
		t.Errorf("%+v, want %q", f, want)
	}
	if err := os.WriteFile(filepath.Join(dir, "ingot-init"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := programs(dir)[0]; f.State != core.FindingNote || !strings.Contains(f.Get, want) {
		t.Errorf("%+v, want %q", f, want)
	}
}
