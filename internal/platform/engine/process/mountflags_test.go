//go:build linux

package process_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/engine/process"
	"ingot/internal/platform/instance/initproto"
)

// TestMountOptions puts each directory that the engine uses on a mount with each option that
// forbids something. Instances run, or the error names the mount and the option.
func TestMountOptions(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount")
	}
	options := map[string]uintptr{"noexec": unix.MS_NOEXEC, "nodev": unix.MS_NODEV, "nosuid": unix.MS_NOSUID,
		"nosymfollow": unix.MS_NOSYMFOLLOW}
	for name, forbidden := range map[string][]string{
		"instances": {"noexec", "nosymfollow"},
		"cache":     {"noexec", "nosymfollow"},
		"programs":  {"noexec"},
	} {
		for option, flag := range options {
			t.Run(name+"/"+option, func(t *testing.T) {
				t.Parallel()
				dir := enginetest.TempDir(t)
				for _, below := range []string{"instances", "cache", "programs"} {
					if err := os.Mkdir(filepath.Join(dir, below), 0o755); err != nil {
						t.Fatal(err)
					}
				}
				program, err := os.ReadFile(enginetest.InitPath())
				if err != nil {
					t.Fatal(err)
				}
				first := filepath.Join(dir, "programs", "ingot-init")
				testkit.WriteProgram(t, first, string(program))
				point := filepath.Join(dir, name)
				mount(t, point, flag)
				e, err := process.New(process.Options{Root: filepath.Join(dir, "instances"), Cache: filepath.Join(dir, "cache"),
					Init: first})
				if err != nil {
					t.Fatal(err)
				}
				defer e.Close()
				err = runFiles(t, e)
				works := true
				for _, o := range forbidden {
					works = works && o != option
				}
				want := "with " + option + " (" + point + "); allow it with 'mount -o remount,"
				var placement *engine.PlacementError
				switch {
				case works && err != nil:
					t.Error(err)
				case works && e.Describe().Held != "":
					t.Errorf("held is %q, want nothing", e.Describe().Held)
				case !works && (!errors.As(err, &placement) || !strings.Contains(err.Error(), want) ||
					!strings.Contains(e.Describe().Held, want)):
					t.Errorf("got %v, held is %q, want both to contain %q", err, e.Describe().Held, want)
				}
			})
		}
	}
}

// mount makes a directory a mount with an option, until the test ends.
func mount(t *testing.T, dir string, flag uintptr) {
	t.Helper()
	if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|flag, ""); err != nil {
		t.Fatal(err)
	}
}

// runFiles runs an instance that executes its own file, one of a shared archive, and
// links to both.
func runFiles(t *testing.T, e *process.Engine) error {
	t.Helper()
	archive := func(key, target string) engine.Archive {
		return engine.Archive{Key: key, Target: target, ReadOnly: key != "", Open: func() (io.ReadCloser, error) {
			const script = "#!/bin/sh\nexit 0\n"
			var b bytes.Buffer
			w := tar.NewWriter(&b)
			err := w.WriteHeader(&tar.Header{Name: "run", Mode: 0o755, Size: int64(len(script)), Typeflag: tar.TypeReg})
			if err == nil {
				_, err = io.WriteString(w, script)
			}
			if err == nil {
				err = w.WriteHeader(&tar.Header{Name: "link", Linkname: "run", Mode: 0o777, Typeflag: tar.TypeSymlink})
			}
			return io.NopCloser(&b), errors.Join(err, w.Close())
		}}
	}
	err := e.Start(t.Context(), engine.Spec{
		ID: "a", Files: []engine.Archive{archive("", "app"), archive("shared", "deps")},
		Launch: initproto.Spec{
			Instance: "a", OneOff: true, LogRate: -1, Health: initproto.Check{Kind: initproto.CheckProcess},
			Members: []initproto.Member{{
				Name: "web", Source: "APP", Args: []string{"/bin/sh", "-ec", "app/run; app/link; deps/run; deps/link"},
				Env: []string{"PATH=/usr/bin:/bin", "HOME={{home}}"}, Dir: "{{home}}",
			}},
		},
	})
	if err != nil {
		return err
	}
	testkit.Eventually(t, "the instance has ended", func() bool {
		in, err := e.Get(t.Context(), "a")
		return err == nil && !in.Running && in.State.Exit != nil
	})
	in, err := e.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if in.State.Exit.Status != 0 {
		t.Errorf("it left with %+v", in.State.Exit)
	}
	return e.Remove(t.Context(), "a")
}
