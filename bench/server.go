package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// binary returns the program to measure: INGOT_BIN, or one that is built into dir
// as in the Makefile, with the small programs beside it.
func binary(ctx context.Context, dir string) (string, error) {
	if given := os.Getenv("INGOT_BIN"); given != "" {
		path, err := filepath.Abs(given)
		if err == nil {
			_, err = os.Stat(path)
		}
		if err != nil {
			return "", fmt.Errorf("INGOT_BIN: %w", err)
		}
		return path, nil
	}
	out, err := exec.CommandContext(ctx, filepath.Join(moduleDir(), "..", "scripts", "version")).Output()
	if err != nil {
		return "", fmt.Errorf("scripts/version: %w", err)
	}
	for _, name := range []string{"ingot", "ingot-init", "ingot-builder", "ingot-static", "ingot-sftp"} {
		err := goBuild(ctx, filepath.Join(moduleDir(), ".."), "-s -w -X ingot/internal/base/version.stamped="+
			strings.TrimSpace(string(out)), filepath.Join(dir, name), "./cmd/"+name)
		if err != nil {
			return "", err
		}
	}
	return filepath.Join(dir, "ingot"), nil
}

// moduleDir returns the folder of this module, from the root of the repository or
// from there.
func moduleDir() string {
	if _, err := os.Stat(filepath.Join("bench", "go.mod")); err == nil {
		return "bench"
	}
	return "."
}

// goBuild builds a package of the module in dir.
func goBuild(ctx context.Context, dir, linkerFlags, path, pkg string) error {
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", linkerFlags,
		"-o", path, pkg)
	build.Dir = dir
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

func programVersion(ctx context.Context, program string) string {
	out, err := exec.CommandContext(ctx, program, "version").Output()
	if err != nil {
		return "ingot"
	}
	return strings.TrimSpace(string(out))
}

// adminSecret and adminPassword are the secrets of every server.
const (
	adminSecret   = "bench-admin-secret"
	adminPassword = "bench-admin-password"
)

// Server is a running ingot.
type Server struct {
	// API, Notifications and Admin are addresses (host:port); empty until known.
	API, Notifications, Admin string
	PID                       int
	// Dir is its data directory.
	Dir string
	// Launched is the time just before the process was started.
	Launched time.Time

	cmd    *exec.Cmd
	log    string
	exited chan struct{} // closed when the process has exited; err is set then
	err    error
}

// freshDir returns the path of a new data directory.
func (r *Report) freshDir() string {
	return filepath.Join(r.Scratch, fmt.Sprintf("data-%08x", rand.Uint32()))
}

// Launch starts a server without waiting for it.
func (r *Report) Launch(dir string, args ...string) (*Server, error) {
	s := &Server{Dir: dir, log: dir + ".log", exited: make(chan struct{})}
	log, err := os.OpenFile(s.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	args = append([]string{"up", "--data-dir", dir, "--notifications-listen", "127.0.0.1:0", "--ssh-listen",
		"127.0.0.1:0"}, args...)
	// Without the context: a server is asked to stop, not killed.
	s.cmd = exec.Command(r.Binary, args...)
	s.cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "INGOT_") }),
		"INGOT_ADMIN_CLIENT_SECRET="+adminSecret, "INGOT_ADMIN_PASSWORD="+adminPassword)
	s.cmd.Stderr = log
	// An interrupt from the keyboard must not reach the server: its apps are
	// deleted first.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	s.Launched = time.Now()
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.PID = s.cmd.Process.Pid
	go func() {
		s.err = s.cmd.Wait()
		close(s.exited)
	}()
	return s, nil
}

// Start starts a new server on free ports and waits until it is ready.
func (r *Report) Start(ctx context.Context, args ...string) (*Server, error) {
	return r.startIn(ctx, r.freshDir(), args...)
}

