//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/term"

	"ingot/internal/engine"
	"ingot/internal/engine/local"
)

// Exec runs another process in the instance through `runc exec`, which passes
// on its input, output and exit status. It ends with this server.
func (e *Engine) Exec(ctx context.Context, id string, r engine.ExecRequest) (_ engine.Process, err error) {
	in, err := e.running(id)
	if err != nil {
		return nil, err
	}
	if len(r.Args) == 0 {
		return nil, errors.New("nothing to run")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(e.bundle(id), "exec")
	if err != nil {
		return nil, err
	}
	if err := local.WriteJSON(filepath.Join(dir, "process.json"), processOf(in.dir.Meta(), r)); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	p := &process{dir: dir, done: make(chan struct{}), started: make(chan struct{})}
	p.cmd = e.runc.command(context.WithoutCancel(ctx), "exec", "--process", filepath.Join(dir, "process.json"), "--pid-file", p.pidFile(), id)
	if r.Terminal != nil {
		err = p.terminal(r.Terminal)
	} else {
		err = p.pipes()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	leave, err := e.enter()
	if err != nil {
		closeAll(slices.Concat(p.theirs, p.ours))
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	go func() {
		defer leave()
		p.run()
	}()
	p.stop = context.AfterFunc(e.open, func() { _ = p.Signal(int(syscall.SIGKILL)) })
	if err := p.await(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s in instance %s: %w", r.Args[0], id, err), p.Close())
	}
	return p, nil
}

// processOf is what runc is to start: the instance's user with its main
// process's environment and no capability at all.
func processOf(m local.Meta, r engine.ExecRequest) specs.Process {
	words := wordsAt("")
	env := []string{"PATH=" + pathInside, "HOME=" + homeInside, "USER=vcap"}
	if len(m.Launch.Members) > 0 {
		env = append(env, m.Launch.Members[0].Env...)
	}
	env = append(env, words.All(r.Env)...)
	dir := homeInside
	if r.Dir != "" {
		dir = words.In(r.Dir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(homeInside, dir)
		}
	}
	p := specs.Process{
		Args: words.All(r.Args), Cwd: dir,
		User:         specs.User{UID: uint32(m.Launch.User), GID: uint32(m.Launch.Group)}, //nolint:gosec // small
		Capabilities: &specs.LinuxCapabilities{}, NoNewPrivileges: true, Rlimits: rlimits(m.Limits),
	}
	if t := r.Terminal; t != nil {
		p.Terminal = true
		if t.Term != "" {
			env = append(env, "TERM="+t.Term)
		}
		if t.Columns > 0 && t.Rows > 0 {
			p.ConsoleSize = &specs.Box{Width: uint(t.Columns), Height: uint(t.Rows)}
		}
	}
	p.Env = lastOfEach(env)
	return p
}

// lastOfEach drops the variables that are set again later.
func lastOfEach(env []string) []string {
	seen := map[string]bool{}
	var out []string
	for _, v := range slices.Backward(env) {
		name, _, _ := strings.Cut(v, "=")
		if !seen[name] {
			seen[name] = true
			out = append(out, v)
		}
	}
	slices.Reverse(out)
	return out
}

// process is one that Exec started, seen through runc.
type process struct {
	cmd    *exec.Cmd
	dir    string // for files that runc reads and writes
	stop   func() bool
	theirs []*os.File // ends that runc alone is to have
	ours   []*os.File

	stdin          io.WriteCloser
	stdout, stderr io.Reader
	master         *os.File // of a terminal

	started chan struct{} // closed when runc was started, or could not be
	done    chan struct{} // closed when runc was waited for
	status  int
	err     error

	mu     sync.Mutex
	id     local.ProcessID // of the process itself, once known
	closed bool
}

func (p *process) pidFile() string { return filepath.Join(p.dir, "pid") }

func (p *process) pipes() error {
	var files [3][2]*os.File
	for i := range files {
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range files[:i] {
				closeAll(f[:])
			}
			return err
		}
		files[i] = [2]*os.File{r, w}
	}
	in, out, errs := files[0], files[1], files[2]
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in[0], out[1], errs[1]
	p.theirs, p.ours = []*os.File{in[0], out[1], errs[1]}, []*os.File{in[1], out[0], errs[0]}
	p.stdin, p.stdout, p.stderr = in[1], out[0], errs[0]
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	return nil
}

// terminal gives runc a terminal of the host, which it passes on to one inside.
// (A console socket would save the copying, but then runc leaves at once and
// nobody learns the exit status.)
func (p *process) terminal(t *engine.Terminal) error {
	master, tty, err := pty.Open()
	if err != nil {
		return err
	}
	if t.Columns > 0 && t.Rows > 0 {
		err = pty.Setsize(master, &pty.Winsize{Rows: uint16(t.Rows), Cols: uint16(t.Columns)}) //nolint:gosec // a terminal is not that large
	}
	if err == nil {
		// Runc does so too, but what is typed before would show twice.
		_, err = term.MakeRaw(int(tty.Fd()))
	}
	if err != nil {
		closeAll([]*os.File{master, tty})
		return err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL}
	p.theirs, p.ours = []*os.File{tty}, []*os.File{master}
	p.master, p.stdin, p.stdout = master, keyboard{master}, screen{master}
	return nil
}

// run starts runc and waits for it. The kernel kills runc when the thread that
// started it ends, so the thread is kept until then.
func (p *process) run() {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.done)
	err := p.cmd.Start()
	closeAll(p.theirs)
	close(p.started)
	if err != nil {
		p.err = err
		return
	}
	err = p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.err = err
		return
	}
	p.status = p.cmd.ProcessState.ExitCode()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.status = 128 + int(ws.Signal())
	}
}

