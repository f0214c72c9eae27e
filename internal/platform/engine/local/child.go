//go:build linux

package local

import (
	"errors"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"ingot/internal/base/background"
)

// Child is a process that this server starts for an Exec, and that ends with the server.
type Child struct {
	cmd  *exec.Cmd
	done chan struct{} // closed after it was waited for

	status int
	err    error

	mu     sync.Mutex
	reaped bool
}

// NewChild returns a process that is not started yet. It leads its own session and process
// group, and controls the terminal, if there is one.
func NewChild(cmd *exec.Cmd, terminal bool) *Child {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setsid, cmd.SysProcAttr.Setctty = true, terminal // file descriptor 0 of the new process
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	return &Child{cmd: cmd, done: make(chan struct{})}
}

// Start starts it and returns when it runs or has failed. ended is called when it has
// ended, or was never started.
func (c *Child) Start(ended func()) error {
	started := make(chan error, 1)
	background.Go("engine exec", func() {
		defer ended()
		defer close(c.done)
		// The kernel kills it when the thread that started it ends, so the thread is kept
		// until then.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := background.Do("engine exec", c.cmd.Start)
		started <- err
		if err == nil && !background.Safely("engine exec", c.wait) {
			c.err = errors.New("exit status unknown")
		}
	})
	return <-started
}

func (c *Child) wait() {
	// Not cmd.Wait at once: until it is waited for, its pid is not reused, and Signal may
	// use it.
	early := waitExited(c.cmd.Process.Pid)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reaped = true
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.err = errors.Join(early, err)
		return
	}
	c.status = c.cmd.ProcessState.ExitCode()
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		c.status = 128 + int(ws.Signal())
	}
}

// waitExited waits until a child has ended, without reaping it.
func waitExited(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// Done is closed when it has ended.
func (c *Child) Done() <-chan struct{} { return c.done }

// Wait returns the exit status; 128 + signal when killed.
func (c *Child) Wait() (int, error) {
	<-c.done
	return c.status, c.err
}

// Signal sends a signal to its process group, which it leads.
func (c *Child) Signal(number int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped || c.cmd.Process == nil {
		return nil
	}
	return IgnoreGone(syscall.Kill(-c.cmd.Process.Pid, syscall.Signal(number)))
}

// IgnoreGone returns err, or nil if err says that there is no such process.
func IgnoreGone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}
