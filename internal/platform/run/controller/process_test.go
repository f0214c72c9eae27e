//go:build linux

package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/engine/process"
	"ingot/internal/platform/instance/initproto"
	"ingot/internal/platform/run/controller/routing"
)

// newReal is a world whose engine is the real one with the real ingot-init, on a
// droplet with the program of the engines' tests.
func newReal(t *testing.T, instances int, command string) *world {
	t.Helper()
	return newRealOn(t, instances, command, (*world).openEngine)
}

// newRealOn is newReal with an engine that open opens in a directory.
func newRealOn(t *testing.T, instances int, command string, open func(w *world, dir string)) *world {
	t.Helper()
	if err := build(); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, instances)
	w.fake = nil
	dir, err := os.MkdirTemp("", "ctl")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	member, err := os.ReadFile(filepath.Join(programs, "member"))
	if err != nil {
		t.Fatal(err)
	}
	w.droplets.of["droplet"] = tarOf(map[string]string{"./app/member": string(member)})
	w.update(func(tx platform.Tx) error {
		d, err := tx.Droplets().Get("droplet")
		if err != nil {
			return err
		}
		d.ProcessTypes["web"] = command
		return tx.Droplets().Update(d)
	})
	open(w, dir)
	t.Cleanup(func() {
		if w.c == nil {
			return // it did not come to begin
		}
		w.c.Stop()
		list, err := w.engine.List(context.Background(), nil)
		if err != nil {
			t.Error(err)
		}
		for _, in := range list {
			if err := w.engine.Remove(context.Background(), in.ID); err != nil {
				t.Error(err)
			}
		}
		if err := w.engine.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *world) openEngine(dir string) {
	w.Helper()
	w.root = dir
	e, err := process.New(process.Options{Root: filepath.Join(dir, "instances"),
		Init: filepath.Join(programs, "ingot-init")})
	if err != nil {
		w.Fatal(err)
	}
	w.engine = e
}

// kill ends a member of an instance, from outside.
func (w *world) kill(id, member string) {
	w.Helper()
	in, err := w.engine.Get(context.Background(), id)
	if err != nil {
		w.Fatal(err)
	}
	i := slices.IndexFunc(in.State.Members, func(m initproto.MemberState) bool { return m.Name == member })
	if i < 0 {
		w.Fatalf("no member %s in %+v", member, in.State)
	}
	if err := syscall.Kill(in.State.Members[i].PID, syscall.SIGKILL); err != nil {
		w.Fatal(err)
	}
}

// get asks an instance over HTTP.
func (w *world) get(b routing.Backend, port int) string {
	w.Helper()
	i := slices.IndexFunc(b.Ports, func(p platform.InstancePort) bool { return p.Inside == port })
	if i < 0 {
		w.Fatalf("port %d is not open: %+v", port, b)
	}
	client := &http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: (&net.Dialer{}).DialContext}}
	resp, err := client.Get("http://" + b.Ports[i].Address + "/")
	if err != nil {
		w.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

const serving = `exec ./member serve tcp 127.0.0.1:$PORT "$CF_INSTANCE_INDEX $COLOUR $MEMORY_LIMIT"`

func TestRealStartScaleRestart(t *testing.T) {
	t.Parallel()
	w := newReal(t, 2, serving)
	w.begin()
	w.awaitRunning(2)
	for i, b := range w.c.Backends("app", "web") {
		if got := w.get(b, 8080); got != fmt.Sprint(i, " green 1024m") {
			t.Errorf("instance %d says %q", i, got)
		}
	}
	if !slices.Contains(w.logs.of("APP/PROC/WEB"), "Invoking start command.") {
		t.Errorf("log lines are %q, want the invoked start command", w.logs.of("APP/PROC/WEB"))
	}
	w.scale(3)
	three := w.awaitRunning(3)
	w.scale(1)
	if one := w.awaitRunning(1); one[0] != three[0] {
		t.Errorf("%v is left of %v", one, three)
	}
	w.restart("v2")
	old := w.awaitRunning(1)[0]
	if old == three[0] {
		t.Error("it was not replaced")
	}
	if err := w.restartInstance("app", 0); err != nil {
		t.Fatal(err)
	}
	w.await("it is another", func() bool { r := w.rows(); return len(r) == 1 && r[0].GUID != old })
	id := w.awaitRunning(1)[0]
	w.clock.Advance(time.Minute)
	if u := w.c.Usage(t.Context(), id)[id]; u.Memory == 0 || u.Disk == 0 || u.MemoryLimit != 1<<30 {
		t.Errorf("usage is %+v, want memory, disk and a memory limit of 1 GiB", u)
	}
	w.setState(platform.AppStopped)
	w.awaitRunning(0)
	if l, err := w.engine.List(t.Context(), nil); err != nil || len(l) != 0 {
		t.Errorf("left are %+v, %v", l, err)
	}
	if n := len(w.audits("app.crash")); n != 0 {
		t.Errorf("%d crashes", n)
	}
}

func TestRealCrashBackoff(t *testing.T) {
	t.Parallel()
	w := newReal(t, 1, `echo out; echo err >&2; exit 7`)
	w.begin()
	w.await("it waits", func() bool { return w.states() == "0CRASHED" })
	if r := w.rows()[0]; r.Crashes != 4 || r.Details != "APP/PROC/WEB: Exited with status 7" ||
		!r.RestartAt.Equal(noon.Add(firstPause)) {
		t.Errorf("row is %+v, want 4 crashes, status 7 and a restart in %s", r, firstPause)
	}
	w.settled()
	w.clock.Advance(firstPause)
	w.await("it tried again", func() bool {
		r := w.rows()
		return len(r) == 1 && r[0].Crashes == 5 && r[0].State == platform.InstanceCrashed
	})
	lines := w.logs.of("APP/PROC/WEB")
	for _, want := range []string{"out", "err", "Exit status 7"} {
		if n := len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l != want })); n != 5 {
			t.Errorf("%q is there %d times", want, n)
		}
	}
	if n := len(w.audits("audit.app.process.crash")); n != 5 {
		t.Errorf("%d crashes", n)
	}
	w.c.Stop()
	w.begin()
	w.settled()
	if w.states() != "0CRASHED" || len(w.audits("app.crash")) != 5 {
		t.Error("a new server does not wait:", w.states())
	}
	w.clock.Advance(2 * firstPause)
	w.await("it tried again", func() bool {
		r := w.rows()
		return len(r) == 1 && r[0].Crashes == 6 && r[0].State == platform.InstanceCrashed
	})
}