// startIn is like Start, in a data directory that may have been used before.
func (r *Report) startIn(ctx context.Context, dir string, args ...string) (*Server, error) {
	s, err := r.Launch(dir, append([]string{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"}, args...)...)
	if err != nil {
		return nil, err
	}
	if err := s.findEndpoints(ctx, filepath.Join(dir, "endpoints.json")); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	if _, err := s.Await(ctx, "/readyz"); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// patience is how long a server may take to start or to stop.
const patience = 30 * time.Second

func (s *Server) findEndpoints(ctx context.Context, file string) error {
	for time.Since(s.Launched) < patience {
		var found struct{ API, Notifications, Admin string }
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &found)
		}
		if err == nil {
			for to, address := range map[*string]string{&s.API: found.API, &s.Notifications: found.Notifications,
				&s.Admin: found.Admin} {
				*to = strings.TrimPrefix(address, "http://")
			}
			return nil
		}
		if err := s.tick(ctx); err != nil {
			return err
		}
	}
	return fmt.Errorf("the server wrote no endpoints\n%s", s.tail())
}

// Await requests path every millisecond until the response is 200, and returns
// the time since the launch.
func (s *Server) Await(ctx context.Context, path string) (time.Duration, error) {
	var w *wire
	defer func() {
		if w != nil {
			_ = w.conn.Close()
		}
	}()
	request := get(s.API, path)
	for time.Since(s.Launched) < patience {
		var status int
		var err error
		if w == nil {
			w, err = dial(ctx, s.API)
		}
		if err == nil {
			if status, err = w.do(request); err != nil {
				_ = w.conn.Close()
			}
		}
		if err != nil {
			w = nil
		} else if status == http.StatusOK {
			return time.Since(s.Launched), nil
		}
		if err := s.tick(ctx); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("the server did not answer %s with 200\n%s", path, s.tail())
}

// tick waits a millisecond, and fails if the server has exited.
func (s *Server) tick(ctx context.Context) error {
	select {
	case <-s.exited:
		return fmt.Errorf("the server exited before it was ready: %s\n%s", s.cmd.ProcessState, s.tail())
	default:
		return pause(ctx, time.Millisecond)
	}
}

// Stop asks the server to stop and waits; it kills a server that does not stop.
func (s *Server) Stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(patience):
		_ = s.cmd.Process.Kill()
		<-s.exited
		return fmt.Errorf("the server did not stop within %s\n%s", patience, s.tail())
	}
	if s.err != nil {
		return fmt.Errorf("the server exited: %w\n%s", s.err, s.tail())
	}
	return nil
}

// tail returns the end of the server's log.
func (s *Server) tail() string {
	text, _ := os.ReadFile(s.log)
	lines := strings.SplitAfter(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-10):], "")
}

// freePort finds a free port below the range of ephemeral ports: otherwise the
// polling connections could use the very port that the server is about to open.
func freePort(ctx context.Context) (string, error) {
	var l net.ListenConfig
	var err error
	for range 100 {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(20000+rand.IntN(10000)))
		var opened net.Listener
		if opened, err = l.Listen(ctx, "tcp", addr); err == nil {
			return addr, opened.Close()
		}
	}
	return "", fmt.Errorf("no free port: %w", err)
}

// setUp is the client for calls that prepare a measurement.
var setUp = &http.Client{Timeout: 30 * time.Second}

// Call sends a request and decodes its JSON response.
func (s *Server) Call(ctx context.Context, method, path string, header http.Header, body []byte, into any) error {
	answer, _, err := s.Send(ctx, method, path, header, body)
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(answer, into)
}

// Send sends a request; a response without success is an error.
func (s *Server) Send(ctx context.Context, method, path string, header http.Header,
	body []byte) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.API+path, bytes.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	req.Header = header
	res, err := setUp.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, nil, err
	}
	if res.StatusCode/100 != 2 {
		return nil, nil, fmt.Errorf("%s %s: %s: %s", method, path, res.Status, answer)
	}
	return answer, res.Header, nil
}

// Token requests a token.
func (s *Server) Token(ctx context.Context, authorization string, form url.Values) (string, error) {
	var answer struct {
		Token string `json:"access_token"`
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Authorization": {authorization}}
	err := s.Call(ctx, http.MethodPost, "/oauth/token", header, []byte(form.Encode()), &answer)
	return answer.Token, err
}

// Create posts JSON as an administrator.
func (s *Server) Create(ctx context.Context, token, path string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	header := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + token}}
	return s.Call(ctx, http.MethodPost, path, header, text, nil)
}

// Profile takes a processor profile of the server while during runs.
func (s *Server) Profile(ctx context.Context, seconds int, file string, during func() error) error {
	done := make(chan error, 1)
	go func() { done <- s.fetchProfile(ctx, seconds, file) }()
	err := during()
	return errors.Join(err, <-done)
}

func (s *Server) fetchProfile(ctx context.Context, seconds int, file string) error {
	profile, err := s.adminGet(ctx, "/debug/pprof/profile?seconds="+strconv.Itoa(seconds))
	if err != nil {
		return err
	}
	return os.WriteFile(file, profile, 0o644)
}

// heapProfile makes the server collect its garbage, and returns its heap profile
// as text.
func (s *Server) heapProfile(ctx context.Context) ([]byte, error) {
	return s.adminGet(ctx, "/debug/pprof/heap?gc=1&debug=1")
}

func (s *Server) adminGet(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+path, nil)
	if err != nil {
		return nil, err
	}
	res, err := setUp.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %s", path, res.Status, answer)
	}
	return answer, err
}
