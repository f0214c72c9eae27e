package system

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/faulttest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify/channeltest"
	"ingot/internal/notify/delivery"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/services/brokertest"
)

// inMemory carries requests to a handler, whatever their host is.
type inMemory struct{ http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	r = r.Clone(r.Context())
	if r.Body == nil {
		r.Body = http.NoBody
	}
	m.ServeHTTP(w, r)
	return w.Result(), nil
}

// faultySite is a server with apps, a broker and mail, all of them with faults.
type faultySite struct {
	*testing.T
	*System
	faults *faulttest.Faults
	api    string
	token  string
	mailer string // a token
	space  string
	plan   string
}

const (
	hungAfter = 10 * time.Second       // a call of an engine, which is far more than it takes
	hungGrace = 200 * time.Millisecond // to come back after that
	settled   = 3 * time.Minute        // until everything is as wanted
)

// passableDir returns a data directory that the users of instances can pass through.
func passableDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-faults-")
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // nothing secret is in it
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "data")
}

func startFaulty(t *testing.T, seed uint64) *faultySite {
	t.Helper()
	dir := passableDir(t)
	f := &faultySite{T: t, faults: faulttest.New(seed)}
	broker := &brokertest.Broker{}
	c := testConfig(t)
	c.DataDir, c.BrokerTimeout = dir, time.Second
	c.seams.engine = func(e engine.Engine) engine.Engine {
		return engine.Watched(enginetest.Faulty(e, f.faults), hungAfter, hungGrace)
	}
	c.seams.broker = func(http.RoundTripper) http.RoundTripper { return f.faults.Transport(inMemory{broker}) }
	c.seams.delivery = func(o *delivery.Options) {
		o.Channel, o.Patience = channeltest.Faulty(o.Channel, f.faults), hungAfter
		o.Schedule = delivery.Schedule{First: 20 * time.Millisecond, Longest: 200 * time.Millisecond, Attempts: 1000}
	}
	f.begin(c)
	return f
}

// begin starts the server and creates a space, a broker's catalog and a client for mail.
func (f *faultySite) begin(c Config) {
	f.Helper()
	f.System = startSystem(f.T, c)
	f.Cleanup(f.faults.End) // before the stop, whatever happens
	f.api, f.token = f.Endpoints().API, adminToken(f.T, f.System)
	org := f.create("/v3/organizations", map[string]any{"name": "faulty"})
	f.space = f.create("/v3/spaces", map[string]any{"name": "faulty", "relationships": to("organization", org)})
	a := f.ask(http.MethodPost, "/v3/service_brokers", map[string]any{"name": "fake", "url": "http://broker.example.org",
		"authentication": map[string]any{
			"type": "basic", "credentials": map[string]string{"username": brokertest.Username, "password": brokertest.Password},
		}})
	if a.status != http.StatusAccepted {
		f.Fatalf("register the broker: %d %s", a.status, a.body)
	}
	testkit.Eventually(f, "the catalog is there", func() bool {
		found := f.list("/v3/service_plans?names=" + brokertest.Async)
		if len(found) == 1 {
			f.plan = found[0]["guid"].(string)
		}
		return f.plan != ""
	})
	f.openMail()
}

func to(noun, guid string) map[string]any {
	return map[string]any{noun: map[string]any{"data": map[string]string{"guid": guid}}}
}

func (f *faultySite) ask(method, path string, body any) answer {
	f.Helper()
	return call(f.T, method, f.api+path, f.token, body)
}

func (f *faultySite) create(path string, body any) string {
	f.Helper()
	a := f.ask(http.MethodPost, path, body)
	guid, _ := a.json(f.T)["guid"].(string)
	if a.status != http.StatusCreated {
		f.Fatalf("POST %s: %d %s", path, a.status, a.body)
	}
	return guid
}

func (f *faultySite) list(path string) []map[string]any {
	f.Helper()
	a := f.ask(http.MethodGet, path, nil)
	if a.status != http.StatusOK {
		f.Fatalf("GET %s: %d %s", path, a.status, a.body)
	}
	var all []map[string]any
	for _, r := range a.json(f.T)["resources"].([]any) {
		all = append(all, r.(map[string]any))
	}
	return all
}

