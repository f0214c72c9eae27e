package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"ingot/internal/base/testkit"
)

// TestUpgrade replaces a server with running apps by one of another version, under
// load.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) { upgradeUnderLoad(t, s, 2) })
}

// TestUpgradeSoak does the same many times.
func TestUpgradeSoak(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
	onEngines(t, func(t *testing.T, s *site) { upgradeUnderLoad(t, s, 50) })
}

// otherVersion returns a program that is the tested one with another version, and that
// version. The version of a build without one cannot be changed; then it is the same.
func otherVersion(t testing.TB) (path, version string) {
	t.Helper()
	out, err := exec.Command(program(t), "version").Output() //nolint:noctx // it prints a line
	if err != nil {
		t.Fatal(err)
	}
	version = strings.Fields(string(out))[1]
	text, err := os.ReadFile(program(t))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(text, []byte(version)) {
		other := version[:len(version)-1] + "x"
		text, version = bytes.ReplaceAll(text, []byte(version), []byte(other)), other
	}
	dir := t.TempDir()
	path = filepath.Join(dir, "ingot")
	if err := os.WriteFile(path, text, 0o755); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	for _, beside := range []string{"ingot-init", "ingot-builder", "ingot-static", "ingot-sftp"} {
		if err := os.Symlink(filepath.Join(filepath.Dir(program(t)), beside), filepath.Join(dir, beside)); err != nil {
			t.Fatal(err)
		}
	}
	return path, version
}

// replace starts a program that takes over from the server. It returns the process
// before, which may still serve connections.
func (s *site) replace(t *testing.T, path string) (before *process) {
	t.Helper()
	before = s.process
	s.process = runProgram(t, path, s.options.Env, append(s.args(), "--replace")...)
	s.awaitEndpoints(t)
	testkit.Eventually(t, "the new process has taken over", func() bool {
		if s.ended() {
			t.Fatalf("the new process ended with code %d\n%s", s.Cmd.ProcessState.ExitCode(), s.Stderr)
		}
		return strings.Contains(before.Stderr.String(), "another process has taken over")
	})
	return before
}

// upgradeUnderLoad replaces the server n times, by the other and by the tested version.
func upgradeUnderLoad(t *testing.T, s *site, n int) {
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady", "--no-start")...)
	cfOK(t, home, "set-env", "steady", "NUMBERS", "5ms")
	cfOK(t, home, "start", "steady")
	cfOK(t, home, "push", "talker", "-p", talker(t), "-b", "binary_buildpack", "-c", "./talker", "-m", "128M",
		"-k", "128M")
	app := guid(t, home, "steady")
	instance := s.running(t, app, 1)[0]
	s.running(t, guid(t, home, "talker"), 1)
	other, version := otherVersion(t)

	l, lines := s.press(t, app), s.checkLog(app, instance)
	l.more(t, 500)
	lines.read(t) // the next one begins here
	for i := range n {
		path := other
		if i%2 == 1 {
			path = program(t)
		}
		echo := s.openEcho(t)
		echo.says(t, "before")
		before := s.replace(t, path)
		echo.says(t, "after") // the process before still serves it
		l.more(t, 500)
		if now := s.running(t, app, 1)[0]; now != instance {
			t.Fatalf("instance %s after the upgrade, %s before it", now, instance)
		}
		if got := s.call(t, http.MethodGet, "/", "", nil); path == other && i == 0 {
			t.Logf("version %s answers: %s", version, got)
		}
		echo.close(t)
		lines.read(t)
		s.client.CloseIdleConnections()
		if code := before.wait(t); code != 0 {
			t.Fatalf("the process before ended with code %d, want 0\n%s", code, before.Stderr)
		}
	}
	l.more(t, 500)
	asked, written := l.end(t)
	lines.end(t, asked)
	// Nothing that was acknowledged is lost.
	var found struct {
		Metadata struct{ Annotations map[string]string }
	}
	s.call(t, http.MethodGet, "/v3/apps/"+app, s.adminToken(t), nil).into(t, &found)
	if got := found.Metadata.Annotations["last"]; got != written {
		t.Errorf("the annotation is %q, want the last that was acknowledged, %q", got, written)
	}
}

