//go:build linux

package system

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ingot/internal/base/faulttest"
	"ingot/internal/base/logging"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/services/brokertest"
)

// tinyDisk mounts a small file system.
func tinyDisk(t *testing.T) string {
	t.Helper()
	dir := filepath.Dir(passableDir(t))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m,mode=0711"); err != nil {
		if os.Getenv("INGOT_REQUIRE_CONTAINERS") != "" {
			t.Fatalf("a small disk cannot be mounted: %v", err)
		}
		t.Skipf("a small disk cannot be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// full is a server whose disk is full during requests.
type full struct {
	*faultySite
	broker *brokertest.Broker
	disk   string
}

// fill leaves that many bytes free until the function it returns is called.
func (f *full) fill(free int) (empty func()) {
	f.Helper()
	name := filepath.Join(f.disk, "filler")
	file, err := os.Create(name)
	if err != nil {
		f.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size >= 1<<12; {
		if _, err := file.Write(bytes.Repeat([]byte{1}, size)); errors.Is(err, syscall.ENOSPC) {
			size /= 2
		} else if err != nil {
			f.Fatal(err)
		}
	}
	info, err := file.Stat()
	if err == nil {
		err = file.Truncate(max(0, info.Size()&^4095-int64(free))) // less where the server has taken the rest
	}
	if err != nil {
		f.Fatal(err)
	}
	return func() {
		f.Helper()
		// A removed file keeps its blocks while a process has it open, and one that another test is
		// just starting has it until its program is loaded.
		if err := errors.Join(os.Truncate(name, 0), os.Remove(name)); err != nil {
			f.Fatal(err)
		}
	}
}

// request is one that writes. try makes it, with its own name; there reports whether
// what it made is there.
type request struct {
	name  string
	ready func(name string) // before the disk is full
	try   func(name string) answer
	there func(name string) bool
}

// TestFullDiskAnywhere fills the disk before requests that write: there is no room at all, or
// room for a part of what they write. A request succeeds and what it made is there, or it is
// refused because of the disk and made nothing; when there is room again it works.
func TestFullDiskAnywhere(t *testing.T) {
	t.Parallel()
	disk := tinyDisk(t)
	f := &full{faultySite: &faultySite{T: t, faults: faulttest.New(1)}, broker: &brokertest.Broker{}, disk: disk}
	c := testConfig(t)
	c.DataDir, c.DiskReserve = filepath.Join(disk, "data"), 4<<10 // the requests themselves see the full disk
	c.seams.broker = func(http.RoundTripper) http.RoundTripper { return inMemory{f.broker} }
	log := &lockedLog{}
	c.Log = logging.New(log, false, slog.LevelInfo)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the server's log:\n%s", log)
		}
	})
	f.begin(c)
	app, pkg := f.app("app")
	if !f.build(app, pkg) {
		t.Fatal("no droplet")
	}
	if a := f.ask(http.MethodPost, "/v3/apps/"+app+"/processes/web/actions/scale", map[string]any{"disk_in_mb": 16,
		"memory_in_mb": 64}); a.status != http.StatusAccepted {
		t.Fatalf("scale: %d %s", a.status, a.body)
	}
	for _, r := range append(f.rows(), f.work(app)...) {
		for _, free := range []int{0, 4 << 10, 24 << 10, 100 << 10} {
			name := fmt.Sprintf("%s-%d", r.name, free)
			if r.ready != nil {
				r.ready(name)
			}
			empty := f.fill(free)
			a := r.try(name)
			empty()
			switch {
			case a.status < 300:
				testkit.Eventually(t, name+", which was acknowledged, is there", func() bool { return r.there(name) })
				continue
			case a.status != http.StatusInsufficientStorage || !strings.Contains(a.body, "disk"):
				t.Errorf("%s: %d %s; want 507 and the reason", name, a.status, a.body)
			case r.there(name):
				t.Errorf("%s was refused and is there", name)
			}
			t.Logf("%s: %d", name, a.status)
			if r.ready != nil {
				r.ready(name)
			}
			if a := r.try(name); a.status >= 300 {
				t.Errorf("%s, with room: %d %s", name, a.status, a.body)
			} else {
				testkit.Eventually(t, name+" is there", func() bool { return r.there(name) })
			}
		}
	}
	f.builds(app, pkg)
	testkit.Eventually(t, "the server is ready again", func() bool {
		return f.ask(http.MethodGet, "/readyz", nil).
			status == http.StatusOK
	})
}