func (f *faultySite) openMail() {
	f.Helper()
	const secret = "a long enough secret"
	a := f.ask(http.MethodPost, "/oauth/clients", map[string]any{
		"client_id": "mailer", "client_secret": secret, "authorized_grant_types": []string{"client_credentials"},
		"authorities": []string{"notifications.manage", "notifications.write", "emails.write"},
	})
	if a.status != http.StatusCreated {
		f.Fatalf("create the client: %d %s", a.status, a.body)
	}
	f.mailer = clientToken(f.T, f.System, "mailer", secret)
	a = call(f.T, http.MethodPut, f.Endpoints().Notifications+"/notifications", f.mailer, map[string]any{
		"source_name": "faults", "notifications": map[string]any{"kind": map[string]any{"description": "kind"}},
	})
	if a.status != http.StatusNoContent {
		f.Fatalf("register the kind: %d %s", a.status, a.body)
	}
}

// send returns the id of a message.
func (f *faultySite) send() string {
	f.Helper()
	a := call(f.T, http.MethodPost, f.Endpoints().Notifications+"/emails", f.mailer, map[string]any{
		"kind_id": "kind", "to": "somebody@example.org", "subject": "s", "text": "t",
	})
	start := strings.Index(a.body, `"notification_id":"`)
	if a.status != http.StatusOK || start < 0 {
		f.Fatalf("send: %d %s", a.status, a.body)
	}
	id, _, _ := strings.Cut(a.body[start+len(`"notification_id":"`):], `"`)
	return id
}

// app makes an app with a package.
func (f *faultySite) app(name string) (guid, pkg string) {
	f.Helper()
	guid = f.create("/v3/apps", map[string]any{"name": name, "relationships": to("space", f.space),
		"lifecycle": map[string]any{
			"type": "buildpack", "data": map[string]any{"buildpacks": []string{"staticfile_buildpack"}},
		}})
	pkg = f.create("/v3/packages", map[string]any{"type": "bits", "relationships": to("app", guid)})
	if a := f.uploadApp(pkg); a.status != http.StatusOK {
		f.Fatalf("upload: %d %s", a.status, a.body)
	}
	return guid, pkg
}

