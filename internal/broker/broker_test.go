package broker

import (
	"bytes"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/broker/check"
)

func kill(t testing.TB, pid int) {
	t.Helper()
	if pid <= 1 {
		t.Fatalf("pid %d", pid)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

func TestHonoursTheContract(t *testing.T) {
	t.Parallel()
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		b, err := New(Config{Dir: tempDir(t), Keys: testKeys(t)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	})
}

// The bundled broker conforms to the API.
func TestConforms(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	report, err := check.Run(t.Context(), check.Options{URL: b.URL(), Username: Username, Password: b.Password(),
		Poll: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	report.Write(&out)
	if !report.OK() || report.Warned > 0 {
		t.Errorf("the bundled broker:\n%s", &out)
	}
	tried := map[string]bool{}
	for _, r := range report.Results {
		tried[r.Subject] = true
	}
	for _, name := range []string{Postgres, MySQL, Redis} {
		if b.Missing()[name] == nil && !tried[name+" small"] {
			t.Errorf("%s was not tried:\n%s", name, &out)
		}
	}
}

func TestEntrance(t *testing.T) {
	t.Parallel()
	b := started(t, Config{Without: []string{Postgres, MySQL, Redis}})
	c := clientOf(t, b)
	if got := c.do(http.StatusOK, http.MethodGet, "/v2/catalog", nil); len(got["services"].([]any)) != 0 {
		t.Errorf("offered without servers: %v", got)
	}
	if len(b.Missing()) != 4 {
		t.Errorf("missing: %v", b.Missing())
	}
	wrong := *c
	wrong.password = "guess"
	for range 3 {
		wrong.do(http.StatusUnauthorized, http.MethodGet, "/v2/catalog", nil)
	}
	b.guard.mu.Lock()
	misses := b.guard.misses
	b.guard.mu.Unlock()
	if misses != 3 {
		t.Errorf("%d misses were counted", misses)
	}
	c.do(http.StatusOK, http.MethodGet, "/v2/catalog", nil) // the right password is not delayed
	c.do(http.StatusBadRequest, http.MethodPut, "/v2/service_instances/x", []int{1})
	c.do(http.StatusBadRequest, http.MethodPut, "/v2/service_instances/x", map[string]any{"service_id": 1})
	c.do(http.StatusBadRequest, http.MethodPut, "/v2/service_instances/x", map[string]any{"service_id": "a",
		"parameters": "b"})
	c.do(http.StatusRequestEntityTooLarge, http.MethodPut, "/v2/service_instances/x",
		map[string]any{"service_id": strings.Repeat("x", maxBody)})
	host, _, err := net.SplitHostPort(strings.TrimPrefix(b.URL(), "http://"))
	if err != nil || !net.ParseIP(host).IsLoopback() {
		t.Errorf("it listens on %s, %v", b.URL(), err)
	}
}

func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, Redis)
	c := clientOf(t, b)
	id := c.made(Redis, "small")
	_, got := c.bound(Redis, id)
	err := filepath.WalkDir(filepath.Join(shared.dir, "broker"), func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return nil //nolint:nilerr // another test removed it meanwhile
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		if e.IsDir() {
			return nil
		}
		content, err := os.ReadFile(path)
		for _, secret := range []string{got.Password, b.Password(), string(b.secret)} {
			if err == nil && bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s holds a secret", path)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	c.deprovision(Redis, "small", id)
	if _, err := New(Config{Dir: shared.dir, Keys: testKeys(t)}); err == nil {
		t.Error("another key opens the secret")
	}
}

func TestABrokenRecordIsSaid(t *testing.T) {
	t.Parallel()
	dir := tempDir(t)
	path := filepath.Join(dir, "broker", "instances", "x.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Dir: dir, Keys: testKeys(t)}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("error is %v, want one that names %s", err, path)
	}
}

// Concurrent requests: each gets a response, and nothing is created twice.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	b := sharedBroker(t)
	need(t, b, Postgres)
	c := clientOf(t, b)
	id, bid := uuid.NewString(), uuid.NewString()
	at := func(want string, f func() int) {
		var all sync.WaitGroup
		statuses := make([]int, 6)
		for n := range statuses {
			all.Go(func() { statuses[n] = f() })
		}
		all.Wait()
		count := map[int]int{}
		for _, s := range statuses {
			count[s]++
		}
		if count[http.StatusCreated] > 1 || len(count) > 2 || count[0] > 0 {
			t.Errorf("%s: statuses are %v, want at most one 201 and one other status", want, count)
		}
	}
	at("one made", func() int {
		s, _, _ := c.try(http.MethodPut, "/v2/service_instances/"+id, instanceBody(Postgres, "small"))
		return s
	})
	at("one bound", func() int {
		s, _, _ := c.try(http.MethodPut, bindingPath(id, bid), bindBody(Postgres, "small", "a"))
		return s
	})
	at("one removed", func() int {
		s, _, _ := c.try(http.MethodDelete, "/v2/service_instances/"+id+query(Postgres, "small"), nil)
		return s
	})
}