func TestRealSidecar(t *testing.T) {
	t.Parallel()
	w := newReal(t, 1, serving)
	w.update(func(tx platform.Tx) error {
		return tx.Sidecars().Insert(&platform.Sidecar{
			AppGUID: "app", Name: "config-server", Command: `echo "beside $PORT $MEMORY_LIMIT"; exec ./member wait`,
			ProcessTypes: []string{"web"}, MemoryMB: 24,
		})
	})
	w.begin()
	id := w.awaitRunning(1)[0]
	if got := w.get(w.c.Backends("app", "web")[0], 8080); got != "0 green 1000m" {
		t.Errorf("app says %q, want 0 green 1000m", got)
	}
	const source = "APP/PROC/WEB/SIDECAR/CONFIG-SERVER"
	w.await("it speaks", func() bool {
		return slices.ContainsFunc(w.logs.of(source), func(l string) bool {
			return strings.HasPrefix(l, "beside ") &&
				strings.HasSuffix(l, " 24m")
		})
	})
	w.kill(id, "config-server")
	w.await("it was replaced", func() bool { r := w.rows(); return len(r) == 1 && r[0].GUID != id })
	w.awaitRunning(1)
	lines := w.logs.of("API")
	if len(lines) != 2 || !strings.Contains(lines[1], `"exitdescription":"`+source+`: Exited with status 137"`) ||
		!strings.Contains(lines[1], `"instance":"`+id+`"`) {
		t.Errorf("API log lines are %q, want 2, the second about %s of instance %s", lines, source, id)
	}
}

// mortalLogs and mortalStore do nothing any more when their server is dead.
type mortalLogs struct {
	*memoryLogs
	dead *atomic.Bool
}

var errDead = errors.New("this server is dead")

func (l mortalLogs) Append(entries ...platform.LogLine) error {
	if l.dead.Load() {
		return errDead
	}
	return l.memoryLogs.Append(entries...)
}

