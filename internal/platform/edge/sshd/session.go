package sshd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/fault"
	"ingot/internal/platform/engine"
)

// Limits of what a client may set before it starts a process.
const (
	maxVariables   = 128
	maxEnvironment = 64 << 10 // bytes
	maxTerm        = 64
	maxCommand     = 96 << 10 // the kernel allows 128 KiB for one argument
	maxSize        = 4096     // columns and rows of a terminal
)

// session is one session channel: a shell, a command or a file transfer.
type session struct {
	c        *connection
	channel  ssh.Channel
	env      []string
	envSize  int
	terminal *engine.Terminal
	process  *process // once started
	served   bool     // a command of git, or its refusal

	mu      sync.Mutex
	signals []int // signals that the client sent
}

// session serves a channel until the client closes it.
func (c *connection) session(ctx context.Context, nc ssh.NewChannel) {
	channel, requests, err := nc.Accept()
	if err != nil {
		return
	}
	s := &session{c: c, channel: channel}
	defer func() {
		if s.process != nil {
			s.process.kill()
		}
		_ = channel.Close()
	}()
	for r := range requests {
		ok, then := s.handle(ctx, r)
		_ = r.Reply(ok, nil)
		if then != nil {
			then()
		}
	}
}

// handle answers a request; then runs after the answer was sent.
func (s *session) handle(ctx context.Context, r *ssh.Request) (ok bool, then func()) {
	if s.c.git != nil {
		return s.gitSession(ctx, r)
	}
	switch r.Type {
	case "env":
		return s.setEnv(r.Payload), nil
	case "pty-req":
		return s.setTerminal(r.Payload), nil
	case "window-change":
		return s.resize(r.Payload), nil
	case "signal":
		return s.signal(r.Payload), nil
	case "shell":
		return s.start(ctx, shellArgs())
	case "exec":
		var m struct{ Command string }
		if ssh.Unmarshal(r.Payload, &m) != nil || len(m.Command) > maxCommand || strings.ContainsRune(m.Command, 0) {
			return false, nil
		}
		return s.start(ctx, commandArgs(m.Command))
	case "subsystem":
		var m struct{ Name string }
		if ssh.Unmarshal(r.Payload, &m) != nil || m.Name != "sftp" || s.terminal != nil {
			return false, nil
		}
		return s.start(ctx, sftpArgs(s.c.server.c.SFTPServers))
	}
	return false, nil
}

func (s *session) setEnv(payload []byte) bool {
	var m struct{ Name, Value string }
	if s.process != nil || ssh.Unmarshal(payload, &m) != nil || !isVariable(m.Name) || strings.ContainsRune(m.Value, 0) {
		return false
	}
	s.envSize += len(m.Name) + len(m.Value) + 2
	if len(s.env) >= maxVariables || s.envSize > maxEnvironment {
		return false
	}
	s.env = append(s.env, m.Name+"="+m.Value)
	return true
}

// isVariable reports whether a shell could use the name.
func isVariable(name string) bool {
	return name != "" && len(name) <= 256 && notDigit(rune(name[0])) &&
		!strings.ContainsFunc(name, func(c rune) bool { return notInGUID(c) || c == '-' })
}

func (s *session) setTerminal(payload []byte) bool {
	var m struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if s.process != nil || s.terminal != nil || ssh.Unmarshal(payload, &m) != nil || len(m.Term) > maxTerm ||
		strings.ContainsFunc(m.Term, func(c rune) bool { return c <= ' ' || c > '~' || c == '{' }) {
		return false
	}
	s.terminal = &engine.Terminal{Term: m.Term, Columns: size(m.Columns, 80), Rows: size(m.Rows, 24)}
	return true
}

func (s *session) resize(payload []byte) bool {
	var m struct{ Columns, Rows, Width, Height uint32 }
	if s.terminal == nil || ssh.Unmarshal(payload, &m) != nil {
		return false
	}
	s.terminal.Columns, s.terminal.Rows = size(m.Columns, s.terminal.Columns), size(m.Rows, s.terminal.Rows)
	if s.process == nil {
		return true
	}
	return s.process.Resize(s.terminal.Columns, s.terminal.Rows) == nil
}

// size limits a number of columns or rows; 0 means that the client does not know.
func size(n uint32, unknown int) int {
	if n == 0 {
		return unknown
	}
	return int(min(n, maxSize))
}

// signalNumbers are the numbers of the signals of RFC 4254 in instances.
var signalNumbers = map[string]int{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "ABRT": 6, "FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12,
	"PIPE": 13, "ALRM": 14, "TERM": 15,
}

func (s *session) signal(payload []byte) bool {
	var m struct{ Name string }
	if s.process == nil || ssh.Unmarshal(payload, &m) != nil {
		return false
	}
	number, known := signalNumbers[m.Name]
	if !known {
		return false
	}
	s.mu.Lock()
	s.signals = append(s.signals, number)
	if len(s.signals) > len(signalNumbers) {
		slices.Sort(s.signals)
		s.signals = slices.Compact(s.signals)
	}
	s.mu.Unlock()
	return s.process.Signal(number) == nil
}

// start starts a process in the instance, once per channel.
func (s *session) start(ctx context.Context, args []string) (ok bool, then func()) {
	if s.process != nil {
		return false, nil
	}
	server := s.c.server
	ctx, cancel := context.WithTimeout(ctx, server.limits.StartTimeout)
	defer cancel()
	running, err := server.c.Engine.Exec(ctx, s.c.access.InstanceID, engine.ExecRequest{
		Args: args,
		// The home directory of the user, not of the app.
		Env:      slices.Concat([]string{"HOME={{home}}"}, s.c.access.Env, s.env),
		Terminal: s.terminal,
	})
	if err != nil {
		server.c.Log.WarnContext(ctx, "starting a process in the instance failed", "error", err)
		reason := "nothing can be started in this instance. Does it still run?"
		var known *fault.Error
		if errors.As(err, &known) && known.Code == fault.Unprocessable {
			reason = known.Message
		}
		fmt.Fprintln(s.channel.Stderr(), "ssh: "+reason)
		s.c.gone(err)
		return false, nil
	}
	s.process = &process{Process: running, session: s, done: make(chan struct{}), lost: make(chan struct{})}
	return true, s.process.begin
}

// finish sends the exit status to the client, and closes the channel.
func (s *session) finish(status int) {
	_ = s.channel.CloseWrite()
	if name := s.killedBy(status); name != "" {
		_, _ = s.channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Name     string
			Core     bool
			Message  string
			Language string
		}{Name: name}))
	} else {
		_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
	}
	_ = s.channel.Close()
}

// killedBy returns the name of the signal that ended the process if the client sent it.
// Otherwise 128 + N may as well be the exit status of a shell; and clients show an exit
// status unchanged, while many lose the number of a signal.
func (s *session) killedBy(status int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, number := range signalNumbers {
		if status == 128+number && slices.Contains(s.signals, number) {
			return name
		}
	}
	return ""
}
