package sshd_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"

	"ingot/internal/base/clock"
	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform/edge/sshd"
	"ingot/internal/platform/engine"
)

// localEngine runs processes of this machine, in a folder of the test.
type localEngine struct {
	home string
	gone atomic.Bool // the instance no longer exists
	dial func(network, address string) (net.Conn, error)

	read      atomic.Int64 // bytes of output
	processes sync.Map     // of *localProcess
	requests  chan engine.ExecRequest
	fail      func(engine.ExecRequest) error
}

func (e *localEngine) Exec(ctx context.Context, id string, r engine.ExecRequest) (engine.Process, error) {
	if e.gone.Load() || id != theInstance {
		return nil, engine.ErrNotFound
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if e.fail != nil {
		if err := e.fail(r); err != nil {
			return nil, err
		}
	}
	select {
	case e.requests <- r:
	default:
	}
	put := func(all []string) []string {
		all = slices.Clone(all)
		for i := range all {
			all[i] = strings.ReplaceAll(all[i], "{{home}}", e.home)
		}
		return all
	}
	args := put(r.Args)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = e.home
	cmd.Env = append([]string{"PATH=" + e.home + "/bin:" + os.Getenv("PATH"), "HOME=" + e.home + "/app", "LANG=C",
		"WORD=given"}, put(r.Env)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := &localProcess{engine: e, cmd: cmd, done: make(chan struct{})}
	if err := p.start(r.Terminal); err != nil {
		return nil, err
	}
	e.processes.Store(p, true)
	return p, nil
}

// running counts the processes that were not closed.
func (e *localEngine) running() (n int) {
	e.processes.Range(func(any, any) bool { n++; return true })
	return n
}

func (e *localEngine) Dial(ctx context.Context, id, network, address string) (net.Conn, error) {
	if e.gone.Load() || id != theInstance {
		return nil, engine.ErrNotFound
	}
	if e.dial != nil {
		return e.dial(network, address)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

type localProcess struct {
	engine *localEngine
	cmd    *exec.Cmd
	done   chan struct{}
	status int

	files          []*os.File
	stdin          io.WriteCloser
	stdout, stderr io.Reader
	master         *os.File
}

func (p *localProcess) start(t *engine.Terminal) (err error) {
	var theirs []*os.File
	if t != nil {
		master, tty, err := pty.Open()
		if err != nil {
			return err
		}
		if err := pty.Setsize(master, &pty.Winsize{Rows: uint16(t.Rows), Cols: uint16(t.Columns)}); err != nil {
			return err
		}
		p.cmd.Env = append(p.cmd.Env, "TERM="+t.Term)
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
		p.cmd.SysProcAttr.Setctty = true
		p.master, p.stdin, p.stdout = master, keyboard{master}, screen{master}
		theirs, p.files = []*os.File{tty}, []*os.File{master}
	} else {
		for i := range 3 {
			r, w, err := os.Pipe()
			if err != nil {
				return err
			}
			if i == 0 {
				theirs, p.files = append(theirs, r), append(p.files, w)
			} else {
				theirs, p.files = append(theirs, w), append(p.files, r)
			}
		}
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = theirs[0], theirs[1], theirs[2]
		p.stdin, p.stdout, p.stderr = p.files[0], &counting{p.files[1], &p.engine.read}, p.files[2]
	}
	err = p.cmd.Start()
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		for _, f := range p.files {
			f.Close()
		}
		return err
	}
	go func() {
		defer close(p.done)
		_ = p.cmd.Wait()
		p.status = p.cmd.ProcessState.ExitCode()
		if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
			p.status = 128 + int(ws.Signal())
		}
	}()
	return nil
}

func (p *localProcess) Stdin() io.WriteCloser { return p.stdin }
func (p *localProcess) Stdout() io.Reader     { return p.stdout }
func (p *localProcess) Stderr() io.Reader     { return p.stderr }

func (p *localProcess) Resize(columns, rows int) error {
	if p.master == nil {
		return errors.New("there is no terminal")
	}
	return pty.Setsize(p.master, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)})
}

// Signal reaches the group, which may outlive its leader.
func (p *localProcess) Signal(number int) error {
	err := syscall.Kill(-p.cmd.Process.Pid, syscall.Signal(number))
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func (p *localProcess) Wait() (int, error) {
	<-p.done
	return p.status, nil
}

func (p *localProcess) Close() error {
	err := p.Signal(int(syscall.SIGKILL))
	<-p.done
	for _, f := range p.files {
		f.Close()
	}
	p.engine.processes.Delete(p)
	return err
}

type counting struct {
	io.Reader
	n *atomic.Int64
}

func (c *counting) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n.Add(int64(n))
	return n, err
}

type screen struct{ *os.File }

