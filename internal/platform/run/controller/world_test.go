package controller

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/logging"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/platformdb"
)

const patience = 90 * time.Second

// world is a store with an app in it, and a controller of it.
type world struct {
	*testing.T
	store    *flakyStore
	db       *db.DB // behind the store
	platform *actions.Platform
	engine   engine.Engine
	fake     *fakeEngine // the engine, unless that is a real one
	logs     *memoryLogs
	clock    *testkit.Clock
	droplets *droplets
	output   testWriter
	root     string // of a real engine

	c       *Controller
	app     *platform.App
	process *platform.Process
}

// flakyStore can be told to fail.
type flakyStore struct {
	platform.Store
	mu   sync.Mutex
	fail error
	// written, if there is one, is called when something has been.
	written func()
}

func (s *flakyStore) Update(ctx context.Context, f func(platform.Tx) error) error {
	s.mu.Lock()
	err := s.fail
	s.mu.Unlock()
	if err == nil {
		err = s.Store.Update(ctx, f)
	}
	if err == nil && s.written != nil {
		s.written()
	}
	return err
}

func (s *flakyStore) set(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

// droplets are archives by guid.
type droplets struct {
	mu sync.Mutex
	of map[string][]byte
}

func (d *droplets) Open(_ context.Context, guid string) (io.ReadCloser, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	content, ok := d.of[guid]
	if !ok {
		return nil, fmt.Errorf("droplet %s: %w", guid, errNoFile)
	}
	return io.NopCloser(bytes.NewReader(content)), nil
}

// testWriter keeps the operator's log for tests that fail.
type testWriter struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func newWorld(t *testing.T, instances int) *world {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, platformdb.Migrations)
	fake := newFake(t)
	w := &world{
		T: t, store: &flakyStore{Store: platformdb.New(d)}, db: d, platform: actions.New(), engine: fake, fake: fake,
		logs: newLogs(), clock: testkit.NewClock(noon), droplets: &droplets{of: map[string][]byte{"droplet": tarOf(nil)}},
	}
	w.platform.Now = w.clock.Now
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the operator saw:\n%s\nthe user saw:\n%s", w.output.b.String(), strings.Join(w.logs.of(""), "\n"))
		}
	})
	w.update(func(tx platform.Tx) error {
		id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
		w.app = &platform.App{
			Resource: id("app"), Name: "shop", SpaceGUID: "space", State: platform.AppStarted, DropletGUID: "droplet",
			Env: map[string]string{"COLOUR": "green"}, Lifecycle: platform.Lifecycle{Type: "buildpack"},
		}
		w.process = w.platform.NewProcess(w.app, "web")
		w.process.Instances, w.process.DropletGUID, w.process.Version = instances, "droplet", "v1"
		for _, err := range []error{
			tx.Organizations().Insert(&platform.Organization{Resource: id("org"), Name: "acme"}),
			tx.Spaces().Insert(&platform.Space{Resource: id("space"), Name: "dev", OrgGUID: "org"}),
			tx.Domains().Insert(&platform.Domain{Resource: id("domain"), Name: "apps.example.org"}),
			tx.Routes().Insert(&platform.Route{Resource: id("route"), SpaceGUID: "space", DomainGUID: "domain", Host: "shop",
				Protocol: "http"}),
			tx.Apps().Insert(w.app),
			tx.Processes().Insert(w.process),
			tx.Droplets().Insert(&platform.Droplet{Resource: id("droplet"), AppGUID: "app", State: platform.DropletStaged,
				Checksum: "abc", ProcessTypes: map[string]string{"web": "run it"}}),
			tx.Destinations().Insert(&platform.Destination{Resource: id("destination"), RouteGUID: "route", AppGUID: "app",
				ProcessType: "web", Port: 8080, Protocol: "http1"}),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	return w
}

func (w *world) update(f func(tx platform.Tx) error) {
	w.Helper()
	if err := w.store.Store.Update(context.Background(), f); err != nil {
		w.Fatal(err)
	}
}

// config is that of the next controller.
func (w *world) config() Config {
	return Config{
		Store: w.store, Platform: w.platform, Engine: w.engine, Logs: w.logs, Droplets: w.droplets,
		API: "https://api.example.org", Cell: "cell-7", Clock: w.clock, Log: logging.New(&w.output, true, slog.LevelDebug),
	}
}

// begin starts a controller, after the one before was stopped.
func (w *world) begin() *Controller {
	w.Helper()
	c := New(w.config())
	w.run(c)
	return c
}

func (w *world) run(c *Controller) {
	w.Helper()
	w.c = c
	w.Cleanup(c.Stop)
	if err := c.Start(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// change changes the process as the API does, and kicks.
func (w *world) change(f func(p *platform.Process)) {
	w.Helper()
	w.update(func(tx platform.Tx) error {
		p, err := tx.Processes().Get("app")
		if err != nil {
			return err
		}
		f(p)
		w.process = p
		return tx.Processes().Update(p)
	})
	w.c.Kick("app")
}

func (w *world) scale(n int) { w.Helper(); w.change(func(p *platform.Process) { p.Instances = n }) }

func (w *world) restart(version string) {
	w.Helper()
	w.change(func(p *platform.Process) { p.Version = version })
}

// restartInstance asks for a restart as a user does.
func (w *world) restartInstance(processGUID string, index int) error {
	w.Helper()
	err := w.store.Update(w.Context(), func(tx platform.Tx) error {
		app, err := tx.Apps().Get("app")
		if err != nil {
			return err
		}
		process, err := tx.Processes().Get(processGUID)
		if err != nil {
			return err
		}
		return w.config().Platform.RestartInstance(tx, actions.Actor{}, app, process, index)
	})
	w.c.Kick("app")
	return err
}

func (w *world) setState(s platform.AppState) {
	w.Helper()
	w.update(func(tx platform.Tx) error {
		app, err := tx.Apps().Get("app")
		if err != nil {
			return err
		}
		app.State = s
		return tx.Apps().Update(app)
	})
	w.c.Kick("app")
}

// rows are the instances in the store, by index.
func (w *world) rows() []*platform.Instance {
	w.Helper()
	var rows []*platform.Instance
	err := w.store.View(context.Background(), func(tx platform.Tx) error {
		var err error
		rows, _, err = tx.Instances().List(platform.Where("app_guid", "app"))
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	slices.SortFunc(rows, func(x, y *platform.Instance) int { return x.Index - y.Index })
	return rows
}

func (w *world) states() string {
	w.Helper()
	var all []string
	for _, r := range w.rows() {
		all = append(all, fmt.Sprint(r.Index, r.State))
	}
	return strings.Join(all, " ")
}

// await waits until something is so.
func (w *world) await(what string, so func() bool) {
	w.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		passed := w.c.afterPass()
		if so() {
			return
		}
		select {
		case <-passed:
		case <-tick.C:
		case <-deadline.C:
			w.Fatalf("never: %s; instances are %q", what, w.states())
		}
	}
}

// awaitRunning waits for n running instances of the present version and no
// others, and returns their guids.
func (w *world) awaitRunning(n int) []string {
	w.Helper()
	var ids []string
	w.await(fmt.Sprint(n, " run"), func() bool {
		ids = nil
		for i, r := range w.rows() {
			if r.Index != i || r.State != platform.InstanceRunning || r.Version != w.process.Version || !r.Ready {
				return false
			}
			ids = append(ids, r.GUID)
		}
		return len(ids) == n && len(w.c.Backends("app", "web")) == n
	})
	return ids
}

func (w *world) audits(kind string) []*platform.AuditEvent {
	w.Helper()
	var all []*platform.AuditEvent
	err := w.store.View(context.Background(), func(tx platform.Tx) error {
		var err error
		all, _, err = tx.AuditEvents().List(platform.Where("type", kind))
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// settled waits until nothing is queued or being looked at.
func (w *world) settled() {
	w.Helper()
	w.await("quiet", func() bool {
		w.c.queue.mu.Lock()
		defer w.c.queue.mu.Unlock()
		return len(w.c.queue.queued)+len(w.c.queue.working) == 0
	})
}

func tarOf(files map[string]string) []byte {
	var b bytes.Buffer
	tw := tar.NewWriter(&b)
	dir := func(name string) {
		if err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Typeflag: tar.TypeDir}); err != nil {
			panic(err)
		}
	}
	dir("./app/")
	dir("./tmp/")
	dir("./deps/")
	for name, content := range files {
		err := tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)), Typeflag: tar.TypeReg})
		if err == nil {
			_, err = io.WriteString(tw, content)
		}
		if err != nil {
			panic(err)
		}
	}
	if err := tw.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Reconcile looks at an app now and returns when everything that follows is
// written down and under way. Doing it again changes nothing.
func (c *Controller) Reconcile(ctx context.Context, appGUID string) error {
	c.mu.Lock()
	adopted := c.adopted
	c.mu.Unlock()
	result := make(chan error, 1)
	if !adopted || !c.spawn("look at an app", func(context.Context) { result <- c.reconcile(appGUID) }) {
		return errNotRunning
	}
	select {
	case err := <-result:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
