//go:build unix

package system

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/server/cluster"
)

// wire is a TCP connection to the database that can be cut.
type wire struct {
	t       *testing.T
	address string // of the wire
	network string
	to      string

	mu    sync.Mutex
	open  net.Listener
	conns map[net.Conn]bool
}

// newWire returns a wire to the database, and its URL through the wire.
func newWire(t *testing.T, database string) (*wire, string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{t: t, network: "tcp", to: u.Host, address: "127.0.0.1:0", conns: map[net.Conn]bool{}}
	query := u.Query()
	if dir := query.Get("host"); dir != "" {
		port := query.Get("port")
		if port == "" {
			port = "5432"
		}
		w.network, w.to = "unix", filepath.Join(dir, ".s.PGSQL."+port)
	}
	w.join()
	t.Cleanup(w.cut)
	query.Del("host")
	query.Del("port")
	u.Host, u.RawQuery = w.address, query.Encode()
	return w, u.String()
}

// join makes the wire carry connections.
func (w *wire) join() {
	listener, err := net.Listen("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.open, w.address = listener, listener.Addr().String()
	w.mu.Unlock()
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial(w.network, w.to)
			if err != nil {
				near.Close()
				continue
			}
			w.mu.Lock()
			w.conns[near], w.conns[far] = true, true
			if w.open != listener { // cut meanwhile
				near.Close()
				far.Close()
			}
			w.mu.Unlock()
			go w.carry(near, far)
			go w.carry(far, near)
		}
	}()
}

func (w *wire) carry(from, to net.Conn) {
	_, _ = io.Copy(to, from)
	from.Close()
	to.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, from)
}

// cut ends all connections and refuses new ones.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open != nil {
		w.open.Close()
		w.open = nil
	}
	for c := range w.conns {
		c.Close()
	}
}

// sharedEngine is one engine for several servers.
type sharedEngine struct{ engine.Engine }

// Close does nothing: other servers use it.
func (sharedEngine) Close() error { return nil }

// trio is three servers on one database, with one engine and one directory of blobs.
type trio struct {
	*testing.T
	servers []*faultySite // as clients of each server
	wires   []*wire
	db      *db.DB
	engine  engine.Engine
	// runtimes are the parts of each server.
	runtimes []*runtime
}

func startTrio(t *testing.T, change ...func(*Config)) *trio {
	t.Helper()
	s := &trio{T: t, servers: make([]*faultySite, 3), wires: make([]*wire, 3), runtimes: make([]*runtime, 3)}
	configs := pairConfigs(t, 3)
	s.db = dbtest.Open(t, configs[0].DatabaseURL)
	// Users of instances pass through it.
	dir, err := os.MkdirTemp("", "ingot-trio-")
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // nothing secret is in it
	}
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, "blobs"), 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for i, c := range configs {
		data := filepath.Join(dir, strconv.Itoa(i))
		if err := os.Mkdir(data, 0o711); err != nil { //nolint:gosec // users of instances pass through it
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(dir, "blobs"), filepath.Join(data, "blobs")); err != nil {
			t.Fatal(err)
		}
		c.DataDir = data
		s.wires[i], c.DatabaseURL = newWire(t, c.DatabaseURL)
		c.seams.cluster = func(o *cluster.Options) {
			o.Exclusive, o.Version, o.Beat, o.Valid = false, strconv.Itoa(i), 500*time.Millisecond, 6*time.Second
		}
		c.seams.engine = func(e engine.Engine) engine.Engine {
			if s.engine == nil {
				s.engine = e
			}
			return engine.Watched(sharedEngine{s.engine}, 0, 0)
		}
		c.seams.runtime = func(r *runtime) { s.runtimes[i] = r }
		for _, f := range change {
			f(&c)
		}
		system := startSystem(t, c)
		s.servers[i] = &faultySite{T: t, System: system, api: system.Endpoints().API}
	}
	t.Cleanup(s.clear)
	for _, f := range s.servers {
		f.token = clientToken(t, s.servers[0].System, "admin", "the secret")
	}
	return s
}