// rows returns requests that write to the database only.
func (f *full) rows() []request {
	one := func(path string) func(string) bool {
		return func(name string) bool { return len(f.list(path+name)) == 1 }
	}
	return []request{
		{
			name: "org",
			try: func(name string) answer {
				return f.ask(http.MethodPost, "/v3/organizations", map[string]any{"name": name})
			},
			there: one("/v3/organizations?names="),
		},
		{
			name: "user",
			try: func(name string) answer {
				return f.ask(http.MethodPost, "/Users", map[string]any{
					"userName": name, "password": "pw", "name": map[string]string{"givenName": "g", "familyName": "f"},
					"emails": []map[string]any{{"value": name + "@example.org", "primary": true}},
				})
			},
			there: func(name string) bool {
				return strings.Contains(f.ask(http.MethodGet, "/Users?filter=userName+eq+%22"+name+"%22", nil).body,
					`"totalResults":1`)
			},
		},
		{
			name: "mail",
			try: func(name string) answer {
				return call(f.T, http.MethodPost, f.Endpoints().Notifications+"/emails", f.mailer, map[string]any{
					"kind_id": "kind", "to": "somebody@example.org", "subject": name, "text": strings.Repeat("text ", 2000),
				})
			},
			there: func(name string) bool {
				// after a prefix
				return strings.Contains(call(f.T, http.MethodGet, f.Endpoints().Admin+"/mailbox/messages?to=somebody@example.org",
					"", nil).body, name+`"`)
			},
		},
		{
			name: "service",
			try: func(name string) answer {
				return f.ask(http.MethodPost, "/v3/service_instances", map[string]any{
					"type": "managed", "name": name, "relationships": merge(to("space", f.space), to("service_plan", f.plan)),
				})
			},
			there: func(name string) bool {
				found := f.list("/v3/service_instances?names=" + name)
				if len(found) != 1 {
					return false
				}
				_, exists := f.broker.Instances()[found[0]["guid"].(string)]
				return exists && found[0]["last_operation"].(map[string]any)["state"] == "succeeded"
			},
		},
	}
}

// work returns requests that write files.
func (f *full) work(app string) []request {
	packages, tasks := map[string]string{}, map[string]string{}
	state := func(path string) any { return f.ask(http.MethodGet, path, nil).json(f.T)["state"] }
	return []request{
		{
			name: "package",
			ready: func(name string) {
				packages[name] = f.create("/v3/packages", map[string]any{"type": "bits", "relationships": to("app", app)})
			},
			try:   func(name string) answer { return f.uploadApp(packages[name]) },
			there: func(name string) bool { return state("/v3/packages/"+packages[name]) == "READY" },
		},
		{
			name: "task",
			try: func(name string) answer {
				a := f.ask(http.MethodPost, "/v3/apps/"+app+"/tasks", map[string]any{"name": name, "command": "true",
					"memory_in_mb": 64, "disk_in_mb": 16})
				if a.status < 300 {
					tasks[name] = a.json(f.T)["guid"].(string)
				}
				return a
			},
			// A task that was accepted has a result, whatever it is.
			there: func(name string) bool {
				s := any(nil)
				if tasks[name] != "" {
					s = state("/v3/tasks/" + tasks[name])
				}
				return s == "SUCCEEDED" || s == "FAILED"
			},
		},
	}
}

// builds stages on a full disk: a build ends, with the reason if it fails, and the app keeps
// its droplet.
func (f *full) builds(app, pkg string) {
	f.Helper()
	for _, free := range []int{100 << 10, 1 << 20} {
		empty := f.fill(free)
		a := f.ask(http.MethodPost, "/v3/builds", map[string]any{"package": map[string]string{"guid": pkg}})
		if a.status != http.StatusCreated {
			empty()
			if a.status != http.StatusInsufficientStorage {
				f.Errorf("a build with %d bytes free: %d %s", free, a.status, a.body)
			}
			continue
		}
		guid := a.json(f.T)["guid"].(string)
		ended := func() bool {
			b := f.ask(http.MethodGet, "/v3/builds/"+guid, nil).json(f.T)
			if b["state"] == "FAILED" && !strings.Contains(fmt.Sprint(b["error"]), "disk") {
				f.Errorf("the build failed with %v, want the disk as the reason", b["error"])
			}
			return b["state"] != "STAGING"
		}
		testkit.Eventually(f, "the build ends", ended)
		empty()
	}
	if !f.build(app, pkg) {
		f.Error("a build with room failed")
	}
	f.act(app, "start")
	testkit.Eventually(f, "the app runs", func() bool { return f.running(app) != "" })
	f.end(app)
}
