//go:build linux

package container

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/term"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container/network"
	"ingot/internal/platform/engine/local"
)

// Exec runs another process in the instance through `runc exec`, which waits for it and
// passes on its exit status. It ends with this server.
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
	if in.Image != nil && !hasShell(in.Init) {
		return nil, engine.NoShell()
	}
	dir, err := os.MkdirTemp(e.bundle(id), "exec")
	if err != nil {
		return nil, err
	}
	p := &process{dir: dir}
	if in.hasMemberGroups() {
		p.move = func(pid int) {
			// It may have ended. Otherwise it stays with ingot-init, within the instance too.
			_ = moveTo(e.groups, filepath.Join(e.groupOf(id), execGroup), pid)
		}
	}
	if err := e.execute(ctx, p, in, r); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s in instance %s: %w", r.Args[0], id, err), os.RemoveAll(dir))
	}
	p.stop = background.OnDone(e.open, "engine exec", func() { _ = p.Signal(int(syscall.SIGKILL)) })
	if err := p.await(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s in instance %s: %w", r.Args[0], id, err), p.Close())
	}
	return p, nil
}

// relay moves the pipes that runc passes through to the standard descriptors and execs the
// process. Pipes of runc's own would stay open in background processes, and runc would wait
// for them.
const relay = `exec "$@" <&3 >&4 2>&5 3<&- 4>&- 5>&-`

// enter changes to the directory $0, if there is one, and execs the process.
const enter = `cd "$0" 2>/dev/null; exec "$@"`