// clear removes what is left of the instances.
func (s *trio) clear() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all, err := s.engine.List(ctx, nil)
	for _, in := range all {
		if err := s.engine.Remove(ctx, in.ID); err != nil {
			s.Error(err)
		}
	}
	if err != nil {
		s.Error(err)
	}
}

// owner returns the number of the server that works on an app; -1 if none does.
func (s *trio) owner(app string) int {
	s.Helper()
	number := -1
	err := s.db.View(s.Context(), func(tx *db.Tx) error {
		var version string
		err := tx.QueryRow(
			"SELECT s.version FROM cluster_leases l JOIN cluster_servers s ON s.id = l.holder WHERE l.name = ?",
			fmt.Sprintf("shard-%02d", bits.TrailingZeros64(uint64(cluster.ShardOf(app))))).Scan(&version)
		if err == nil {
			number, err = strconv.Atoi(version)
		}
		return err
	})
	if err != nil && err != db.ErrNotFound { //nolint:errorlint // it is not wrapped
		s.Fatal(err)
	}
	return number
}

// instances returns the ids of all instances of apps that exist.
func (s *trio) instances() []string {
	s.Helper()
	all, err := s.engine.List(s.Context(), nil)
	if err != nil {
		s.Fatal(err)
	}
	var ids []string
	for _, in := range all {
		if in.Labels["kind"] == "app" {
			ids = append(ids, in.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// visit returns the status of a request to a route at a server.
func (s *trio) visit(server int, host string) int {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.servers[server].api+"/", nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Host = host
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// download requests the download of a blob at one server, and follows the link at another.
func (s *trio) download(path string, at, follow int) {
	s.Helper()
	// A transport follows no redirects.
	transport := &http.Transport{DisableKeepAlives: true}
	get := func(url, token string) *http.Response {
		req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, url, nil)
		if err != nil {
			s.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			s.Fatal(err)
		}
		res.Body.Close()
		return res
	}
	res := get(s.servers[at].api+path, s.servers[at].token)
	link, err := res.Location()
	if err != nil || res.StatusCode != http.StatusFound {
		s.Fatalf("%s: %d, %v, want a link", path, res.StatusCode, err)
	}
	if res := get(s.servers[follow].api+link.RequestURI(), ""); res.StatusCode != http.StatusOK {
		s.Errorf("the link of server %d to %s at server %d: %d, want 200", at, path, follow, res.StatusCode)
	}
}

// TestServersShareApps runs an app on three servers: each routes to it, one works on
// it, and when that one loses the database another takes over the running instance.
func TestServersShareApps(t *testing.T) {
	t.Parallel()
	s := startTrio(t)
	one := s.servers[0]
	org := one.create("/v3/organizations", map[string]any{"name": "o"})
	one.space = one.create("/v3/spaces", map[string]any{"name": "s", "relationships": to("organization", org)})
	app, pkg := one.app("shared")
	until(t, "owner", func() bool { return s.owner(app) >= 0 })
	if !one.build(app, pkg) {
		t.Fatal("the build failed, want a droplet")
	}
	domain := one.list("/v3/domains")[0]
	route := one.create("/v3/routes", map[string]any{"host": "shared", "relationships": merge(to("space", one.space),
		to("domain", domain["guid"].(string)))})
	one.ask(http.MethodPost, "/v3/routes/"+route+"/destinations",
		map[string]any{"destinations": []any{map[string]any{"app": map[string]string{"guid": app}}}})
	host := "shared." + domain["name"].(string)
	for i := range s.servers {
		// The answer waited until all servers have the route, which has no instance yet.
		if got := s.visit(i, host); got != http.StatusServiceUnavailable && got != http.StatusBadGateway &&
			got != http.StatusNotFound {
			t.Errorf("server %d, before the start: got %d", i, got)
		}
	}
	one.act(app, "start")
	reachable := func(what string, servers ...int) {
		t.Helper()
		for _, i := range servers {
			until(t, fmt.Sprintf("answer of the app through server %d, %s", i, what),
				func() bool { return s.visit(i, host) == http.StatusOK })
		}
	}
	reachable("after the start", 0, 1, 2)
	first := one.running(app)
	s.download("/v3/packages/"+pkg+"/download", 0, 2)

	// A server that does not work on the app can restart its instance.
	owner := s.owner(app)
	other := s.servers[(owner+1)%3]
	restart := func() {
		t.Helper()
		before := other.running(app)
		process := other.list("/v3/apps/" + app + "/processes?types=web")[0]["guid"].(string)
		if a := other.ask(http.MethodDelete, "/v3/processes/"+process+"/instances/0", nil); a.status != http.StatusNoContent {
			t.Fatalf("restart: %d, want 204: %s", a.status, a.body)
		}
		until(t, "new instance", func() bool { now := other.running(app); return now != "" && now != before })
		until(t, "end of the old instance", func() bool { return len(s.instances()) == 1 })
	}
	restart()
	second := other.running(app)
	if first == second {
		t.Errorf("the instance is still %s after a restart", first)
	}
	reachable("after a restart", 0, 1, 2)

	// The owner loses the database: another adopts the instance, and requests go on
	// through all three.
	s.wires[owner].cut()
	until(t, "another owner", func() bool { now := s.owner(app); return now >= 0 && now != owner })
	for i := range s.servers {
		if got := s.visit(i, host); got != http.StatusOK {
			t.Errorf("server %d, without the database: got %d, want 200", i, got)
		}
	}
	// A balancer must not take it away: without the database no server would be left.
	if a := call(t, http.MethodGet, s.servers[owner].api+"/readyz", "", nil); a.status != http.StatusOK ||
		!strings.Contains(a.body, `"degraded"`) || !strings.Contains(a.body, partDatabase) {
		t.Errorf("/readyz without the database: got %d %s, want 200 and degraded", a.status, a.body)
	}
	if got := s.instances(); len(got) != 1 || got[0] != second {
		t.Errorf("got instances %v after the takeover, want %s alone", got, second)
	}
	restart()
	third := other.running(app)

	// It comes back, and learns what happened.
	s.wires[owner].join()
	until(t, "readiness", func() bool {
		return strings.Contains(call(t, http.MethodGet, s.servers[owner].api+"/readyz", "", nil).body, `"ok"`)
	})
	reachable("when it is back", owner)
	if got := s.instances(); len(got) != 1 || got[0] != third {
		t.Errorf("got instances %v when the server was back, want %s alone", got, third)
	}
	s.servers[owner].act(app, "stop")
	until(t, "end of all instances", func() bool { return len(s.instances()) == 0 })

	// A server that stops gives its apps away.
	one.act(app, "start")
	reachable("when it was started again", 0, 1, 2)
	running := one.running(app)
	last := s.owner(app)
	s.servers[last].Stop()
	until(t, "owner after a stop", func() bool { now := s.owner(app); return now >= 0 && now != last })
	next := (last + 1) % 3
	if got := s.visit(next, host); got != http.StatusOK {
		t.Errorf("after the owner stopped: got %d, want 200", got)
	}
	if got := s.servers[next].running(app); got != running {
		t.Errorf("after the owner stopped: got instance %s, want %s", got, running)
	}
	s.servers[next].act(app, "stop")
	until(t, "end of all instances", func() bool { return len(s.instances()) == 0 })
}

// drainReceiver is a syslog server that remembers the lines of an app, by their number.
type drainReceiver struct {
	listener net.Listener
	mu       sync.Mutex
	lines    map[string]int // how often each was received
}

func newDrainReceiver(t *testing.T) *drainReceiver {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &drainReceiver{listener: l, lines: map[string]int{}}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.serve(c)
		}
	}()
	return r
}

func (r *drainReceiver) serve(c net.Conn) {
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		size, err := in.ReadString(' ')
		n, numberErr := strconv.Atoi(strings.TrimSpace(size))
		if err != nil || numberErr != nil {
			return
		}
		text := make([]byte, n)
		if _, err := io.ReadFull(in, text); err != nil {
			return
		}
		if _, line, ok := strings.Cut(string(text), "drained line "); ok {
			r.mu.Lock()
			r.lines[strings.TrimSpace(line)]++
			r.mu.Unlock()
		}
	}
}

// count returns how many lines were received, and how many of them more than once.
func (r *drainReceiver) count() (all, twice int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.lines {
		if n > 1 {
			twice++
		}
	}
	return len(r.lines), twice
}

// TestServersShareDrains: the drain of an app is one server's, and moves with the app when
// that server stops. Requests through any server count for the instance.
func TestServersShareDrains(t *testing.T) {
	t.Parallel()
	receiver := newDrainReceiver(t)
	s := startTrio(t, func(c *Config) {
		c.LogStore, c.DrainNetworks = logStorePostgres, "127.0.0.0/8"
		// A drain moves when its server stops, and not when the machine stands still.
		set := c.seams.cluster
		c.seams.cluster = func(o *cluster.Options) { set(o); o.Valid = time.Minute }
	})
	one := s.servers[0]
	org := one.create("/v3/organizations", map[string]any{"name": "o"})
	one.space = one.create("/v3/spaces", map[string]any{"name": "s", "relationships": to("organization", org)})
	app := one.create("/v3/apps", map[string]any{"name": "drained", "relationships": to("space", one.space)})
	until(t, "owner", func() bool { return s.owner(app) >= 0 })
	service := one.ask(http.MethodPost, "/v3/service_instances", map[string]any{
		"type": "user-provided", "name": "drain", "syslog_drain_url": "syslog://" + receiver.listener.Addr().String(),
		"relationships": to("space", one.space),
	}).json(t)["guid"].(string)
	if a := one.ask(http.MethodPost, "/v3/service_credential_bindings", map[string]any{
		"type": "app", "relationships": merge(to("app", app), to("service_instance", service)),
	}); a.status >= 300 {
		t.Fatalf("bind the drain: %d %s", a.status, a.body)
	}
	ready := func(servers ...int) {
		t.Helper()
		until(t, "drain of one server", func() bool {
			n := 0
			for _, i := range servers {
				for _, d := range s.runtimes[i].Drains.Stats() {
					if d.Ready {
						n++
					}
				}
			}
			return n == 1
		})
	}
	sent := 0
	write := func(server int) {
		t.Helper()
		for range 50 {
			line := platform.LogLine{App: app, Time: time.Now(), Source: "APP/PROC/WEB", Instance: "0",
				Text: fmt.Appendf(nil, "drained line %d", sent)}
			if err := s.runtimes[server].logs.Append(line); err != nil {
				t.Fatal(err)
			}
			sent++
		}
		until(t, "lines", func() bool { all, _ := receiver.count(); return all == sent })
	}
	ready(0, 1, 2)
	for i := range s.servers {
		write(i)
	}
	last := s.owner(app)
	s.servers[last].Stop()
	rest := slices.DeleteFunc([]int{0, 1, 2}, func(i int) bool { return i == last })
	ready(rest...)
	write(rest[0])
	if all, twice := receiver.count(); all != sent || twice != 0 {
		t.Errorf("%d lines arrived, %d of them twice, want %d once each", all, twice, sent)
	}

	// What both count is the same everywhere.
	for _, i := range rest {
		r := s.runtimes[i]
		if _, err := r.store.AddTraffic(t.Context(), map[string]platform.Traffic{"instance": {Requests: 3}}); err != nil {
			t.Fatal(err)
		}
	}
	for _, i := range rest {
		if got := s.runtimes[i].traffic.Traffic(t.Context(), "instance")["instance"].Requests; got != 6 {
			t.Errorf("server %d: got %d requests, want 6", i, got)
		}
	}
}
