//go:build linux

package container

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// What is installed, changed and removed on the host while the engine runs shows
// in the root file system of instances.
func TestHostFiles(t *testing.T) {
	t.Parallel()
	h := &hostFiles{root: t.TempDir(), etc: t.TempDir()}
	host := func(name string) string { return filepath.Join(h.etc, name) }
	inside := func(name string) string { return filepath.Join(h.root, "etc", name) }
	must := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	refresh := func() {
		t.Helper()
		if mounts, err := h.refresh(); err != nil || len(mounts) == 0 {
			t.Fatalf("refresh gave %v, %v, want mounts", mounts, err)
		}
	}
	text := func(name string) string {
		b, err := os.ReadFile(inside(name))
		if err != nil {
			return ""
		}
		return string(b)
	}
	must(os.MkdirAll(inside("alternatives"), 0o755), os.WriteFile(inside("passwd"), []byte("ours"), 0o600))
	refresh()

	// A language is installed: links of update-alternatives, a cache that is replaced.
	must(
		os.Mkdir(host("alternatives"), 0o755), os.Symlink("/usr/bin/ruby3.1", host("alternatives/ruby")),
		os.WriteFile(host("ld.so.cache"), []byte("first"), 0o644), os.Mkdir(host("php"), 0o755),
		os.WriteFile(host("php/php.ini"), []byte("a"), 0o644),
		os.WriteFile(host("shadow"), []byte("secret"), 0o600), os.WriteFile(host("services"), []byte("secret"), 0o600),
	)
	refresh()
	if to, err := os.Readlink(inside("alternatives/ruby")); err != nil || to != "/usr/bin/ruby3.1" {
		t.Errorf("ruby is %q, %v", to, err)
	}
	if text("ld.so.cache") != "first" || text("php/php.ini") != "a" || text("shadow") != "" || text("services") != "" {
		t.Errorf("cache %q, php %q, shadow %q, services %q", text("ld.so.cache"), text("php/php.ini"), text("shadow"),
			text("services"))
	}

	// The same size, and as old as its package: only the name says that it is another file.
	must(os.WriteFile(host("ld.so.cache.new"), []byte("other"), 0o644), os.Chtimes(host("ld.so.cache.new"),
		time.Unix(1, 0), time.Unix(1, 0)))
	must(os.Rename(host("ld.so.cache.new"), host("ld.so.cache")), os.Remove(host("alternatives/ruby")),
		os.Symlink("/usr/bin/ruby3.3", host("alternatives/ruby")))
	must(os.RemoveAll(host("php")), os.Symlink("/usr/bin/java21", host("alternatives/java")),
		os.Mkdir(host("alternatives/old"), 0o755))
	refresh()
	if to, err := os.Readlink(inside("alternatives/ruby")); err != nil || to != "/usr/bin/ruby3.3" {
		t.Errorf("ruby is %q, %v", to, err)
	}
	if text("ld.so.cache") != "other" {
		t.Errorf("cache %q", text("ld.so.cache"))
	}
	if _, err := os.Lstat(inside("php")); err == nil {
		t.Error("php was removed from the host and is still there")
	}
	if text("passwd") != "ours" {
		t.Error("a file of the root file system was removed")
	}

	// Kinds change too.
	must(os.Remove(host("alternatives/old")), os.Symlink("/x", host("alternatives/old")),
		os.Remove(host("alternatives/java")), os.Mkdir(host("alternatives/java"), 0o755))
	must(os.WriteFile(host("alternatives/java/x"), []byte("x"), 0o644))
	refresh()
	if to, err := os.Readlink(inside("alternatives/old")); err != nil || to != "/x" || text("alternatives/java/x") != "x" {
		t.Errorf("old is %q, %v; java/x %q", to, err, text("alternatives/java/x"))
	}

	// Nothing was changed for a while: nothing is copied, until something is.
	long := time.Now().Add(-time.Hour)
	must(filepath.WalkDir(h.etc, func(p string, e os.DirEntry, err error) error {
		if err != nil || e.Type() == os.ModeSymlink {
			return err
		}
		return os.Chtimes(p, long, long)
	}))
	refresh()
	if !h.unchanged() {
		t.Error("there is always something to do")
	}
	must(os.WriteFile(host("ld.so.cache"), []byte("in place"), 0o644))
	refresh()
	if text("ld.so.cache") != "in place" {
		t.Errorf("cache %q", text("ld.so.cache"))
	}

	// Many at once, while it changes.
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			name := host("alternatives/p" + string(rune('a'+i)))
			if err := os.Symlink("/usr/bin/p", name); err != nil {
				t.Error(err)
			}
			if _, err := h.refresh(); err != nil {
				t.Error(err)
			}
			if _, err := os.Readlink(inside("alternatives/" + filepath.Base(name))); err != nil {
				t.Errorf("what was there before the call is not seen after it: %v", err)
			}
		})
	}
	all.Wait()
}

func BenchmarkHostFiles(b *testing.B) {
	h := &hostFiles{root: b.TempDir(), etc: "/etc"}
	for b.Loop() {
		if _, err := h.refresh(); err != nil {
			b.Fatal(err)
		}
	}
}

// HostEtc lets an engine take another directory for the host's /etc.
func HostEtc(e *Engine, dir string) { e.host = &hostFiles{root: e.host.root, etc: dir} }

// LoopTime sets how long an engine waits for a disk that others use, and returns what it was.
func LoopTime(e *Engine, limit time.Duration) (before time.Duration) {
	before, e.loopTime = e.loopTime, limit
	return before
}
