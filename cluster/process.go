//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A pid identifies a process, also after its number was given to another one.
type pid struct {
	Name    string
	Number  int
	Started string // by the kernel's clock
}

func pidOf(name string, number int) pid { return pid{name, number, startTime(number)} }

// startTime returns the start time of a process, or "" if it does not exist or is
// a zombie.
func startTime(number int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", number))
	if err != nil {
		return ""
	}
	// The name in parentheses can contain anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 || string(fields[0]) == "Z" {
		return ""
	}
	return string(fields[19])
}

func (p pid) alive() bool { return p.Started != "" && startTime(p.Number) == p.Started }

func (p pid) signal(s syscall.Signal) error {
	if !p.alive() {
		return nil
	}
	return syscall.Kill(p.Number, s)
}

// wait waits until the process has exited.
func (p pid) wait(limit time.Duration) bool {
	return eventually(limit, func() bool { return !p.alive() })
}

// terminate stops the process, with SIGKILL if SIGTERM is not enough.
func (p pid) terminate(limit time.Duration) error {
	if err := p.signal(syscall.SIGTERM); err != nil {
		return err
	}
	if p.wait(limit) {
		return nil
	}
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if !p.wait(10 * time.Second) {
		return fmt.Errorf("%s (process %d) does not exit", p.Name, p.Number)
	}
	return nil
}

// eventually polls until done returns true, and reports whether it did in time.
func eventually(limit time.Duration, done func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !done(); <-tick.C {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// A program is a running program of the cluster.
type program struct {
	pid
	log   string
	ended chan struct{}
}

// spawn starts a program. Its output goes to a file in log/.
func (c *cluster) spawn(name, path string, args ...string) (*program, error) {
	p := &program{log: filepath.Join(c.Dir, "log", name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(path, args...) //nolint:noctx // it is stopped in order, see clean
	cmd.Dir = c.Dir
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + c.Dir,
		"TMPDIR=" + c.Dir}
	// An interrupt from the terminal reaches only this process.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p.pid = pidOf(name, cmd.Process.Pid)
	go func() {
		_ = cmd.Wait() // its log has the reason
		close(p.ended)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Processes = append(c.Processes, p.pid)
	return p, c.save()
}

// await waits until ready returns nil, and fails when the program exits before.
func (p *program) await(ctx context.Context, ready func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.ended:
			return fmt.Errorf("%s exited:\n%s", p.Name, lastLines(p.log))
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w\n%s", p.Name, err, lastLines(p.log))
		}
	}
}

// lastLines returns the end of a log file.
func lastLines(file string) string {
	text, _ := os.ReadFile(file)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-15):], "\n")
}

// command runs a program and returns an error that contains its output.
func command(ctx context.Context, name string, args ...string) error {
	if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// processes returns the numbers of all processes of this machine.
func processes() []int {
	var all []int
	names, _ := filepath.Glob("/proc/[0-9]*")
	for _, name := range names {
		if n, err := strconv.Atoi(filepath.Base(name)); err == nil {
			all = append(all, n)
		}
	}
	return all
}
