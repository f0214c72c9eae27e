package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// TestHandoverKilled kills the old or the new process at some moment of a handover. A
// server works then, or one can be started, and nothing is lost.
func TestHandoverKilled(t *testing.T) {
	t.Parallel()
	handoverKilled(t, startApps(t, options{}), 4)
}

// TestHandoverKilledSoak does the same many times.
func TestHandoverKilledSoak(t *testing.T) {
	t.Parallel()
	if os.Getenv("INGOT_SOAK") == "" {
		t.Skip("INGOT_SOAK is not set")
	}
	onEngines(t, func(t *testing.T, s *site) { handoverKilled(t, s, 60) })
}

func handoverKilled(t *testing.T, s *site, n int) {
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady", "--no-start")...)
	cfOK(t, home, "set-env", "steady", "NUMBERS", "10ms")
	cfOK(t, home, "start", "steady")
	app := guid(t, home, "steady")
	instance := s.running(t, app, 1)[0]
	lines := s.checkLog(app, instance)
	for i := range n {
		before := s.process
		before.mayFail = true // it logs that the new process did not take over
		next := run(t, s.options.Env, append(s.args(), "--replace")...)
		next.mayFail = true
		time.Sleep(time.Duration(rand.IntN(700)) * time.Millisecond) //nolint:forbidigo // any moment
		victim, other, what := before, next, "old"
		if i%2 == 0 {
			victim, other, what = next, before, "new"
		}
		took := strings.Contains(before.Stderr.String(), "another process has taken over")
		if err := victim.Cmd.Process.Kill(); err != nil {
			t.Logf("round %d: the %s process: %v", i, what, err)
		}
		victim.wait(t)
		s.process = other
		s.settle(t, i, what, took)
		s.awaitReady(t)
		s.reaches(t, "steady", "/", http.StatusOK)
		if now := s.running(t, app, 1)[0]; now != instance {
			t.Fatalf("round %d: instance %s after the %s process was killed, %s before it", i, now, what, instance)
		}
		lines.read(t)
	}
}

// settle waits until the remaining process serves, or has ended, because the killed one
// had taken over; then a plain start works.
func (s *site) settle(t *testing.T, round int, killed string, took bool) {
	t.Helper()
	how := "continues"
	testkit.Eventually(t, "the process that is left serves or ends", func() bool {
		if s.ended() {
			how = "ended"
			return true
		}
		text, err := os.ReadFile(filepath.Join(s.Dir, "endpoints.json"))
		if err != nil || !strings.Contains(string(text), fmt.Sprintf(`"pid": %d`, s.Cmd.Process.Pid)) {
			s.client.CloseIdleConnections() // it may finish its connections
			return false
		}
		r, err := s.try(http.MethodGet, s.Admin+"/readyz", "", nil)
		return err == nil && r.Status == http.StatusOK
	})
	t.Logf("round %d: the %s process was killed (taken over: %t), the other %s", round, killed, took, how)
	if how == "ended" {
		s.Restart(t)
	}
}

// manager is systemd, as far as a service sees it: it passes sockets, stores those that it
// gets, and listens for notifications.
type manager struct {
	dir    string
	notify *net.UnixConn

	mu     sync.Mutex
	said   []string
	stored map[string]*os.File
	main   int
}

func newManager(t *testing.T) *manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-notify-") // short, for a socket
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{dir: dir, stored: map[string]*os.File{}}
	m.notify, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(m.read)
	t.Cleanup(func() {
		m.notify.Close()
		reading.Wait()
		os.RemoveAll(dir)
	})
	return m
}

func (m *manager) read() {
	text, rights := make([]byte, 4096), make([]byte, syscall.CmsgSpace(4))
	for {
		n, have, _, _, err := m.notify.ReadMsgUnix(text, rights)
		if err != nil {
			return
		}
		m.mu.Lock()
		message := string(text[:n])
		m.said = append(m.said, message)
		_, name, _ := strings.Cut(message, "FDNAME=")
		switch {
		case have > 0:
			control, _ := syscall.ParseSocketControlMessage(rights[:have]) // the kernel wrote it
			fds, _ := syscall.ParseUnixRights(&control[0])
			m.stored[name] = os.NewFile(uintptr(fds[0]), name)
		case strings.HasPrefix(message, "FDSTOREREMOVE=1"):
			delete(m.stored, name)
		case strings.HasPrefix(message, "MAINPID="):
			m.main, _ = strconv.Atoi(strings.TrimPrefix(strings.Split(message, "\n")[0], "MAINPID="))
		}
		m.mu.Unlock()
	}
}

