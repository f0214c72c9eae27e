package sshd

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/platform/engine"
)

// Programs are started through the instance's /bin/sh, which finds the right one and execs
// it, so that signals reach it. What a client sent is passed as arguments, never as script
// text.
const (
	shellScript = `[ -x /bin/bash ] && exec /bin/bash; exec /bin/sh`
	// The command comes in pieces, see pieces.
	commandScript = `IFS=; c="$*"; [ -x /bin/bash ] && exec /bin/bash -c "$c"; exec /bin/sh -c "$c"`
	sftpScript    = `for f in "$@"; do [ -x "$f" ] && exec "$f"; done
f=$(command -v sftp-server) && exec "$f"
echo 'sftp: there is no sftp-server in this instance. Files can still be copied with "scp -O" if the instance has scp, or with tar over "cf ssh -c".' >&2
exit 127`
)

// sftpPaths are the paths where distributions install their sftp server.
var sftpPaths = []string{
	"/usr/lib/openssh/sftp-server", "/usr/lib/ssh/sftp-server", "/usr/libexec/openssh/sftp-server",
	"/usr/libexec/sftp-server",
}

func script(text string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", text, "sh"}, args...)
}

func shellArgs() []string { return script(shellScript) }

func commandArgs(command string) []string { return script(commandScript, pieces(command)...) }

func sftpArgs(first []string) []string {
	return append(script(sftpScript, first...), sftpPaths...)
}

// pieces splits a command wherever an engine would see the start of a placeholder
// ({{home}}), so that the command is passed literally.
func pieces(command string) []string {
	var all []string
	for {
		i := strings.Index(command, "{{")
		if i < 0 {
			return append(all, command)
		}
		all = append(all, command[:i+1])
		command = command[i+1:]
	}
}

// process is a running process of a session.
type process struct {
	engine.Process
	session *session

	input  background.WaitGroup // copies the client's input
	done   chan struct{}        // closed when the client knows the exit status
	lost   chan struct{}        // closed when the client has closed the channel
	closed sync.Once
}

// close kills the process and releases its resources.
func (p *process) close() {
	p.closed.Do(func() {
		if err := p.Close(); err != nil {
			p.session.c.server.c.Log.Warn("killing a process of an ssh session failed", "error", err)
		}
	})
}

// kill kills all processes. It returns when none is left.
func (p *process) kill() {
	close(p.lost)
	p.close()
	<-p.done
	p.input.Wait()
}

// begin connects the process to the client.
func (p *process) begin() {
	server := p.session.c.server
	channel := p.session.channel
	p.input.Go("ssh session", func() {
		defer server.contain(p.session.c.end)
		// Reads no more than the process accepts, so that the client waits.
		_, _ = io.Copy(struct{ io.Writer }{p.Stdin()}, channel)
		_ = p.Stdin().Close()
	})
	flows := []*flow{{from: p.Stdout(), to: channel}}
	if stderr := p.Stderr(); stderr != nil {
		flows = append(flows, &flow{from: stderr, to: channel.Stderr()})
	}
	var output background.WaitGroup
	for _, f := range flows {
		output.Go("ssh session", func() {
			defer server.contain(p.session.c.end)
			f.run()
		})
	}
	drained := make(chan struct{})
	background.Go("ssh session", func() {
		defer close(drained)
		output.Wait()
	})
	background.Go("ssh session", func() {
		defer close(p.done)
		defer server.contain(p.session.c.end)
		status, err := p.Wait()
		if err != nil {
			server.c.Log.Warn("waiting for a process of an ssh session failed", "error", err)
			status = 255
		}
		p.awaitOutput(drained, flows)
		p.close()
		<-drained
		p.session.finish(status)
	})
}

// quietAfterExit is how long the output of a process that exited may be kept open by others
// that write nothing: background jobs.
const quietAfterExit = 500 * time.Millisecond

// quietLooks is how many times in a row no output must be found in that time. On a machine that
// stands still for a second, one look would see nothing, because the output was not read yet either.
const quietLooks = 5

// awaitOutput waits for the output to end after the process has. Output of other processes
// that still hold it open is passed on as long as they write.
func (p *process) awaitOutput(drained <-chan struct{}, flows []*flow) {
	for looks := 0; looks < quietLooks; {
		before := reads(flows)
		wake := make(chan struct{})
		stop := p.session.c.server.c.Clock.AfterFunc(quietAfterExit/quietLooks, func() { close(wake) })
		select {
		case <-drained:
			stop()
			return
		case <-p.lost:
			stop()
			return
		case <-wake:
		}
		looks++
		if !quiet(flows) || reads(flows) != before {
			looks = 0
		}
	}
}

// flow copies one output to the client.
type flow struct {
	from    io.Reader
	to      io.Writer
	reads   atomic.Int64
	waiting atomic.Bool // for output, or at its end
}

// flowBuffer is the largest packet of ssh.
const flowBuffer = 32 << 10

func (f *flow) run() {
	b := make([]byte, flowBuffer)
	for {
		f.waiting.Store(true)
		n, err := f.from.Read(b)
		f.reads.Add(1)
		if err != nil && n == 0 {
			return
		}
		f.waiting.Store(false)
		if _, err := f.to.Write(b[:n]); err != nil {
			f.waiting.Store(true)
			return
		}
	}
}

func reads(flows []*flow) (n int64) {
	for _, f := range flows {
		n += f.reads.Load()
	}
	return n
}

// quiet reports whether the client has received everything from all flows.
func quiet(flows []*flow) bool {
	for _, f := range flows {
		if !f.waiting.Load() {
			return false
		}
	}
	return true
}
