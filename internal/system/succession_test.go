package system

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/server/handover"
	"ingot/internal/server/succession"
)

func startSuccession(t *testing.T, c Config, replace bool) (*succession.Succession[*System], error) {
	t.Helper()
	s, err := NewSuccession(c, succession.Process{Replace: replace, WhyNot: "this is a test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	err = s.Start(t.Context())
	return s, err
}

// keptOpen is a connection to the API on which one request follows another.
type keptOpen struct {
	conn net.Conn
	in   *bufio.Reader
}

func keepOpen(t *testing.T, s *System) *keptOpen {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.Endpoints().API, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &keptOpen{conn, bufio.NewReader(conn)}
}

// ask returns the status of a request, and whether the connection is closed after it.
func (k *keptOpen) ask(t *testing.T, path, token string) (status int, closed bool) {
	t.Helper()
	_ = k.conn.SetDeadline(time.Now().Add(time.Minute))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+k.conn.RemoteAddr().String()+path,
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "bearer "+token)
	if err := req.Write(k.conn); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(k.in, req)
	if err != nil {
		t.Fatalf("%s on a connection that was open before: %v", path, err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, res.Close
}

// TestSuccession: the next server has the same addresses and data, and serves the API
// requests that arrive on connections of the first.
func TestSuccession(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	first, err := startSuccession(t, c, true) // there is none to replace
	if err != nil {
		t.Fatal(err)
	}
	before := first.Current().Endpoints()
	token, open := adminToken(t, first.Current()), keepOpen(t, first.Current())
	if status, closed := open.ask(t, "/v3/organizations", token); status != http.StatusOK || closed {
		t.Fatalf("before: %d, closed %t", status, closed)
	}
	second, err := startSuccession(t, c, true)
	if err != nil {
		t.Fatal(err)
	}
	if now := second.Current().Endpoints(); now != before {
		t.Errorf("endpoints are %+v, want %+v", now, before)
	}
	if status, closed := open.ask(t, "/v3/organizations", token); status != http.StatusOK || !closed {
		t.Errorf("on the connection of the first: %d, closed %t, want 200 and that it is closed", status, closed)
	}
	<-first.Over()
	if first.Err() != nil {
		t.Error(first.Err())
	}
	if a := call(t, http.MethodPost, before.API+"/v3/organizations", token,
		map[string]any{"name": "after"}); a.status != http.StatusCreated {
		t.Errorf("a write after the handover: %d %s", a.status, a.body)
	}
	if _, err := os.Stat(filepath.Join(c.DataDir, endpointsFile)); err != nil {
		t.Errorf("the first removed the endpoints of the second: %v", err)
	}
	if _, err := handover.Reload(t.Context(), c.DataDir); err == nil || !strings.Contains(err.Error(), "this is a test") {
		t.Errorf("reload: %v, want the reason why it is not possible", err)
	}
	// Without --replace a second server is refused.
	if _, err := startSuccession(t, c, false); err == nil || !strings.Contains(err.Error(), "replace it with --replace") {
		t.Errorf("a second server: %v, want a refusal", err)
	}
}

// damagedFiles replaces a server while files that it would have to read again are
// damaged: it does not stop for that.
func damagedFiles(t *testing.T, c Config, first *succession.Succession[*System]) {
	t.Helper()
	running := first.Current()
	record, missing := filepath.Join(c.DataDir, "engine.json"), filepath.Join(t.TempDir(), "missing")
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(want string, change func(*Config)) {
		t.Helper()
		bad := c
		change(&bad)
		var err error
		testkit.Eventually(t, "the attempt before is over", func() bool {
			_, err = startSuccession(t, bad, true)
			return err == nil || !strings.Contains(err.Error(), "already being replaced")
		})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if first.Current() != running {
			t.Errorf("%s: the first has stopped its parts", want)
		}
	}
	refused("does not say which engine", func(*Config) {})
	if err := os.WriteFile(record, text, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("--dkim-key: ", func(c *Config) {
		c.SMTPURL, c.DKIMSelector, c.DKIMKeyFile = "smtp://127.0.0.1:1",
			"x", missing
	})
	refused("--tls-cert: ", func(c *Config) { c.TLSListen, c.TLSCerts, c.TLSKeys = "127.0.0.1:0", missing, missing })
	refused("encryption key", func(c *Config) { c.EncryptionKey = "no key" })
}

// TestSuccessionFails: if the next server does not start, the first continues, also with the
// connections that it has.
func TestSuccessionFails(t *testing.T) {
	t.Parallel()
	c := testConfig(t)
	first, err := startSuccession(t, c, false)
	if err != nil {
		t.Fatal(err)
	}
	beginning := first.Current()
	token, open := adminToken(t, beginning), keepOpen(t, beginning)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for name, change := range map[string]func(*Config){
		"before it yields": func(c *Config) { c.NotificationsListen = taken.Addr().String() },
		"after it yielded": func(c *Config) { c.DatabaseURL = "sqlite:/nonexistent/ingot.db" },
	} {
		bad := c
		change(&bad)
		if _, err := startSuccession(t, bad, true); err == nil {
			t.Fatalf("%s: it started", name)
		}
		testkit.Eventually(t, name+": the first serves again", func() bool {
			status, closed := open.ask(t, "/v3/organizations", token)
			if closed {
				open = keepOpen(t, first.Current())
			}
			return status == http.StatusOK
		})
	}
	testkit.Eventually(t, "the first has started its parts again", func() bool { return first.Current() != beginning })
	damagedFiles(t, c, first)
	if a := call(t, http.MethodPost, beginning.Endpoints().API+"/v3/organizations", token,
		map[string]any{"name": "after"}); a.status != http.StatusCreated {
		t.Errorf("a write after the failures: %d %s", a.status, a.body)
	}
	if _, err := startSuccession(t, c, true); err != nil {
		t.Errorf("the next attempt: %v", err)
	}
	<-first.Over()
	if first.Err() != nil {
		t.Error(first.Err())
	}
}