// execute starts runc. If it fails, nothing is left but the process's directory.
func (e *Engine) execute(ctx context.Context, p *process, in *instance, r engine.ExecRequest) error {
	m := in.dir.Meta()
	what := processOf(in, r)
	args := []string{"exec", "--process", p.file("process.json"), "--pid-file", p.file("pid")}
	var owner *local.Owner
	if r.Terminal == nil {
		what.Args = append([]string{"/bin/sh", "-c", relay, "sh"}, what.Args...)
		args = append(args, "--preserve-fds", "3")
		owner = &local.Owner{User: e.users.outside(in.Base, m.Launch.User),
			Group: e.users.outside(in.Base, m.Launch.Group)}
	}
	if err := local.WriteJSON(p.file("process.json"), what); err != nil {
		return err
	}
	cmd := e.runc.command(context.WithoutCancel(ctx), append(args, in.dir.ID())...)
	if alone(e.groups) {
		startIn(e.groups, e.groupOf(in.dir.ID()), cmd)
	}
	says, err := os.OpenFile(p.file("says"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer says.Close()
	if p.Stdio, err = local.NewStdio(r.Terminal, owner); err != nil {
		return err
	}
	defer p.CloseTheirs()
	cmd.Stdout, cmd.Stderr = says, says
	if r.Terminal == nil {
		cmd.ExtraFiles = p.Theirs[:]
	} else {
		// Runc passes a terminal of the host on to one inside. (A console socket would save
		// the copying, but then runc exits at once and the exit status is lost.) It makes
		// it raw too, but input typed before would be echoed twice.
		err = p.Raw()
		cmd.Stdin, cmd.Stdout, cmd.Stderr = p.Theirs[0], p.Theirs[1], p.Theirs[2]
	}
	leave := func() {}
	if err == nil {
		leave, err = e.enter()
	}
	if err == nil {
		p.runc = local.NewChild(cmd, r.Terminal != nil)
		err = p.runc.Start(leave)
	}
	if err != nil {
		p.CloseOurs()
	}
	return err
}

// processOf returns the process for runc: the instance's user, with the environment of its
// main process and without capabilities.
func processOf(in *instance, r engine.ExecRequest) specs.Process {
	m, words := in.dir.Meta(), in.words("")
	env, dir := []string{"PATH=" + pathInside, "HOME=" + words.Home, "USER=vcap"}, words.Home
	if in.Image != nil {
		env, dir = nil, in.Image.Dir
	}
	if len(m.Launch.Members) > 0 {
		env = append(env, m.Launch.Members[0].Env...)
	}
	env = append(env, words.All(r.Env)...)
	if r.Dir != "" {
		if r.Dir = words.In(r.Dir); !filepath.IsAbs(r.Dir) {
			r.Dir = filepath.Join(words.Home, r.Dir)
		}
		dir = r.Dir
	}
	args := words.All(r.Args)
	if in.Image != nil {
		// The image says what the directory is, and it may be a link of any kind: so the
		// process itself enters it, and not runc, which has files of the host open.
		args, dir = append([]string{"/bin/sh", "-c", enter, dir}, args...), "/"
	}
	p := specs.Process{
		Args: args, Cwd: dir,
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

// lastOfEach drops variables that are set again later.
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

// process is a process started by Exec, through runc.
type process struct {
	*local.Stdio
	runc *local.Child
	dir  string        // for files that runc reads and writes
	move func(pid int) // moves it into the control group of such processes; nil if there is none
	stop func() bool

	mu     sync.Mutex
	id     local.ProcessID // of the process itself, once known
	closed bool
}

func (p *process) file(name string) string { return filepath.Join(p.dir, name) }

// await returns when the process runs, or the reason why it does not.
func (p *process) await(ctx context.Context) error {
	for wait := time.Millisecond; ; wait = min(2*wait, 10*time.Millisecond) {
		if pid, err := readPID(p.file("pid")); err == nil {
			id, err := local.Identify(pid)
			// Killed before ingot-init, like its members; a process that has ended needs no
			// score.
			_ = os.WriteFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", []byte("1000"), 0)
			if p.move != nil {
				p.move(pid)
			}
			p.mu.Lock()
			p.id = id
			p.mu.Unlock()
			if errors.Is(err, os.ErrProcessDone) {
				err = nil // it has already ended
			}
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		case <-p.runc.Done():
			if _, err := readPID(p.file("pid")); err == nil {
				return nil
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

// complaint returns the error of runc when it could not start the process.
func (p *process) complaint() error {
	status, err := p.runc.Wait()
	if err != nil {
		return err
	}
	text := lastWords(p.file("says"))
	if text == "" && p.Stderr() == nil {
		b, err := io.ReadAll(io.LimitReader(p.Stdout(), 4096)) // part of a message
		if err == nil && len(b) > 0 {
			text = ": " + strings.TrimSpace(string(b))
		}
	}
	if text == "" {
		return fmt.Errorf("runc exec left with status %d: %w", status, network.ErrEnded)
	}
	return fmt.Errorf("runc exec left with status %d%s", status, text)
}

// Resize changes the size of the terminal.
func (p *process) Resize(columns, rows int) error {
	if err := p.Stdio.Resize(columns, rows); err != nil {
		return err
	}
	// Runc passes the size on, unless it is not listening yet: so the terminal inside is
	// resized as well.
	p.mu.Lock()
	id := p.id
	p.mu.Unlock()
	for fd := range 3 {
		tty, err := os.OpenFile("/proc/"+strconv.Itoa(id.PID)+"/fd/"+strconv.Itoa(fd),
			os.O_RDWR|syscall.O_NOCTTY|syscall.O_NONBLOCK, 0)
		if err != nil {
			continue
		}
		if id.Alive() && term.IsTerminal(int(tty.Fd())) {
			err = pty.Setsize(tty, local.WindowSize(columns, rows))
		}
		return errors.Join(err, tty.Close())
	}
	return nil
}

// Signal signals the process group, which the process leads.
func (p *process) Signal(number int) error {
	p.mu.Lock()
	id := p.id
	p.mu.Unlock()
	select {
	case <-p.runc.Done():
		return nil
	default:
	}
	if id.PID == 0 {
		// Not started yet, and only Close or the engine's Close sends that.
		if number == int(syscall.SIGKILL) {
			return p.runc.Signal(number)
		}
		return nil
	}
	if !id.Exists() {
		return nil
	}
	return local.IgnoreGone(syscall.Kill(-id.PID, syscall.Signal(number)))
}

// Wait returns the exit status.
func (p *process) Wait() (int, error) { return p.runc.Wait() }

// Close kills the process if it still runs and releases its resources.
func (p *process) Close() error {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if closed {
		return nil
	}
	err := p.Signal(int(syscall.SIGKILL))
	// A background job may hold a terminal after the command has ended; runc would wait for
	// it.
	err = errors.Join(err, p.runc.Signal(int(syscall.SIGKILL)))
	<-p.runc.Done()
	p.stop()
	p.CloseOurs()
	return errors.Join(err, os.RemoveAll(p.dir))
}