// uploadApp uploads the files of an app.
func (f *faultySite) uploadApp(pkg string) answer {
	f.Helper()
	var bits bytes.Buffer
	z := zip.NewWriter(&bits)
	for _, name := range []string{"Staticfile", "index.html"} {
		if _, err := z.Create(name); err != nil {
			f.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		f.Fatal(err)
	}
	return f.upload("/v3/packages/"+pkg+"/upload", "app.zip", bits.Bytes())
}

// build stages a package and reports whether there is a droplet. Every build
// comes to an end.
func (f *faultySite) build(app, pkg string) bool {
	f.Helper()
	guid := f.create("/v3/builds", map[string]any{"package": map[string]string{"guid": pkg}})
	var state, droplet string
	testkit.Eventually(f, "build "+guid+" ends", func() bool {
		b := f.ask(http.MethodGet, "/v3/builds/"+guid, nil).json(f.T)
		state = b["state"].(string)
		if d, ok := b["droplet"].(map[string]any); ok {
			droplet = d["guid"].(string)
		}
		return state != "STAGING"
	})
	if state != "STAGED" {
		return false
	}
	a := f.ask(http.MethodPatch, "/v3/apps/"+app+"/relationships/current_droplet",
		map[string]any{"data": map[string]string{"guid": droplet}})
	if a.status != http.StatusOK {
		f.Fatalf("set the droplet: %d %s", a.status, a.body)
	}
	return true
}

// running returns the guid of the one instance of an app, if it runs.
func (f *faultySite) running(app string) string {
	f.Helper()
	for _, p := range f.list("/v3/apps/" + app + "/processes?types=web") {
		a := f.ask(http.MethodGet, "/v3/processes/"+p["guid"].(string)+"/stats", nil)
		for _, s := range a.json(f.T)["resources"].([]any) {
			if row := s.(map[string]any); row["state"] == "RUNNING" {
				return fmt.Sprint(row["instance_guid"])
			}
		}
	}
	return ""
}

func (f *faultySite) act(app, action string) {
	f.Helper()
	if a := f.ask(http.MethodPost, "/v3/apps/"+app+"/actions/"+action, nil); a.status != http.StatusOK {
		f.Fatalf("%s answers %d, want 200: %s", action, a.status, a.body)
	}
}

// answers asks the server all the time until ctx ends, and returns how often it
// was asked and what it did not answer well.
func (f *faultySite) answers(ctx context.Context) (asked int, bad []string) {
	client := &http.Client{Timeout: time.Minute}
	defer client.CloseIdleConnections()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for _, path := range []string{"/readyz", "/v3/apps", "/v3/organizations"} {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.api+path, nil)
			if err != nil {
				return asked, append(bad, err.Error())
			}
			req.Header.Set("Authorization", "bearer "+f.token)
			res, err := client.Do(req)
			if ctx.Err() != nil {
				return asked, bad
			}
			asked++
			if err != nil {
				bad = append(bad, err.Error())
				continue
			}
			_, _ = io.Copy(io.Discard, res.Body)
			res.Body.Close()
			if res.StatusCode != http.StatusOK {
				bad = append(bad, path+" "+res.Status)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	return asked, bad
}

// TestSoakFaults has faults in every call of the engine (also those of staging),
// of a broker and of the channel for mail: errors, panics, and calls that hang,
// some whatever their context says. The server answers throughout, nothing loops,
// an app that is not changed continues, and when the faults end everything comes to
// what is wanted. With INGOT_SOAK=1 it takes minutes.
func TestSoakFaults(t *testing.T) { //nolint:tparallel // one round after the other
	t.Parallel()
	steps, rounds := 25, 1
	if os.Getenv("INGOT_SOAK") == "1" {
		steps, rounds = 150, 5
	}
	for round := range rounds { //nolint:paralleltest // each is a whole server under load
		seed := rand.Uint64() //nolint:gosec // not a secret
		t.Run(fmt.Sprintf("round %d", round), func(t *testing.T) {
			t.Logf("seed %d", seed)
			faults(t, seed, steps)
		})
	}
}

func faults(t *testing.T, seed uint64, steps int) {
	f := startFaulty(t, seed)
	steady, pkg := f.app("steady")
	// On a machine that is busy a call may take as long as one that hangs.
	testkit.Eventually(f, "a droplet without faults", func() bool { return f.build(steady, pkg) })
	f.act(steady, "start")
	var instance string
	testkit.Eventually(f, "the steady app runs", func() bool { instance = f.running(steady); return instance != "" })
	type pushed struct{ guid, pkg string }
	var busy []pushed
	for i := range 3 {
		guid, pkg := f.app(fmt.Sprintf("busy-%d", i))
		testkit.Eventually(f, "a droplet without faults", func() bool { return f.build(guid, pkg) })
		busy = append(busy, pushed{guid, pkg})
	}

	before, began := total(background.Panics()), time.Now()
	calls := total(f.faults.Calls())
	watching, stop := context.WithCancel(t.Context())
	type watch struct {
		asked int
		bad   []string
	}
	watched := make(chan watch, 1)
	go func() {
		asked, bad := f.answers(watching)
		watched <- watch{asked, bad}
	}()
	kinds := []faulttest.Kind{faulttest.Error, faulttest.Panic, faulttest.Hang, faulttest.Stuck}
	f.faults.Begin(0.3, slices.Concat(kinds, kinds[:2], kinds[:2])...) // those that hang take long
	chance := rand.New(rand.NewPCG(seed, 1))                           //nolint:gosec // not a secret
	var messages []string
	for i := 0; i < steps || i < 10*steps && len(f.faults.Made()) < len(kinds); i++ {
		app := busy[chance.IntN(len(busy))]
		switch what := i % 8; what {
		case 0, 1:
			f.act(app.guid, "restart")
		case 2:
			f.act(app.guid, "stop")
			f.act(app.guid, "start")
		case 3:
			f.build(app.guid, app.pkg)
		case 4:
			f.ask(http.MethodPost, "/v3/apps/"+app.guid+"/tasks", map[string]any{"command": "true", "memory_in_mb": 64})
		case 5:
			f.ask(http.MethodPost, "/v3/service_instances", map[string]any{
				"type": "managed", "name": fmt.Sprintf("service-%d", i), "relationships": merge(to("space", f.space),
					to("service_plan", f.plan)),
			})
		case 6:
			for _, s := range f.list("/v3/service_instances") {
				// or another time: one operation at a time
				f.ask(http.MethodDelete, "/v3/service_instances/"+s["guid"].(string), nil)
			}
		case 7:
			messages = append(messages, f.send(), f.send())
			f.running(steady) // asks for its usage, too
		}
	}
	during, made := time.Since(began), f.faults.Made()
	rate := float64(total(f.faults.Calls())-calls) / during.Seconds()
	f.faults.End()
	stop()
	w := <-watched
	t.Logf("%s with %v faults; %.0f calls a second: %v; %d requests beside", during.Round(time.Millisecond), made, rate,
		f.faults.Calls(), w.asked)
	if len(w.bad) > 0 || w.asked == 0 {
		t.Errorf("the server did not answer throughout: %d of %d: %v", len(w.bad), w.asked, w.bad[:min(5, len(w.bad))])
	}
	for _, kind := range kinds {
		if made[kind] == 0 {
			t.Errorf("no fault was of the kind %s", kind)
		}
	}
	if got := total(background.Panics()) - before; got < uint64(made[faulttest.Panic]) { //nolint:gosec // not negative
		t.Errorf("%d panics were counted, %d were made", got, made[faulttest.Panic])
	}
	if a := call(t, http.MethodGet, f.Endpoints().Admin+"/metrics", "",
		nil); !strings.Contains(a.body, "ingot_panics_total{part=") {
		t.Error("the metrics tell of no panic")
	}
	if rate > 200 {
		t.Errorf("%.0f calls a second: something loops", rate)
	}

	// Everything comes to what is wanted.
	if now := f.running(steady); now != instance {
		t.Errorf("the app that was not changed has the instance %q, was %q", now, instance)
	}
	for _, app := range busy {
		testkit.Eventually(f, "a build works again", func() bool { return f.build(app.guid, app.pkg) })
		f.act(app.guid, "restart")
	}
	for _, app := range busy {
		testkit.Eventually(f, "app "+app.guid+" runs", func() bool { return f.running(app.guid) != "" })
	}
	testkit.Eventually(f, "no task is under way",
		func() bool { return len(f.list("/v3/tasks?states=PENDING,RUNNING,CANCELING")) == 0 })
	testkit.Eventually(f, "all messages are delivered", func() bool {
		messages = slices.DeleteFunc(messages, func(id string) bool {
			return strings.Contains(call(t, http.MethodGet, f.Endpoints().Notifications+"/messages/"+id, f.mailer, nil).body, `"status":"delivered"`)
		})
		return len(messages) == 0
	})
	testkit.Eventually(f, "all service instances are deleted", func() bool {
		left := f.list("/v3/service_instances")
		for _, s := range left {
			f.ask(http.MethodDelete, "/v3/service_instances/"+s["guid"].(string), nil)
		}
		return len(left) == 0
	})
	f.halt(busy[0].guid)
}

// end stops an app, and waits until no instance of the server is left.
func (f *faultySite) end(app string) {
	f.Helper()
	f.act(app, "stop")
	testkit.Eventually(f, "all instances are gone", func() bool {
		left, _ := filepath.Glob(filepath.Join(f.config.DataDir, "processes", "????????-*"))
		return len(left) == 0
	})
}

// halt sees that the server stops although every call of the engine is stuck.
func (f *faultySite) halt(app string) {
	f.Helper()
	for _, a := range f.list("/v3/apps") {
		if guid := a["guid"].(string); guid != app {
			f.ask(http.MethodDelete, "/v3/apps/"+guid, nil)
		}
	}
	f.end(app)
	f.faults.Begin(1, faulttest.Stuck)
	before := f.faults.Made()[faulttest.Stuck]
	f.act(app, "start")
	testkit.Eventually(f, "calls of the engine are stuck",
		func() bool { return f.faults.Made()[faulttest.Stuck] > before })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Stop()
	}()
	select {
	case <-ended:
	case <-time.After(settled):
		f.Error("the server does not stop while calls of the engine hang")
	}
	f.faults.End()
	<-ended
}

func total[N int | uint64](counts map[string]N) (sum N) {
	for _, n := range counts {
		sum += n
	}
	return sum
}

func merge(all ...map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}