// logCheck checks that the log of an app has every line. A log keeps less than a long test
// writes, so it is read now and then.
type logCheck struct {
	s             *site
	app, instance string
	number        int64           // up to which the app's own lines were seen
	access        map[string]bool // requests whose line was seen
}

func (s *site) checkLog(app, instance string) *logCheck {
	return &logCheck{s: s, app: app, instance: instance, access: map[string]bool{}}
}

// read waits until the log has what the app has written up to now, and checks it.
func (l *logCheck) read(t *testing.T) {
	t.Helper()
	var at location
	l.s.get(t, "steady", "/where").into(t, &at)
	countNumbersFrom(t, l.s, l.app, l.instance, l.number+1, at.Number)
	l.number = at.Number
	l.readAccess(t)
}

func (l *logCheck) readAccess(t *testing.T) {
	t.Helper()
	here := map[string]bool{}
	for _, one := range l.s.log(t, l.app) {
		_, id, ok := strings.Cut(one.Text, "/pressed?n=")
		if !ok || !strings.HasPrefix(one.Source, "RTR") {
			continue
		}
		id, _, _ = strings.Cut(id, " ")
		if here[id] {
			t.Errorf("request %s has two access lines", id)
		}
		here[id], l.access[id] = true, true
	}
}

// end reads the rest, and checks that every request has its line.
func (l *logCheck) end(t *testing.T, asked int64) {
	t.Helper()
	l.read(t)
	testkit.Eventually(t, "the access lines are in the log", func() bool {
		l.readAccess(t)
		return int64(len(l.access)) >= asked
	})
	if got := int64(len(l.access)); got != asked {
		t.Errorf("%d access lines of %d requests", got, asked)
	}
}

// pressure is a load of 64 connections, half of them new for every request, and of API
// requests. Its clients repeat nothing: a connection that the server closes without a word
// is a failure.
type pressure struct {
	s       *site
	stop    context.CancelFunc
	all     sync.WaitGroup
	ids     atomic.Int64 // of requests to the app
	count   atomic.Int64 // of those that are over
	api     atomic.Int64
	written atomic.Pointer[string]
	mu      sync.Mutex
	failed  []string
}

func (s *site) press(t *testing.T, app string) *pressure {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	l := &pressure{s: s, stop: stop}
	token := s.adminToken(t)
	at := strings.TrimPrefix(s.API, "http://")
	for i := range 64 {
		l.all.Go(func() { l.repeat(ctx, at, i%2 == 0) })
	}
	for i := range 2 {
		l.all.Go(func() { l.ask(ctx, at, token, app, i == 0) })
	}
	t.Cleanup(func() {
		stop()
		l.all.Wait()
	})
	return l
}

func (l *pressure) fail(what string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = append(l.failed, fmt.Sprintf("%s %s: %v", time.Now().Format("15:04:05.000"), what, err))
}

// rawClient sends requests one after another over one connection, until the server says
// that it closes it.
type rawClient struct {
	at   string
	conn net.Conn
	in   *bufio.Reader
}