func (m *manager) await(t *testing.T, message string) {
	t.Helper()
	testkit.Eventually(t, "the server sends "+message, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i, one := range m.said {
			if strings.HasPrefix(one, message) {
				m.said = m.said[i+1:]
				return true
			}
		}
		return false
	})
}

// start runs the server as systemd does, with the stored sockets. Its output goes to a file,
// because the next process inherits it.
func (m *manager) start(t *testing.T, s *Server) {
	t.Helper()
	m.mu.Lock()
	var names []string
	var files []*os.File
	for name, file := range m.stored {
		names, files = append(names, name), append(files, file)
	}
	m.mu.Unlock()
	log, err := os.OpenFile(filepath.Join(m.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// LISTEN_PID is known only in the process itself.
	cmd := exec.Command("/bin/sh", //nolint:noctx // it is killed below
		append([]string{"-c", `LISTEN_PID=$$; export LISTEN_PID; exec "$0" "$@"`, program(t)}, s.args()...)...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "NOTIFY_SOCKET="+filepath.Join(m.dir, "notify"),
		"WATCHDOG_USEC=4000000", "WATCHDOG_PID=1",
		"LISTEN_FDS="+strconv.Itoa(len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = files, log, log
	s.process = &process{Cmd: cmd, Stdout: newOutput(), Stderr: newOutput(), done: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	m.main = cmd.Process.Pid
	m.mu.Unlock()
	p := s.process
	go func() {
		_ = cmd.Wait() // the exit code is in ProcessState
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			text, _ := os.ReadFile(filepath.Join(m.dir, "log"))
			t.Logf("the log ends with\n%s", text[max(0, len(text)-4000):])
		}
	})
	s.client = newClient()
	t.Cleanup(s.client.CloseIdleConnections)
	m.await(t, "READY=1")
}

// TestServiceManager restarts and reloads a server as systemd does, under load.
func TestServiceManager(t *testing.T) {
	t.Parallel()
	heavy <- struct{}{}
	t.Cleanup(func() { <-heavy })
	m := newManager(t)
	s := &site{prepare(t, options{Dir: appsDir(t), Args: []string{"--demo"}})}
	m.start(t, s.Server)
	s.awaitReady(t)
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "steady", "--no-start")...)
	cfOK(t, home, "set-env", "steady", "NUMBERS", "10ms")
	cfOK(t, home, "start", "steady")
	app := guid(t, home, "steady")
	instance := s.running(t, app, 1)[0]
	l := s.press(t, app)
	l.more(t, 200)

	// systemctl restart: connections wait in the sockets that systemd keeps.
	s.Stop(t)
	m.await(t, "STOPPING=1")
	m.start(t, s.Server)
	s.awaitReady(t)
	l.more(t, 200)

	// systemctl reload: the main process is another one afterwards.
	before := s.process
	out, err := exec.Command(program(t), "reload", "--data-dir", s.Dir). //nolint:noctx // the test has a timeout
										CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("serves now")) {
		t.Fatalf("ingot reload: %v %s", err, out)
	}
	m.await(t, "RELOADING=1")
	m.await(t, "MAINPID=")
	m.mu.Lock()
	now := m.main
	m.mu.Unlock()
	if now == before.Cmd.Process.Pid || !strings.Contains(string(out), fmt.Sprintf("(pid %d)", now)) {
		t.Errorf("the main process is %d, ingot reload says %s", now, out)
	}
	t.Cleanup(func() { _ = syscall.Kill(now, syscall.SIGKILL) })
	l.more(t, 200)
	s.client.CloseIdleConnections()
	if code := before.wait(t); code != 0 {
		t.Errorf("the process before ended with code %d, want 0", code)
	}
	m.mu.Lock()
	m.said = nil // of the process before
	m.mu.Unlock()
	m.await(t, "WATCHDOG=1")

	// One that bypasses systemd is refused, and nothing happens.
	stray := run(t, nil, append(s.args(), "--replace")...)
	if code := stray.wait(t); code == 0 || !strings.Contains(stray.Stderr.String(), "systemctl reload ingot") {
		t.Errorf("a process beside systemd ended with %d: %s", code, stray.Stderr)
	}
	asked, _ := l.end(t)
	s.checkLog(app, instance).end(t, asked)

	// The process that systemd does not start is stopped here.
	token := s.adminToken(t)
	s.call(t, http.MethodDelete, "/v3/apps/"+app, token, nil).want(t, http.StatusAccepted)
	testkit.Eventually(t, "the instance is gone", func() bool {
		left, _ := os.ReadDir(filepath.Join(s.Dir, "processes"))
		return len(left) == 0
	})
	if err := syscall.Kill(now, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the server is stopped", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", now))
		return err != nil || strings.Contains(string(stat), ") Z ")
	})
}
