//go:build linux

package local_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/instance/homedir"
	"ingot/internal/platform/instance/initproto"
)

func create(t *testing.T, root, id string) *local.Dir {
	t.Helper()
	d, err := local.Create(root, id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func names(t *testing.T, root string) []string {
	t.Helper()
	dirs, err := local.List(root)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, d := range dirs {
		ids = append(ids, d.ID())
	}
	return ids
}

func TestDirLife(t *testing.T) {
	t.Parallel()
	root := filepath.Join(t.TempDir(), "instances")
	if ids := names(t, root); ids != nil {
		t.Errorf("before the first: %v", ids)
	}
	whole, half := create(t, root, "whole"), create(t, root, "half")
	if _, err := local.Create(root, "half"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("Create again: %v", err)
	}
	if _, err := local.Open(root, "whole"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("Open before Commit: %v", err)
	}
	meta := local.Meta{
		Labels: map[string]string{"a": "b"}, Created: time.Now().UTC(),
		Launch: initproto.Spec{Members: []initproto.Member{{Name: "web", Env: []string{"SECRET=x"}}}},
	}
	if err := whole.Commit(meta); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"instance.json", "control/spec.json"} {
		testkit.CheckMode(t, filepath.Join(whole.Path(), name), 0o600)
	}
	if ids := names(t, root); !slices.Equal(ids, []string{"whole"}) {
		t.Errorf("List: %v", ids)
	}
	if s := whole.State(); s.Phase != initproto.Starting || !s.Since.Equal(meta.Created) {
		t.Errorf("state: %+v", s)
	}

	// A server that died left these: nothing, half of something, and garbage.
	if err := os.WriteFile(filepath.Join(create(t, root, "garbage").Path(), "instance.json"), []byte(`{"id":`),
		0o600); err != nil {
		t.Fatal(err)
	}
	var torn []string
	err := local.Recover(root, func(d *local.Dir) error {
		torn = append(torn, d.ID())
		return nil
	})
	if err != nil || !slices.Equal(torn, []string{"garbage", "half"}) {
		t.Errorf("Recover: %v, %v", torn, err)
	}
	if _, err := os.Stat(half.Path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half: %v", err)
	}
	again, err := local.Open(root, "whole")
	if err != nil || again.Meta().ID != "whole" || again.Meta().Labels["a"] != "b" ||
		!again.Meta().Created.Equal(meta.Created) {
		t.Errorf("Open: %+v, %v", again, err)
	}
	// What cannot be taken down is not deleted.
	if err := again.Forget(); err != nil {
		t.Fatal(err)
	}
	if err := local.Recover(root, func(*local.Dir) error { return errors.New("busy") }); err == nil {
		t.Error("Recover went well")
	}
	if _, err := os.Stat(again.Home()); err != nil {
		t.Error(err)
	}
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"a", "0", "5f3c-1.x_y", strings.Repeat("x", 128)} {
		if err := local.CheckID(id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []string{"", ".", "..", ".a", "-a", "a/b", "a\x00", "a\n", "ä", strings.Repeat("x", 129)} {
		if local.CheckID(id) == nil {
			t.Errorf("%q was accepted", id)
		}
	}
}

func TestSubstitute(t *testing.T) {
	t.Parallel()
	spec := initproto.Spec{
		Members: []initproto.Member{{
			Args: []string{"{{home}}/run", "{{port:8080}},{{port:9}}"},
			Env: []string{"PORT={{port:8080}}", "X={{other}} {{port:}} {{port:123456}}", "P={{home}}:{{home}}", "IP={{ip}}",
				engine.Escape("U={{{home}} {{port:1}}")},
			Dir: "{{home}}/app",
		}, {
			Name: "proxy", Health: &initproto.Check{Ports: []int{8080}}, Readiness: &initproto.Check{Ports: []int{9}},
		}},
		Health: initproto.Check{Ports: []int{8080, 1}}, Readiness: initproto.Check{Ports: []int{9}},
		TLS: &initproto.TLS{Port: 61443, To: 8080, Certificate: "{{home}}/c", Key: "{{home}}/k"},
	}
	got := local.Substitute(spec, local.Words{Home: "/h", IP: "10.0.0.1", Port: func(n int) int { return n + 1 }})
	if *got.TLS != (initproto.TLS{Port: 61443, To: 8081, Certificate: "/h/c", Key: "/h/k"}) || spec.TLS.To != 8080 {
		t.Errorf("TLS: %+v, from %+v", got.TLS, spec.TLS)
	}
	m := got.Members[0]
	if !slices.Equal(m.Args, []string{"/h/run", "8081,10"}) ||
		!slices.Equal(m.Env, []string{"PORT=8081", "X={{other}} {{port:}} {{port:123456}}", "P=/h:/h", "IP=10.0.0.1",
			"U={{{home}} {{port:1}}"}) || m.Dir != "/h/app" {
		t.Errorf("member: %+v", m)
	}
	if !slices.Equal(got.Health.Ports, []int{8081, 2}) || !slices.Equal(got.Readiness.Ports, []int{10}) {
		t.Errorf("checks: %+v, %+v", got.Health, got.Readiness)
	}
	if own := got.Members[1]; !slices.Equal(own.Health.Ports, []int{8081}) ||
		!slices.Equal(own.Readiness.Ports, []int{10}) {
		t.Errorf("checks of a sidecar: %+v, %+v", own.Health, own.Readiness)
	}
	if spec.Members[1].Health.Ports[0] != 8080 || spec.Members[0].Dir != "{{home}}/app" ||
		spec.Members[0].Env[0] != "PORT={{port:8080}}" || spec.Health.Ports[0] != 8080 {
		t.Error("the original was changed")
	}
	for port, want := range map[int]bool{8080: true, 9: true, 808: false, 1: false} {
		if local.MentionsPort(spec, port) != want {
			t.Errorf("port %d", port)
		}
	}
}

func TestBelow(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"": ".", ".": ".", "a/b": "a/b", "./a/": "a", "a/../b": "b", "{{home}}": ".", "{{home}}/a": "a",
		"/home/vcap": ".", "/home/vcap/app": "app", "/home/vcap/a/../b": "b",
		"..": "!", "../a": "!", "a/../../b": "!", "{{home}}x": "!", "{{home}}/..": "!", "/": "!",
		"/home/vcapx": "!", "/home/vcap/..": "!", "/etc/passwd": "!", "/home/vcap/../x": "!",
	} {
		got, err := homedir.Below(path, "/home/vcap")
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
}

func TestPorts(t *testing.T) {
	t.Parallel()
	ours, theirs := local.NewPorts(), local.NewPorts() // two servers
	defer ours.Close()
	defer theirs.Close()
	taken := map[int]bool{}
	for _, p := range []*local.Ports{ours, theirs} {
		for range 50 {
			n, err := p.Take()
			if err != nil || taken[n] || n < 1024 {
				t.Fatalf("port %d, %v", n, err)
			}
			taken[n] = true
		}
	}
	n, err := ours.Take()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*local.Ports{ours, theirs} {
		if err := p.Claim(n); !errors.Is(err, local.ErrPortTaken) {
			t.Errorf("Claim: %v", err)
		}
	}
	theirs.Release(n) // has no effect on ours
	if err := theirs.Claim(n); !errors.Is(err, local.ErrPortTaken) {
		t.Errorf("Claim: %v", err)
	}
	ours.Release(n)
	if err := theirs.Claim(n); err != nil {
		t.Errorf("Claim of a free port: %v", err)
	}
}

func TestProcessID(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id, err := local.Identify(cmd.Process.Pid)
	if err != nil || !id.Alive() {
		t.Fatalf("identity is %+v, %v, want one alive", id, err)
	}
	// Another process had the pid before, or in another life of the machine.
	for _, wrong := range []local.ProcessID{{PID: id.PID, Start: id.Start - 1, Boot: id.Boot},
		{PID: id.PID, Start: id.Start, Boot: "x"}, {}} {
		if wrong.Alive() {
			t.Errorf("%+v is alive", wrong)
		}
		if err := wrong.Signal(syscall.SIGKILL); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("Signal: %v", err)
		}
	}
	if !id.Alive() {
		t.Fatal("the wrong process was killed")
	}
	ctx, cancel := context.WithCancel(t.Context())
	waited := make(chan error, 2)
	go func() { waited <- id.Wait(ctx) }()
	cancel()
	if err := <-waited; !errors.Is(err, context.Canceled) {
		t.Errorf("Wait: %v", err)
	}
	go func() { waited <- id.Wait(t.Context()) }()
	if err := id.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Errorf("Wait: %v", err)
	}
	if id.Alive() || !id.Exists() {
		t.Error("it is a zombie, and not seen as one")
	}
	_ = cmd.Wait()
	if id.Exists() || id.Wait(t.Context()) != nil {
		t.Error("it still exists")
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	table := map[int]local.Stat{
		1: {PID: 1}, 2: {PID: 2, Parent: 1}, 3: {PID: 3, Parent: 2}, 4: {PID: 4, Parent: 3}, 5: {PID: 5, Parent: 1},
		8: {PID: 8, Parent: 9}, 9: {PID: 9, Parent: 8}, // cannot be, but must not hang
	}
	var pids []int
	for _, s := range local.Tree(table, func(s local.Stat) bool { return s.PID == 2 }) {
		pids = append(pids, s.PID)
	}
	slices.Sort(pids)
	if !slices.Equal(pids, []int{2, 3, 4}) {
		t.Errorf("tree is %v, want 2, 3 and 4", pids)
	}
}

// archiveOf makes an archive of names and contents; "x -> y" is a link.
func archiveOf(target string, files ...string) engine.Archive {
	return engine.Archive{Target: target, Open: func() (io.ReadCloser, error) {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		for i := 0; i+1 < len(files); i += 2 {
			h := &tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg}
			content := files[i+1]
			if link, ok := strings.CutPrefix(content, "-> "); ok {
				h.Typeflag, h.Linkname, h.Size, content = tar.TypeSymlink, link, 0, ""
			}
			if err := w.WriteHeader(h); err != nil {
				return nil, err
			}
			if _, err := io.WriteString(w, content); err != nil {
				return nil, err
			}
		}
		return io.NopCloser(&b), w.Close()
	}}
}

