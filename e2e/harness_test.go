package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is the timeout of every wait. It is long, because it only expires when
// something does not happen at all.
const patience = 6 * time.Minute

func TestMain(m *testing.M) {
	if path := os.Getenv(browserVariable); path != "" {
		fmt.Fprintln(os.Stderr, becomeBrowser(path))
		os.Exit(1)
	}
	if os.Getenv(pluginVariable) != "" {
		if err := becomePlugin(os.Stdout, os.Args); err != nil {
			fmt.Fprintln(os.Stdout, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	// cf mostly sleeps between two polls, so more tests than cores can run.
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if n := max(4, runtime.GOMAXPROCS(0)); !given {
		_ = flag.Set("test.parallel", strconv.Itoa(n)) // it is a number
	}
	code := m.Run()
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// built is the folder of the programs built by the tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// buildDir returns that folder.
func buildDir() (string, error) {
	built.once.Do(func() { built.dir, built.err = os.MkdirTemp("", "ingot-e2e-") })
	return built.dir, built.err
}

// program returns the path of ingot.
func program(t testing.TB) string {
	t.Helper()
	path, err := findProgram()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var findProgram = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("INGOT_BIN"); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("INGOT_BIN: %w; run: make build", err)
		}
		return path, nil
	}
	dir, err := buildDir()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir+"/", "./cmd/ingot",
		"./cmd/ingot-init", "./cmd/ingot-builder", "./cmd/ingot-static", "./cmd/ingot-sftp")
	cmd.Dir = ".." // the product's module
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return filepath.Join(dir, "ingot"), nil
})

// guard kills the processes that this process started and could not stop: it
// reads process ids, and when its input ends, because this process ended, it
// kills those that were not removed. It has its own session, so that an interrupt
// does not reach it.
var guard = sync.OnceValues(func() (io.Writer, error) {
	cmd := exec.Command("/bin/sh", "-c", `
ids=" "
while read -r what id; do
	case $what in
	add) ids="$ids$id " ;;
	drop) ids="${ids%% $id *} ${ids#* $id }" ;;
	esac
done
for id in $ids; do kill -9 "$id" 2>/dev/null; done`)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	return in, err
})

// process is one run of ingot.
type process struct {
	Cmd            *exec.Cmd
	Stdout, Stderr *output
	done           chan struct{} // closed when it has ended
	// mayFail allows lines of level ERROR in its log.
	mayFail bool
}

// run starts ingot with exactly these arguments and variables. It is killed at
// the end of the test if it still runs.
func run(t testing.TB, env []string, args ...string) *process {
	t.Helper()
	return runUnder(t, env, []string{program(t)}, args...)
}

// runProgram is run for another build of ingot.
func runProgram(t testing.TB, path string, env []string, args ...string) *process {
	t.Helper()
	return runUnder(t, env, []string{path}, args...)
}

// runUnder is like run for a command that executes the server.
func runUnder(t testing.TB, env, command []string, args ...string) *process {
	t.Helper()
	p := &process{Stdout: newOutput(), Stderr: newOutput(), done: make(chan struct{})}
	args = slices.Concat(command, args)
	p.Cmd = exec.Command(args[0], args[1:]...)
	p.Cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "TZ=UTC"}, env...)
	p.Cmd.Stdout, p.Cmd.Stderr = p.Stdout, p.Stderr
	g, err := guard()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Cmd.Start(); err != nil {
		t.Fatal(err)
	}
	id := p.Cmd.Process.Pid
	fmt.Fprintf(g, "add %d\n", id)
	go func() {
		_ = p.Cmd.Wait() // the exit code is in ProcessState
		fmt.Fprintf(g, "drop %d\n", id)
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.Cmd.Process.Kill()
		<-p.done
		p.check(t)
	})
	return p
}

const levelError = `"level":"ERROR"`

// check fails the test if the server's log has an error or a panic.
func (p *process) check(t testing.TB) {
	t.Helper()
	log := p.Stderr.String()
	for _, bad := range []string{levelError, "handler panicked", "DATA RACE", "panic: ", "fatal error: "} {
		if i := strings.Index(log, bad); i >= 0 && !(p.mayFail && bad == levelError) {
			t.Errorf("the log of the server has %q:\n%s", bad, log[max(0, i-500):min(len(log), i+3000)])
		}
	}
	if t.Failed() {
		t.Logf("%s\nended with code %d, its log with:\n%s", p.Cmd, p.Cmd.ProcessState.ExitCode(), log[max(0, len(log)-2000):])
	}
}