// do sends a request. A failure is returned as it is.
func (c *rawClient) do(req *http.Request) (*http.Response, []byte, error) {
	if c.conn == nil {
		conn, err := net.DialTimeout("tcp", c.at, patience)
		if err != nil {
			return nil, nil, err
		}
		c.conn, c.in = conn, bufio.NewReader(conn)
	}
	_ = c.conn.SetDeadline(time.Now().Add(patience))
	if err := req.Write(c.conn); err != nil {
		return nil, nil, err
	}
	res, err := http.ReadResponse(c.in, req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(res.Body)
	if res.Close || err != nil {
		c.close()
	}
	return res, body, err
}

func (c *rawClient) close() {
	if c.conn != nil {
		_ = c.conn.Close()
		c.conn = nil
	}
}

// repeat sends requests to the app.
func (l *pressure) repeat(ctx context.Context, at string, keep bool) {
	c := &rawClient{at: at}
	defer c.close()
	for ctx.Err() == nil {
		req, _ := http.NewRequest(http.MethodPost, //nolint:noctx // the connection has a deadline
			fmt.Sprintf("http://%s/pressed?n=%d", at, l.ids.Add(1)), http.NoBody)
		req.Host, req.Close = "steady.apps.localhost", !keep
		res, body, err := c.do(req)
		if err == nil && (res.StatusCode != http.StatusOK || !strings.HasPrefix(string(body), "probe 0 ")) {
			err = fmt.Errorf("%s %s", res.Status, body)
		}
		l.count.Add(1)
		if err != nil {
			l.fail(fmt.Sprintf("app, keep-alive %t", keep), err)
			c.close()
		}
		time.Sleep(time.Duration(200+ //nolint:forbidigo // no more lines than the log keeps
			rand.IntN(400)) * time.Millisecond)
	}
}

// ask sends API requests: reads, and writes that count up.
func (l *pressure) ask(ctx context.Context, at, token, app string, write bool) {
	c := &rawClient{at: at}
	defer c.close()
	for n := 1; ctx.Err() == nil; n++ {
		method, body := http.MethodGet, io.Reader(http.NoBody)
		value := fmt.Sprint("v", n)
		if write {
			method, body = http.MethodPatch, strings.NewReader(`{"metadata":{"annotations":{"last":"`+value+`"}}}`)
		}
		req, _ := http.NewRequest(method, "http://"+at+"/v3/apps/"+app, body) //nolint:noctx // the connection has a deadline
		req.Header.Set("Authorization", "bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		res, text, err := c.do(req)
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s %s", res.Status, text)
		}
		l.api.Add(1)
		switch {
		case err != nil:
			l.fail("API "+method, err)
			c.close()
		case write:
			l.written.Store(&value)
		}
		time.Sleep(10 * time.Millisecond) //nolint:forbidigo // as above
	}
}

// more waits for more requests.
func (l *pressure) more(t *testing.T, n int64) {
	t.Helper()
	from, api := l.count.Load(), l.api.Load()
	testkit.Eventually(t, "more requests are answered", func() bool {
		return l.count.Load() >= from+n && l.api.Load() >= api+10
	})
	l.check(t)
}

func (l *pressure) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.failed) > 0 {
		t.Fatalf("%d requests failed: %s", len(l.failed), strings.Join(l.failed[:min(10, len(l.failed))], "\n"))
	}
}

// end stops the load. It returns the number of requests to the app and the last written
// value.
func (l *pressure) end(t *testing.T) (asked int64, written string) {
	t.Helper()
	l.stop()
	l.all.Wait()
	l.check(t)
	t.Logf("%d requests to the app, %d API requests, none failed", l.count.Load(), l.api.Load())
	return l.count.Load(), *l.written.Load()
}

// echo is a WebSocket to the talker.
type echo struct{ conn *websocket.Conn }

func (s *site) openEcho(t *testing.T) *echo {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), s.API+"/ws", &websocket.DialOptions{Host: "talker.apps.localhost",
		HTTPClient: newClient()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	return &echo{conn}
}

func (e *echo) says(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := e.conn.Write(ctx, websocket.MessageText, []byte(text)); err != nil {
		t.Fatal(err)
	}
	_, got, err := e.conn.Read(ctx)
	if err != nil || !strings.Contains(string(got), text) {
		t.Fatalf("the WebSocket answers %q, %v, want %q", got, err, text)
	}
}

func (e *echo) close(t *testing.T) {
	t.Helper()
	if err := e.conn.Close(websocket.StatusNormalClosure, ""); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Logf("closing the WebSocket: %v", err)
	}
}