func (s screen) Read(b []byte) (int, error) {
	n, err := s.File.Read(b)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

type keyboard struct{ *os.File }

func (k keyboard) Close() error {
	_, err := k.Write([]byte{4})
	return err
}

func newClock() *testkit.Clock { return testkit.NewClock(time.Unix(1_000_000, 0)) }

const (
	theProcess  = "11111111-2222-3333-4444-555555555555"
	theInstance = "engine-instance"
	theApp      = "the-app"
	theUser     = "the-user"
	theCode     = "one-time-code"
	theName     = "cf:" + theProcess + "/0"
)

// fakeAuthorizer accepts every client with the code. Codes can be reused here.
type fakeAuthorizer struct {
	calls  atomic.Int32
	decide func(code string, index int) (sshd.Session, error)
	user   func() string
}

var errBroken = errors.New("the authorization server is on fire")

func (d *fakeAuthorizer) Authorize(_ context.Context, code, process string, index int,
	_ net.Addr) (sshd.Session, error) {
	d.calls.Add(1)
	if d.decide != nil {
		return d.decide(code, index)
	}
	switch code {
	case theCode:
	case "broken":
		return sshd.Session{}, errBroken
	case "known":
		return sshd.Session{UserGUID: theUser, UserName: "anna", AppGUID: theApp},
			fault.New(fault.Forbidden, "she is no developer")
	default:
		return sshd.Session{}, fault.New(fault.Unauthenticated, "that code is wrong")
	}
	s := sshd.Session{UserGUID: theUser, UserName: "anna", AppGUID: theApp, InstanceID: theInstance,
		Env: []string{"EXTRA=more"}}
	if d.user != nil {
		s.UserGUID = d.user()
	}
	return s, nil
}

// lockedBuffer is a log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is a gateway with all it needs.
type world struct {
	*testing.T
	server *sshd.Server
	engine *localEngine
	door   *fakeAuthorizer
	log    *lockedBuffer
	events chan string
}

// setup starts a gateway; change may alter its configuration.
func setup(t *testing.T, change ...func(*sshd.Config)) *world {
	t.Helper()
	w := &world{T: t, engine: &localEngine{home: t.TempDir(), requests: make(chan engine.ExecRequest, 64)},
		door: &fakeAuthorizer{}, log: &lockedBuffer{}, events: make(chan string, 4096)}
	c := sshd.Config{
		Listener: listen(t), HostKeyFile: filepath.Join(t.TempDir(), "host-key"), Engine: w.engine, Authorizer: w.door,
		Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Hooks: sshd.Hooks{
			Authorized: func(_ context.Context, a sshd.Access) {
				w.events <- "authorized " + a.UserGUID + " " + a.AppGUID + " " + a.ProcessGUID
			},
			Unauthorized: func(_ context.Context, a sshd.Access, why string) {
				w.events <- "unauthorized " + a.UserGUID + " " + a.AppGUID + ": " + why
			},
			Line: func(_ context.Context, a sshd.Access, text string) {
				w.events <- strings.ReplaceAll(text, a.Remote.String(), "ADDR")
			},
		},
	}
	for _, f := range change {
		f(&c)
	}
	s, err := sshd.New(c)
	if err != nil {
		t.Fatal(err)
	}
	w.server = s
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Stop()
		if n := w.engine.running(); n != 0 {
			t.Errorf("%d processes are left", n)
		}
		if t.Failed() {
			t.Logf("log:\n%s", w.log)
		}
	})
	return w
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func (w *world) dialAs(user, code string) (*ssh.Client, error) {
	return w.dialFrom("127.0.0.1", user, code)
}

// dialFrom is a client at another address of this machine.
func (w *world) dialFrom(address, user, code string) (*ssh.Client, error) {
	to := w.server.Addr().String()
	raw, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).Dial("tcp", to)
	if err != nil {
		return nil, err
	}
	conn, channels, requests, err := ssh.NewClientConn(raw, to, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.Password(code)},
		HostKeyCallback: func(_ string, _ net.Addr, key ssh.PublicKey) error {
			if got := strings.TrimPrefix(ssh.FingerprintSHA256(key), "SHA256:"); got != w.server.Fingerprint() {
				return errors.New("another host key: " + got)
			}
			return nil
		},
	})
	if err != nil {
		raw.Close()
		return nil, err
	}
	return ssh.NewClient(conn, channels, requests), nil
}

func (w *world) client() *ssh.Client {
	w.Helper()
	c, err := w.dialAs(theName, theCode)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { c.Close() })
	return c
}

func (w *world) session(c *ssh.Client) *ssh.Session {
	w.Helper()
	s, err := c.NewSession()
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { s.Close() })
	return s
}

// run runs a command and returns what it wrote and its status.
func (w *world) run(c *ssh.Client, command string) (out, errs string, err error) {
	w.Helper()
	s := w.session(c)
	var stdout, stderr bytes.Buffer
	s.Stdout, s.Stderr = &stdout, &stderr
	err = s.Run(command)
	return stdout.String(), stderr.String(), err
}

func (w *world) event(want string) {
	w.Helper()
	select {
	case got := <-w.events:
		if got != want {
			w.Errorf("event %q, want %q", got, want)
		}
	case <-time.After(3 * time.Minute):
		w.Errorf("no event, want %q", want)
	}
}

// exitStatus is what a command left with; -1 if that is not known.
func exitStatus(err error) int {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		return exit.ExitStatus()
	}
	return -1
}

func withLimits(l sshd.Limits) func(*sshd.Config) {
	return func(c *sshd.Config) { c.Limits = l }
}

func withClock(clock clock.Clock) func(*sshd.Config) {
	return func(c *sshd.Config) { c.Clock = clock }
}
