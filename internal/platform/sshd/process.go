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

// The programs are started through the instance's /bin/sh, which finds out
// what there is and gives way to it, so that signals reach the right process.
// Arguments, never text, are what a client sent.
const (
	shellScript = `[ -x /bin/bash ] && exec /bin/bash; exec /bin/sh`
	// The command comes in pieces, see pieces.
	commandScript = `IFS=; c="$*"; [ -x /bin/bash ] && exec /bin/bash -c "$c"; exec /bin/sh -c "$c"`
	sftpScript    = `for f in "$@"; do [ -x "$f" ] && exec "$f"; done
f=$(command -v sftp-server) && exec "$f"
echo 'sftp: there is no sftp-server in this instance. Files can still be copied with "scp -O" if the instance has scp, or with tar over "cf ssh -c".' >&2
exit 127`
)

// sftpPlaces are where distributions put their sftp server.
var sftpPlaces = []string{
	"/usr/lib/openssh/sftp-server", "/usr/lib/ssh/sftp-server", "/usr/libexec/openssh/sftp-server", "/usr/libexec/sftp-server",
}

func script(text string, args ...string) []string {
	return append([]string{"/bin/sh", "-c", text, "sh"}, args...)
}

func shellArgs() []string { return script(shellScript) }

func commandArgs(command string) []string { return script(commandScript, pieces(command)...) }

func sftpArgs(first []string) []string {
	return append(script(sftpScript, first...), sftpPlaces...)
}

// pieces cuts a command wherever an engine would see the beginning of a word
// to be replaced ({{home}}): the client means what it says.
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

// process is one that runs for a session.
type process struct {
	engine.Process
	session *session

	input  background.WaitGroup // what the client types, on its way
	done   chan struct{}        // closed when the client knows how it ended
	lost   chan struct{}        // closed when the client is no longer interested
	closed sync.Once
}

// close kills the process and gives back what it had.
func (p *process) close() {
	p.closed.Do(func() {
		if err := p.Close(); err != nil {
			p.session.c.server.c.Log.Warn("a process of an ssh session could not be ended", "error", err)
		}
	})
}

// kill ends everything. It returns when nothing is left.
func (p *process) kill() {
	close(p.lost)
	p.close()
	<-p.done
	p.input.Wait()
}

// begin connects the process with the client.
func (p *process) begin() {
	server := p.session.c.server
	channel := p.session.channel
	p.input.Go("ssh session", func() {
		defer server.contain(p.session.c.end)
		// Not more is read than the process takes, so that the client waits.
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
			server.c.Log.Warn("how a process of an ssh session ended is not known", "error", err)
			status = 255
		}
		p.drain(drained, flows)
		p.close()
		<-drained
		p.session.finish(status)
	})
}

// quietAfterExit is how long a process that left may have its output held open
// by others that say nothing: background jobs.
const quietAfterExit = 500 * time.Millisecond

// drain waits for the output to end after the process has. What others write
// who still have it open is passed on as long as they write.
func (p *process) drain(drained <-chan struct{}, flows []*flow) {
	for {
		before := reads(flows)
		wake := make(chan struct{})
		stop := p.session.c.server.c.Clock.AfterFunc(quietAfterExit, func() { close(wake) })
		select {
		case <-drained:
			stop()
			return
		case <-p.lost:
			stop()
			return
		case <-wake:
		}
		if quiet(flows) && reads(flows) == before {
			return
		}
	}
}

// flow is one output on its way to the client.
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

// quiet tells whether no flow has anything the client has not taken yet.
func quiet(flows []*flow) bool {
	for _, f := range flows {
		if !f.waiting.Load() {
			return false
		}
	}
	return true
}