// wait returns the exit code, or -1 when a signal ended it.
func (p *process) wait(t testing.TB) int {
	t.Helper()
	select {
	case <-p.done:
		return p.Cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		_ = p.Cmd.Process.Signal(syscall.SIGQUIT) // shows what it is doing
		<-p.done
		t.Fatalf("the program does not end\n%s", p.Stderr)
		return -1
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// options configure the start of a server.
type options struct {
	Dir string // empty means a new one
	DB  string // a --database-url
	// Engine is the --engine. The default saves the time of testing containers.
	Engine string
	Args   []string // further flags
	Bare   bool     // without the demo org
	Env    []string
	// Under is a command that executes its arguments, which are those of the server.
	Under []string
	// Program is another build of ingot; empty means the tested one.
	Program string
}

// Server is a running server.
type Server struct {
	*process
	API, Auth, Notifications, Admin string
	SSH                             string // host:port
	Dir                             string

	options options
	listen  [4]string // the addresses of every start
	client  *http.Client
}

// listenFlags are in the order of Server.listen.
var listenFlags = [4]string{"--listen", "--notifications-listen", "--admin-listen", "--ssh-listen"}

// start runs a server and waits until it is ready.
func start(t testing.TB, o options) *Server {
	t.Helper()
	s := prepare(t, o)
	s.launch(t)
	s.awaitReady(t)
	return s
}

// prepare creates a server that does not run yet.
func prepare(t testing.TB, o options) *Server {
	t.Helper()
	s := &Server{Dir: o.Dir, options: o}
	if s.Dir == "" {
		s.Dir = filepath.Join(t.TempDir(), "data")
	}
	host, inside := loopback(), podsReach(t)
	for i, flag := range listenFlags {
		s.listen[i] = host + ":0"
		if inside != "" && flag != "--admin-listen" {
			s.listen[i] = inside + ":0"
		}
	}
	return s
}

// loopback returns a loopback address. Where the whole network exists it is a
// random one: a restarted server needs the same port, and on its own address no
// other process can have taken it, not even by an outgoing connection.
func loopback() string {
	if runtime.GOOS != "linux" {
		return "127.0.0.1"
	}
	return fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(254), rand.IntN(255), 1+rand.IntN(254))
}

// podsReach returns an address of this machine that Pods of the test cluster reach,
// or "" without such a cluster.
func podsReach(t testing.TB) string {
	t.Helper()
	network := os.Getenv("INGOT_TEST_NETWORK")
	if network == "" {
		return ""
	}
	prefix, err := netip.ParsePrefix(network)
	if err != nil || prefix.Bits() > 24 {
		t.Fatalf("INGOT_TEST_NETWORK is %q, want a network with at least 256 addresses: %v", network, err)
	}
	address := prefix.Addr().As4()
	address[2] += byte(rand.IntN(1 << (24 - prefix.Bits())))
	address[3] = byte(1 + rand.IntN(254))
	return netip.AddrFrom4(address).String()
}

func (s *Server) args() []string {
	args := []string{"up", "--data-dir", s.Dir, "--engine", cmp.Or(s.options.Engine, "process")}
	for i, flag := range listenFlags {
		args = append(args, flag, s.listen[i])
	}
	if s.options.DB != "" {
		args = append(args, "--database-url", s.options.DB)
	}
	return append(args, s.options.Args...)
}

// launch starts the process without waiting for it.
func (s *Server) launch(t testing.TB) {
	t.Helper()
	if s.client != nil {
		s.client.CloseIdleConnections()
	}
	s.client = newClient()
	t.Cleanup(s.client.CloseIdleConnections)
	path := s.options.Program
	if path == "" {
		path = program(t)
	}
	s.process = runUnder(t, s.options.Env, append(slices.Clip(s.options.Under), path), s.args()...)
}

// awaitEndpoints waits until the process has written its endpoints.
func (s *Server) awaitEndpoints(t testing.TB) {
	t.Helper()
	s.poll(t, "write endpoints.json", func() bool {
		text, err := os.ReadFile(filepath.Join(s.Dir, "endpoints.json"))
		if err != nil {
			return false
		}
		var e struct {
			API, Auth, Notifications, Admin, SSH string
			PID                                  int
		}
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatalf("endpoints.json is seen half written: %q", text)
		}
		if e.PID != s.Cmd.Process.Pid {
			return false // of the previous process
		}
		s.API, s.Auth, s.Notifications, s.Admin, s.SSH = e.API, e.Auth, e.Notifications, e.Admin, e.SSH
		for i, u := range []string{e.API, e.Notifications, e.Admin, e.SSH} {
			s.listen[i] = strings.TrimPrefix(u, "http://")
		}
		return true
	})
}

// awaitReady waits until the server is ready.
func (s *Server) awaitReady(t testing.TB) {
	t.Helper()
	s.awaitEndpoints(t)
	s.poll(t, "become ready", func() bool {
		r, err := s.try(http.MethodGet, s.API+"/readyz", "", nil)
		return err == nil && r.Status == http.StatusOK
	})
}

// poll calls done until it returns true. It fails the test if the process exits
// meanwhile.
func (s *Server) poll(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	over := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-s.done:
			t.Fatalf("the server ended with code %d and did not %s\n%s", s.Cmd.ProcessState.ExitCode(), what, s.Stderr)
		case <-over:
			t.Fatalf("the server does not %s\n%s", what, s.Stderr)
		}
	}
}

// Kill9 kills the process, which gets no chance to clean up.
func (s *Server) Kill9(t testing.TB) {
	t.Helper()
	if err := s.Cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	s.wait(t)
}

// Restart starts the stopped server again, on the same addresses, and waits until
// it is ready.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	if !s.ended() {
		t.Fatal("the server still runs")
	}
	s.launch(t)
	s.awaitReady(t)
}

// Stop stops the server. It must exit with 0 and delete its endpoints file.
func (s *Server) Stop(t testing.TB) {
	t.Helper()
	if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.wait(t); code != 0 {
		t.Fatalf("exit code %d after SIGTERM, want 0\n%s", code, s.Stderr)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "endpoints.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("endpoints.json after the end: %v, want it gone", err)
	}
}

// secret reads one of the server's secrets.
func (s *Server) secret(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, "secrets", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimRight(string(text), "\n")
}

// giveSecret writes a secret to the server's file, before its first start.
func (s *Server) giveSecret(t testing.TB, name, value string) {
	t.Helper()
	dir := filepath.Join(s.Dir, "secrets")
	for _, d := range []string{s.Dir, dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(value+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// output collects the output of a process, and lets callers wait for it.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	changed chan struct{}
}

func newOutput() *output { return &output{changed: make(chan struct{})} }

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// await waits until the text contains want and returns all of it.
func (o *output) await(t testing.TB, want string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		o.mu.Lock()
		text, changed := o.text.String(), o.changed
		o.mu.Unlock()
		if strings.Contains(text, want) {
			return text
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%q is never written; there is:\n%s", want, text)
		}
	}
}