func TestUnpack(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	outside := filepath.Join(base, "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	d := create(t, filepath.Join(base, "instances"), "x")
	locked := archiveOf("locked", "deep/file", "kept")
	locked.ReadOnly = true
	err := d.Unpack(t.Context(), []engine.Archive{
		archiveOf("", "app/a", "1", "app/b", "1", "out", "-> "+outside, "app/in", "-> a", "app/dir/x", "1"),
		archiveOf("", "app/b", "2", "app/c", "2", "app/in", "2"),
		archiveOf("app/dir", "y", "3"),
		archiveOf("app", "dir/z/w", "4"),
		locked,
	}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"app/a": "1", "app/b": "2", "app/c": "2", "app/in": "2", "app/dir/x": "1", "app/dir/y": "3", "app/dir/z/w": "4",
		"locked/deep/file": "kept",
	} {
		if got, err := os.ReadFile(filepath.Join(d.Home(), name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"locked", "locked/deep", "locked/deep/file"} {
		if info, err := os.Stat(filepath.Join(d.Home(), name)); err != nil || info.Mode()&0o222 != 0 {
			t.Errorf("%s is %+v, %v, want it read-only", name, info, err)
		}
	}
	// Never through a link that leads out.
	for _, target := range []string{"out", "out/deeper", "../../outside", "/" + outside} {
		if err := d.Unpack(t.Context(), []engine.Archive{archiveOf(target, "evil", "1")}, 0); err == nil {
			t.Errorf("unpacked into %s", target)
		}
		if err := d.Link(target, "/"); err == nil {
			t.Errorf("linked as %s", target)
		}
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
		t.Errorf("outside: %v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(d.Path(), ".extra")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := d.Unpack(ctx, []engine.Archive{archiveOf("late", "x", "1")}, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("Unpack: %v", err)
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, root := filepath.Join(base, "cache"), filepath.Join(base, "instances")
	if err := os.MkdirAll(filepath.Join(dir, ".new-1", "x"), 0o755); err != nil { // of a server that died
		t.Fatal(err)
	}
	c, err := local.OpenCache(dir)
	if err != nil {
		t.Fatal(err)
	}
	var opened atomic.Int32
	a := archiveOf("", "x", "1")
	open := a.Open
	a.Key = "sha256:../../abc" // not a file name
	a.Open = func() (io.ReadCloser, error) {
		if opened.Add(1) == 1 {
			return nil, errors.New("the first time it fails")
		}
		return open()
	}
	if _, err := c.Get(t.Context(), a, 0); err == nil {
		t.Fatal("no error")
	}
	var work sync.WaitGroup
	for range 8 {
		work.Go(func() {
			path, err := c.Get(t.Context(), a, 0)
			if err != nil || filepath.Dir(path) != dir {
				t.Errorf("path is %s, %v, want one in %s", path, err, dir)
			}
			if b, err := os.ReadFile(filepath.Join(path, "x")); err != nil || string(b) != "1" {
				t.Errorf("file holds %q, %v, want 1", b, err)
			}
		})
	}
	work.Wait()
	if n := opened.Load(); n != 2 {
		t.Errorf("it was opened %d times", n)
	}
	other := archiveOf("", "x", "2")
	other.Key = "other"
	if _, err := c.Get(t.Context(), other, 0); err != nil {
		t.Fatal(err)
	}
	if err := create(t, root, "user").Commit(local.Meta{Keys: []string{a.Key}}); err != nil {
		t.Fatal(err)
	}
	if err := c.Prune(root, time.Hour); err != nil {
		t.Fatal(err)
	}
	entries, _ := os.ReadDir(dir)
	if len(entries) != 2 {
		t.Errorf("too early: %v", entries)
	}
	if err := c.Prune(root, 0); err != nil {
		t.Fatal(err)
	}
	if entries, _ = os.ReadDir(dir); len(entries) != 1 || filepath.Join(dir, entries[0].Name()) != c.Path(a.Key) {
		t.Errorf("left: %v", entries)
	}
}

func TestInitPath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "init")
	if _, err := local.InitPath(path); err == nil ||
		!strings.Contains(err.Error(), "go build -o "+path+" ./cmd/ingot-init") {
		t.Errorf("error is %v, want the command that builds %s", err, path)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := local.InitPath(path); err == nil {
		t.Error("a file that cannot be run was accepted")
	}
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := local.InitPath(path); err != nil || got != path {
		t.Errorf("path is %s, %v, want %s", got, err, path)
	}
}

func TestRecords(t *testing.T) {
	t.Parallel()
	d := create(t, t.TempDir(), "x")
	w, err := initproto.OpenWriter(filepath.Join(d.Control(), initproto.RecordsDir), initproto.WriterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for n := range 3 {
		if _, err := w.Append(initproto.Stdout, time.Now(), 0, fmt.Append(nil, n)); err != nil {
			t.Fatal(err)
		}
	}
	gone := make(chan struct{})
	s, err := d.Records(t.Context(), 1, local.Follow{Gone: func(ctx context.Context) error {
		select {
		case <-gone:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []uint64{2, 3} {
		if r, err := s.Next(); err != nil || r.Seq != want {
			t.Errorf("record is %+v, %v, want sequence number %d", r, err, want)
		}
	}
	// Killed: there is no last record, and still an end.
	close(gone)
	if r, err := s.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("record is %+v, %v, want %v", r, err, io.EOF)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}
