package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"ingot/internal/base/seal"
)

// tempDir returns a directory that other users can enter.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-broker-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil { //nolint:gosec // nothing secret is in it
		t.Fatal(err)
	}
	return dir
}

func testKeys(t testing.TB) *seal.Keyring {
	t.Helper()
	keys, err := seal.Parse(seal.NewKey())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// testLog writes to the test's log, and records it to search for secrets.
type testLog struct {
	mu  sync.Mutex
	all bytes.Buffer
}

func (l *testLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *testLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

func newLog() (*slog.Logger, *testLog) {
	l := &testLog{}
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug})), l
}

// started returns a broker that runs until the end of the test.
func started(t testing.TB, c Config) *Broker {
	t.Helper()
	if c.Dir == "" {
		c.Dir = tempDir(t)
	}
	if c.Keys == nil {
		c.Keys = testKeys(t)
	}
	log, said := newLog()
	if c.Log == nil {
		c.Log = log
	}
	b, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Start(context.Background()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Stop()
		if t.Failed() {
			t.Logf("the broker's log:\n%s", said)
		}
	})
	return b
}

// checkSizes checks the sizes of all instances. Other than the broker, it waits until each is free.
func checkSizes(t testing.TB, b *Broker) {
	t.Helper()
	for _, id := range b.state.ids() {
		release, err := b.state.acquire(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		err = b.checkHeld(t.Context(), id)
		release()
		if err != nil {
			t.Error(err)
		}
	}
}

// client calls a broker as the platform does.
type client struct {
	t        testing.TB
	url      string
	user     string
	password string
}

func clientOf(t testing.TB, b *Broker) *client {
	return &client{t: t, url: b.URL(), user: Username, password: b.Password()}
}

// try sends a request. It returns an error only if the connection fails.
func (c *client) try(method, path string, body any) (int, map[string]any, error) {
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequest(method, c.url+path, content)
	if err != nil {
		return 0, nil, err
	}
	r.SetBasicAuth(c.user, c.password)
	r.Header.Set("X-Broker-API-Version", "2.17")
	r.Header.Set("Content-Type", "application/json")
	resp, err := testHTTP.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	var answer map[string]any
	text, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	return resp.StatusCode, answer, err
}

var testHTTP = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

func (c *client) do(want int, method, path string, body any) map[string]any {
	c.t.Helper()
	status, answer, err := c.try(method, path, body)
	if err != nil || status != want {
		c.t.Fatalf("%s %s: %d, %v, %v; want %d", method, path, status, answer, err, want)
	}
	return answer
}

func ids(name, planName string) (service, planID string) {
	o, ok := offeringNamed(name)
	if !ok {
		panic("no offering " + name)
	}
	for _, p := range o.plans {
		if p.name == planName {
			return o.id, p.id
		}
	}
	panic("no plan " + planName)
}

func instanceBody(name, planName string) map[string]any {
	service, planID := ids(name, planName)
	return map[string]any{"service_id": service, "plan_id": planID, "organization_guid": "o", "space_guid": "s",
		"context": map[string]any{"platform": "cloudfoundry"}}
}

func query(name, planName string) string {
	service, planID := ids(name, planName)
	return "?service_id=" + service + "&plan_id=" + planID
}

// made creates an instance that is deleted at the end of the test.
func (c *client) made(name, planName string) string {
	c.t.Helper()
	id := uuid.NewString()
	c.do(http.StatusCreated, http.MethodPut, "/v2/service_instances/"+id, instanceBody(name, planName))
	return id
}

// creds are the credentials of a binding, as an app gets them.
type creds struct {
	Host, Hostname, Database, Name, Username, Password, URI string
	JDBC                                                    string `json:"jdbcUrl"`
	Port                                                    int
}

func (c *client) bound(name, instanceID string) (id string, got creds) {
	c.t.Helper()
	id = uuid.NewString()
	answer := c.do(http.StatusCreated, http.MethodPut, bindingPath(instanceID, id), bindBody(name, "small", "app-"+id))
	return id, readCreds(c.t, answer)
}

func bindBody(name, planName, app string) map[string]any {
	service, planID := ids(name, planName)
	return map[string]any{"service_id": service, "plan_id": planID, "bind_resource": map[string]any{"app_guid": app}}
}

func bindingPath(instanceID, id string) string {
	return "/v2/service_instances/" + instanceID + "/service_bindings/" + id
}

func readCreds(t testing.TB, answer map[string]any) (c creds) {
	t.Helper()
	text, err := json.Marshal(answer["credentials"])
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || c.Host == "" || c.Port == 0 || c.Database == "" || c.Username == "" || len(c.Password) < 40 ||
		!strings.Contains(c.URI, c.Password) || !strings.HasPrefix(c.JDBC, "jdbc:") {
		t.Fatalf("credentials: %s, %v", text, err)
	}
	return c
}

func (c creds) address() string { return fmt.Sprintf("%s:%d", c.Host, c.Port) }

// shared is a broker for all tests that do not stop its servers.
var shared struct {
	sync.Mutex
	broker *Broker
	dir    string
	log    *testLog
}

func sharedBroker(t testing.TB) *Broker {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.broker != nil {
		return shared.broker
	}
	dir, err := os.MkdirTemp("", "ingot-broker-")
	if err == nil {
		err = os.Chmod(dir, 0o711) //nolint:gosec // nothing secret is in it
	}
	if err != nil {
		t.Fatal(err)
	}
	var log *slog.Logger
	log, shared.log = newLog()
	b, err := New(Config{Dir: dir, Keys: testKeys(t), Log: log})
	if err == nil {
		err = b.Start(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
	shared.broker, shared.dir = b, dir
	return b
}

func TestMain(m *testing.M) {
	if os.Getenv(victimVariable) != "" {
		victim()
	}
	code := m.Run()
	if shared.broker != nil {
		shared.broker.Stop()
		os.RemoveAll(shared.dir)
	}
	os.Exit(code)
}

// need skips the test when an offering's server is not installed.
func need(t testing.TB, b *Broker, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := b.Missing()[name]; err != nil {
			t.Skip(err)
		}
	}
}
