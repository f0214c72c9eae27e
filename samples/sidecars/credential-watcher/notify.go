package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/samples/internal/sample"
)

// notifier tells a process that its configuration has changed. Every way that is set is
// used.
type notifier struct {
	signal   syscall.Signal
	pidFile  string
	process  string // the name of a process
	command  string
	url      string
	timeout  time.Duration
	proc     string // /proc
	instance string // the guid of this instance
	client   http.Client
}

// signals are those that make sense for a configuration.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "TERM": syscall.SIGTERM,
	"INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "WINCH": syscall.SIGWINCH,
}

// notify returns what it did.
func (n *notifier) notify(ctx context.Context) (string, error) {
	var did []string
	var problems []error
	try := func(set bool, do func(context.Context) (string, error)) {
		if !set {
			return
		}
		limited, cancel := context.WithTimeout(ctx, n.timeout)
		defer cancel()
		text, err := do(limited)
		if err != nil {
			problems = append(problems, err)
			return
		}
		did = append(did, text)
	}
	try(n.pidFile != "" || n.process != "", n.sendSignal)
	try(n.command != "", n.runCommand)
	try(n.url != "", n.post)
	return strings.Join(did, ", "), errors.Join(problems...)
}

func (n *notifier) sendSignal(context.Context) (string, error) {
	ids, err := n.targets()
	if err != nil {
		return "", err
	}
	for _, id := range ids {
		if err := syscall.Kill(id, n.signal); err != nil {
			return "", fmt.Errorf("send %s to process %d: %w", n.signal, id, err)
		}
	}
	return fmt.Sprintf("sent %s to %v", strings.ToUpper(n.signal.String()), ids), nil
}

// targets returns the processes to signal. Those of other instances are never among
// them: without containers, they are visible and have the same user.
func (n *notifier) targets() ([]int, error) {
	if n.pidFile != "" {
		text, err := os.ReadFile(n.pidFile)
		if err != nil {
			return nil, err
		}
		id, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil || id < 2 {
			return nil, fmt.Errorf("%s contains %.20q, which is no process id", n.pidFile, text)
		}
		if err := n.own(id); err != nil {
			return nil, fmt.Errorf("process %d of %s: %w", id, n.pidFile, err)
		}
		return []int{id}, nil
	}
	entries, err := os.ReadDir(n.proc)
	if err != nil {
		return nil, err
	}
	var found []int
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		if err != nil || id == os.Getpid() || n.nameOf(id) != n.process || n.own(id) != nil {
			continue
		}
		found = append(found, id)
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("no process %s runs in this instance", n.process)
	}
	return found, nil
}

// nameOf returns the name of a process: its program without the folder, or empty.
func (n *notifier) nameOf(id int) string {
	text, err := os.ReadFile(filepath.Join(n.proc, strconv.Itoa(id), "cmdline"))
	if err != nil || len(text) == 0 {
		return ""
	}
	program, _, _ := bytes.Cut(text, []byte{0})
	return filepath.Base(string(program))
}

// own returns an error if a process does not belong to this instance.
func (n *notifier) own(id int) error {
	dir := filepath.Join(n.proc, strconv.Itoa(id))
	info, err := os.Stat(dir)
	if err != nil {
		return errors.New("it does not run")
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Getuid() {
		return errors.New("it belongs to another user")
	}
	if n.instance == "" {
		return nil
	}
	instance, err := sample.ProcessVariable(filepath.Join(dir, "environ"), sample.InstanceVariable)
	if err != nil {
		return err
	}
	if instance != n.instance {
		return errors.New("it belongs to another instance")
	}
	return nil
}

func (n *notifier) runCommand(ctx context.Context) (string, error) {
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", n.command) //nolint:gosec // that is what the setting is for
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run %q: %w: %.500s", n.command, err, bytes.TrimSpace(out))
	}
	return fmt.Sprintf("ran %q", n.command), nil
}

func (n *notifier) post(ctx context.Context) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, n.url, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := n.client.Do(r) //nolint:gosec // the address is the user's own setting
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 500))
	if answer.StatusCode/100 != 2 {
		return "", fmt.Errorf("POST %s: %s: %s", n.url, answer.Status, bytes.TrimSpace(text))
	}
	return "posted to " + n.url, nil
}