// await returns when the process runs, or with why it does not.
func (p *process) await(ctx context.Context) error {
	<-p.started
	for wait := time.Millisecond; ; wait = min(2*wait, 10*time.Millisecond) {
		if pid, err := readPID(p.pidFile()); err == nil {
			id, err := local.Identify(pid)
			p.mu.Lock()
			p.id = id
			p.mu.Unlock()
			if errors.Is(err, os.ErrProcessDone) {
				err = nil // that was quick
			}
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		case <-p.done:
			if _, err := readPID(p.pidFile()); err == nil {
				return nil
			}
			if p.err != nil {
				return p.err
			}
			return p.complaint()
		}
	}
}

func readPID(path string) (int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(b))
}

// complaint is what runc said when it could not start the process.
func (p *process) complaint() error {
	from := p.stderr
	if from == nil {
		from = p.stdout
	}
	b, err := io.ReadAll(io.LimitReader(from, 4096))
	text := strings.TrimSpace(string(b))
	if text == "" {
		return fmt.Errorf("runc exec left with status %d: %w", p.status, errors.Join(err, errEnded))
	}
	return errors.New(strings.TrimPrefix(text, "time="))
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // pipes and terminals: nothing is kept back
	}
}

func (p *process) Stdin() io.WriteCloser { return p.stdin }
func (p *process) Stdout() io.Reader     { return p.stdout }
func (p *process) Stderr() io.Reader     { return p.stderr }

func (p *process) Resize(columns, rows int) error {
	if p.master == nil {
		return errors.New("there is no terminal")
	}
	size := &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)} //nolint:gosec // a terminal is not that large
	if err := pty.Setsize(p.master, size); err != nil {
		return err
	}
	// Runc passes that on, unless it is not listening yet: so the terminal
	// inside is told as well.
	p.mu.Lock()
	id := p.id
	p.mu.Unlock()
	for fd := range 3 {
		tty, err := os.OpenFile("/proc/"+strconv.Itoa(id.PID)+"/fd/"+strconv.Itoa(fd), os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if id.Alive() && term.IsTerminal(int(tty.Fd())) {
			err = pty.Setsize(tty, size)
		}
		return errors.Join(err, tty.Close())
	}
	return nil
}

// Signal reaches what the process has started as well: it leads a group.
func (p *process) Signal(number int) error {
	p.mu.Lock()
	id := p.id
	p.mu.Unlock()
	select {
	case <-p.done:
		return nil
	default:
	}
	if id.PID == 0 {
		// Not started yet, and only Close or the engine's asks for that.
		<-p.started
		if p.cmd.Process != nil && number == int(syscall.SIGKILL) {
			_ = p.cmd.Process.Kill() // may have ended
		}
		return nil
	}
	if !id.Exists() {
		return nil
	}
	if err := syscall.Kill(-id.PID, syscall.Signal(number)); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

func (p *process) Wait() (int, error) {
	<-p.done
	return p.status, p.err
}

// Close kills what still runs and gives everything back.
func (p *process) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	err := p.Signal(int(syscall.SIGKILL))
	// A job in the background may hold the output after the command has ended;
	// runc would wait for it.
	if p.cmd.Process != nil {
		_ = p.cmd.Process.Kill()
	}
	<-p.done
	p.stop()
	closeAll(p.ours)
	return errors.Join(err, os.RemoveAll(p.dir))
}

// screen is what a terminal shows. A terminal that nobody has open any more is
// an error to the kernel and an end to us.
type screen struct{ master *os.File }

func (s screen) Read(b []byte) (int, error) {
	n, err := s.master.Read(b)
	if errors.Is(err, syscall.EIO) {
		err = io.EOF
	}
	return n, err
}

// keyboard is what is typed; its end is control-D.
type keyboard struct{ master *os.File }

func (k keyboard) Write(b []byte) (int, error) { return k.master.Write(b) }

func (k keyboard) Close() error {
	_, err := k.master.Write([]byte{4})
	return err
}
