//go:build linux

package process

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
	"strings"
	"sync"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"

	"ingot/internal/engine"
	"ingot/internal/engine/local"
	"ingot/internal/launch"
)

// Exec starts a process beside the instance's own: a child of this server, which
// ends with it.
func (e *Engine) Exec(ctx context.Context, id string, r engine.ExecRequest) (engine.Process, error) {
	d, err := e.lookup(id)
	if err != nil {
		return nil, err
	}
	if !e.running(d) {
		return nil, fmt.Errorf("instance %s has ended", id)
	}
	if err := errors.Join(ctx.Err(), e.open.Err()); err != nil {
		return nil, err
	}
	cmd, err := command(d, r)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	if r.Terminal != nil {
		err = p.terminal(r.Terminal, cmd.SysProcAttr.Credential)
	} else {
		err = p.pipes()
	}
	if err != nil {
		return nil, err
	}
	e.execs.Add(1)
	started := make(chan error)
	go func() {
		defer e.execs.Done()
		p.run(started)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", r.Args[0], err)
	}
	p.stop = context.AfterFunc(e.open, func() { _ = p.Signal(int(syscall.SIGKILL)) })
	return p, nil
}

// command is what Exec starts, without input and output.
func command(d *local.Dir, r engine.ExecRequest) (*exec.Cmd, error) {
	if len(r.Args) == 0 {
		return nil, errors.New("nothing to run")
	}
	m := d.Meta()
	words := wordsOf(d, m.Ports, "")
	args := words.All(r.Args)
	env := slices.Concat(mainEnv(m.Launch), words.All(r.Env))
	if r.Terminal != nil && r.Terminal.Term != "" {
		env = append(env, "TERM="+r.Terminal.Term)
	}
	dir := d.Home()
	if r.Dir != "" {
		dir = words.In(r.Dir)
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(d.Home(), dir)
		}
	}
	program, err := lookPath(args[0], env, dir)
	if err != nil {
		return nil, err
	}
	return &exec.Cmd{
		Path: program, Args: args, Env: env, Dir: dir,
		SysProcAttr: &syscall.SysProcAttr{
			Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: user(m.Launch),
		},
	}, nil
}

func mainEnv(s launch.Spec) []string {
	if len(s.Members) == 0 {
		return nil
	}
	return s.Members[0].Env
}

// lookPath finds a program as the instance's own shell would, not ours.
func lookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		if filepath.IsAbs(name) {
			return name, nil
		}
		return filepath.Join(dir, name), nil
	}
	path := "/usr/local/bin:/usr/bin:/bin"
	for _, v := range env {
		if value, ok := strings.CutPrefix(v, "PATH="); ok {
			path = value // the last one counts
		}
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder)
		}
		file := filepath.Join(folder, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: %w in PATH=%s", name, exec.ErrNotFound, path)
}

// process is one that Exec started.
type process struct {
	cmd    *exec.Cmd
	stop   func() bool
	theirs []*os.File // ends that the process alone is to have
	ours   []*os.File

	stdin          io.WriteCloser
	stdout, stderr io.Reader
	master         *os.File // of a terminal

	done   chan struct{} // closed when it was waited for
	status int
	err    error

	mu     sync.Mutex
	reaped bool
}

func (p *process) pipes() error {
	var files [3][2]*os.File
	for i := range files {
		r, w, err := os.Pipe()
		if err != nil {
			for _, f := range files[:i] {
				err = errors.Join(err, f[0].Close(), f[1].Close())
			}
			return err
		}
		files[i] = [2]*os.File{r, w}
	}
	in, out, errs := files[0], files[1], files[2]
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = in[0], out[1], errs[1]
	p.theirs = []*os.File{in[0], out[1], errs[1]}
	p.ours = []*os.File{in[1], out[0], errs[0]}
	p.stdin, p.stdout, p.stderr = in[1], out[0], errs[0]
	return nil
}

func (p *process) terminal(t *engine.Terminal, owner *syscall.Credential) error {
	master, tty, err := pty.Open()
	if err != nil {
		return err
	}
	if owner != nil {
		err = tty.Chown(int(owner.Uid), int(owner.Gid))
	}
	if err == nil && t.Columns > 0 && t.Rows > 0 {
		err = pty.Setsize(master, &pty.Winsize{Rows: uint16(t.Rows), Cols: uint16(t.Columns)})
	}
	if err != nil {
		return errors.Join(err, master.Close(), tty.Close())
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = tty, tty, tty
	p.cmd.SysProcAttr.Setctty = true // number 0 of the new process
	p.theirs, p.ours = []*os.File{tty}, []*os.File{master}
	p.master, p.stdin, p.stdout = master, keyboard{master}, screen{master}
	return nil
}

// run starts the process, says so, and waits for it. The kernel kills it when
// the thread that started it ends, so the thread is kept until then.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	closeAll(p.theirs)
	if err != nil {
		closeAll(p.ours)
	}
	started <- err
	if err != nil {
		return
	}
	defer close(p.done)
	// Not cmd.Wait at once: until it is waited for its number is its own, and
	// Signal may use it.
	p.err = waitExited(p.cmd.Process.Pid)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reaped = true
	err = p.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.err = errors.Join(p.err, err)
		return
	}
	p.err = nil
	p.status = p.cmd.ProcessState.ExitCode()
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		p.status = 128 + int(ws.Signal())
	}
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
	return pty.Setsize(p.master, &pty.Winsize{Rows: uint16(rows), Cols: uint16(columns)})
}

// Signal reaches what the process has started as well: it leads a group.
func (p *process) Signal(number int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.reaped {
		return nil
	}
	return ignoreGone(syscall.Kill(-p.cmd.Process.Pid, syscall.Signal(number)))
}

func ignoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

func (p *process) Wait() (int, error) {
	<-p.done
	return p.status, p.err
}

// Close kills what still runs and gives everything back.
func (p *process) Close() error {
	err := p.Signal(int(syscall.SIGKILL))
	<-p.done
	p.stop()
	closeAll(p.ours)
	return err
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

// waitExited blocks until a child has ended, and leaves it to be waited for.
func waitExited(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