func (l mortalLogs) Tell(lines ...platform.LogLine) error { return l.Append(lines...) }

type mortalStore struct {
	platform.Store
	dead *atomic.Bool
}

func (s mortalStore) Update(ctx context.Context, f func(platform.Tx) error) error {
	if s.dead.Load() {
		return errDead
	}
	return s.Store.Update(ctx, f)
}

// TestRealServerDies abandons a controller while an instance writes, and starts
// another on the same directory.
func TestRealServerDies(t *testing.T) {
	t.Parallel()
	w := newReal(t, 1, `exec ./member count 2ms`)
	w.update(func(tx platform.Tx) error {
		p, err := tx.Processes().Get("app")
		if err != nil {
			return err
		}
		p.Health.Type = platform.CheckProcess
		return tx.Processes().Update(p)
	})
	begin := func() *atomic.Bool {
		dead := &atomic.Bool{}
		config := w.config()
		config.Logs, config.Store = mortalLogs{w.logs, dead}, mortalStore{w.store, dead}
		w.run(New(config))
		return dead
	}
	dead := begin()
	id := w.awaitRunning(1)[0]
	count := func() int {
		return len(slices.DeleteFunc(w.logs.of("APP/PROC/WEB"),
			func(l string) bool { return !strings.HasPrefix(l, "line ") }))
	}
	w.await("lines", func() bool { return count() >= 20 })
	// An orphan: its row is lost with the server.
	orphan := "orphan-1"
	spec, err := w.c.specOf(t.Context(), slotKey{process: "app"}, orphan, "v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := w.engine.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		// From one moment on nothing that it does has an effect, as with a
		// server that is killed.
		dead.Store(true)
		dir := w.root
		if err := w.engine.Close(); err != nil {
			t.Fatal(err)
		}
		w.c.Stop()
		w.openEngine(dir)
		before := count()
		dead = begin()
		w.await("more lines", func() bool { return count() >= before+20 })
	}
	if again := w.awaitRunning(1); again[0] != id {
		t.Errorf("%s became %s", id, again[0])
	}
	w.await("the orphan is gone", func() bool { _, err := w.engine.Get(t.Context(), orphan); return err != nil })
	w.setState(platform.AppStopped)
	w.awaitRunning(0)
	n := 0
	for _, l := range w.logs.of("APP/PROC/WEB") {
		if strings.HasPrefix(l, "line ") {
			if n++; l != fmt.Sprint("line ", n) {
				t.Fatalf("line %d is %q", n, l)
			}
		}
	}
	if w.c.lost.Load() != 0 || len(w.audits("app.crash")) != 0 {
		t.Errorf("%d lines lost, %d crashes", w.c.lost.Load(), len(w.audits("app.crash")))
	}
}

// TestRealFixedPort has a sidecar with its own port, of which this engine
// can have one only.
func TestRealFixedPort(t *testing.T) {
	t.Parallel()
	w := newReal(t, 1, serving)
	free := local.NewPorts()
	number, err := free.Take()
	if err != nil {
		t.Fatal(err)
	}
	free.Close()
	port := strconv.Itoa(number)
	w.update(func(tx platform.Tx) error {
		return errors.Join(
			tx.Sidecars().Insert(&platform.Sidecar{AppGUID: "app", Name: "side", Command: "exec ./member serve tcp 127.0.0.1:" +
				port + " beside", ProcessTypes: []string{"web"}}),
			tx.Destinations().Insert(&platform.Destination{RouteGUID: "route", AppGUID: "app", ProcessType: "web",
				Port: number}),
		)
	})
	w.begin()
	w.awaitRunning(1)
	b := w.c.Backends("app", "web")[0]
	if got := w.get(b, 8080) + ", " + w.get(b, number); got != "0 green 1024m, beside" {
		t.Errorf("app and sidecar say %q, want 0 green 1024m, beside", got)
	}
	w.scale(2)
	w.await("the second cannot be started", func() bool { return w.states() == "0RUNNING 1CRASHED" })
	if d := w.rows()[1].Details; !strings.Contains(d, "port "+port+" is already in use") ||
		!strings.Contains(d, "one instance only") {
		t.Errorf("details are %q, want port %s in use and one instance only", d, port)
	}
}
