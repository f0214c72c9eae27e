//go:build linux

package container_test

import (
	"archive/tar"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ingot/internal/base/mounts"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/enginetest"
)

// strictDir names a directory that the test below mounts with every option that forbids
// something.
const strictDir = "INGOT_TEST_STRICT_DIR"

// TestMountOptions runs instances while each directory that the engine uses is a mount with
// noexec, nodev, nosuid and nosymfollow, as Debian's /run is with the first three. An option
// only forbids, so that what works with all works with each. The process engine, which
// cannot do without, has a test by the same name.
func TestMountOptions(t *testing.T) {
	t.Parallel()
	need(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	programs := filepath.Dir(enginetest.InitPath())
	for name, dir := range map[string]struct{ strict, temporary string }{
		"Run":      {"/run", ""},
		"Tmp":      {"/tmp", "/tmp"},
		"VarTmp":   {"/var/tmp", "/var/tmp"},
		"Data":     {enginetest.TempDir(t), ""},
		"Programs": {programs, ""},
	} {
		if name == "Data" {
			dir.temporary = dir.strict
		}
		cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestStrictDirectory$", "-test.v")
		cmd.Env = append(os.Environ(), enginetest.ProgramsVariable+"="+programs, strictDir+"="+dir.strict)
		if dir.temporary != "" {
			cmd.Env = append(cmd.Env, "TMPDIR="+dir.temporary)
		}
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestStrictDirectory") {
			t.Errorf("%s: with a strict mount at %s: %v\n%s", name, dir.strict, err, out)
		}
	}
}

// TestStrictDirectory is run by the test above, in its own mount namespace.
//
//nolint:paralleltest // it is the only test of its process
func TestStrictDirectory(t *testing.T) {
	dir := os.Getenv(strictDir)
	if dir == "" {
		t.Skip("TestMountOptions runs it")
	}
	// The engines of other tests need not wait for this process.
	table, err := mounts.Table()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range table {
		if strings.HasPrefix(m.Source, "/dev/loop") || m.Kind == "overlay" && m.Point != "/" {
			_ = unix.Unmount(m.Point, unix.MNT_DETACH) // it may be below another one
		}
	}
	const all = unix.MS_NOEXEC | unix.MS_NODEV | unix.MS_NOSUID | unix.MS_NOSYMFOLLOW
	if err := unix.Mount(dir, dir, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|all, ""); err != nil {
		t.Fatal(err)
	}
	for _, o := range []mounts.Option{mounts.NoExec, mounts.NoSymlinks} {
		if err := mounts.Check(filepath.Join(dir, "new"), o); err == nil ||
			!strings.Contains(err.Error(), "with "+string(o)+" ("+dir+")") {
			t.Fatalf("%s: got %v, want an error that names the mount and %s", dir, err, o)
		}
	}
	e, _ := opened(t, container.Options{})
	if why := e.Describe().Held; why != "" {
		t.Fatal(why)
	}
	files := layerOf("", folder("app/"), piece{name: "app/run", body: "#!/bin/sh\necho runs\n", kind: tar.TypeReg,
		mode: 0o755},
		piece{name: "app/link", link: "run", kind: tar.TypeSymlink})
	for _, key := range []string{"", "shared"} {
		id := "a" + key
		s := idle(id)
		s.Files = []engine.Archive{{Key: key, Open: func() (io.ReadCloser, error) { return files.Open(t.Context()) }}}
		start(t, e, s)
		out, status := inside(t, e, id, `for f in app/run app/link; do $f; done
			for dir in /tmp /var/tmp . app; do cp app/run $dir/new && ln -s new $dir/newlink && $dir/newlink; done
			exec 3>/dev/null && : >/dev/shm/file`)
		if want := strings.TrimSpace(strings.Repeat("runs\n", 6)); status != 0 || out != want {
			t.Errorf("files with the key %q: output %q, exit status %d, want %q", key, out, status, want)
		}
	}
	out, exit := runImage(t, e, engine.Image{Layers: shellImage(t), Dir: "/", User: "shop"}, "/bin/sh", "-c", "echo runs")
	if !strings.HasPrefix(out, "runs\n") || exit == nil || exit.Status != 0 {
		t.Errorf("an image: output %q, exit %+v, want runs", out, exit)
	}
}
