package gitpush

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/storage/gitpack"
)

// maxCommands limits the references that a push may change, and maxRef their names: all are in memory.
const (
	maxCommands = 1000
	maxRef      = 1024
)

// longestReason limits the reason of a refusal, which git shows in one line.
const longestReason = 600

// command is the change of a reference.
type command struct {
	old, new gitpack.Hash
	ref      string
	refused  string // why it is
}

// push is a push in progress.
type push struct {
	*API
	*target
	r        *http.Request // with a context that outlives the client
	commands []*command
	shallow  bool // the client has only a part of the history
	// streamed: the body has no end, and the pack has to be followed to its own.
	streamed bool
	kept     *stored
	objects  *gitpack.Objects
	terminal *terminal
}

// receive handles a push: all of its data, then the deployment, whose output is the response.
func (a *API) receive(w http.ResponseWriter, r *http.Request) error {
	t, err := a.mayPush(r)
	if err != nil {
		return err
	}
	if r.Header.Get("Content-Encoding") != "" {
		return fault.New(fault.UnsupportedMedia, "The data of a push cannot be compressed as a whole")
	}
	p := &push{API: a, target: t, streamed: isStream(r.Context())}
	capabilities, err := p.readCommands(r.Body)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-"+receivePack+"-result")
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("X-Accel-Buffering", "no")
	if len(p.commands) == 0 {
		return nil // git asks first whether a large push would be accepted
	}
	p.terminal = newTerminal(w, !slices.Contains(capabilities, "side-band-64k"))
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	stop := background.OnDone(web.Closing(r.Context()), "git push", cancel)
	defer stop()
	p.r = r.WithContext(ctx)
	p.run(r.Body)
	p.terminal.finish(p.report())
	return nil
}

// readCommands reads what a push changes, and returns the client's capabilities.
func (p *push) readCommands(r io.Reader) (capabilities []string, err error) {
	for {
		line, flush, err := readLine(r)
		if err != nil {
			return nil, errProtocol
		}
		if flush {
			return capabilities, nil
		}
		text, more, _ := bytes.Cut(line, []byte{0})
		if id, is := bytes.CutPrefix(text, []byte("shallow ")); is {
			if _, err := readID(id); err != nil {
				return nil, err
			}
			p.shallow = true
			continue
		}
		if len(p.commands) == 0 {
			capabilities = strings.Fields(string(more))
		}
		fields := bytes.SplitN(text, []byte(" "), 3)
		if len(fields) != 3 || len(fields[2]) > maxRef || len(p.commands) >= maxCommands {
			return nil, errProtocol
		}
		from, err := readID(fields[0])
		if err != nil {
			return nil, err
		}
		to, err := readID(fields[1])
		if err != nil {
			return nil, err
		}
		// A copy of the name: the line may have 64 KiB behind it.
		p.commands = append(p.commands, &command{old: from, new: to, ref: string(fields[2])})
	}
}

// report is the result of every reference.
func (p *push) report() []byte {
	out := appendLine(nil, "unpack ok\n")
	for _, c := range p.commands {
		line := "ok " + c.ref
		if c.refused != "" {
			line = "ng " + c.ref + " " + oneLine(c.refused, longestReason)
		}
		out = appendLine(out, line+"\n")
	}
	return append(out, flushLine...)
}

// run does the push, and sets why references are refused.
func (p *push) run(body io.Reader) {
	if p.streamed {
		body = gitpack.Stream(body, gitpack.Limits{Bytes: p.MaxUpload})
	} else {
		// git shows the answer only after it has sent everything.
		defer func() { _, _ = io.Copy(io.Discard, body) }()
	}
	if p.shallow {
		p.refuse(fault.New(fault.Unprocessable,
			"a shallow clone cannot be pushed, because it has only a part of the history: run git fetch --unshallow first"))
		return
	}
	leave, err := p.enter()
	if err != nil {
		p.refuse(err)
		return
	}
	defer leave()
	if err := p.open(); err != nil {
		p.refuse(err)
		return
	}
	defer p.kept.Close()
	c := p.choose()
	if c == nil {
		return
	}
	if err := background.Do("git push", func() error { return p.deploy(c, body) }); err != nil {
		c.refused = p.explain(err)
	}
}

// enter reserves a slot on this server, and the app on all servers.
func (p *push) enter() (leave func(), err error) {
	app := p.space.GUID + "/" + p.name
	free, err := p.slots.enter(rest.CallerOf(p.r).GUID, p.org.GUID, app)
	if err != nil || p.Claim == nil {
		return free, err
	}
	release, ok, err := p.Claim(p.r.Context(), "git push "+app)
	if err == nil && !ok {
		err = errInProgress
	}
	if err != nil {
		free()
		return nil, err
	}
	return func() {
		release()
		free()
	}, nil
}

// open looks up the app and its repository, which an earlier push may have changed since this one began.
func (p *push) open() (err error) {
	if p.target, err = p.mayPush(p.r); err == nil {
		p.kept, err = p.repository(p.r.Context(), p.guid())
	}
	return err
}

// refuse refuses everything for the same reason.
func (p *push) refuse(err error) {
	text := p.explain(err)
	for _, c := range p.commands {
		c.refused = text
	}
}

// explain returns what the user may see of an error.
func (p *push) explain(err error) string {
	var missing *gitpack.MissingError
	switch {
	case errors.As(err, &missing):
		return missing.Error() + ": push again"
	case p.r.Context().Err() != nil:
		return "the server is being stopped: push again"
	}
	return strings.Join(web.Explain(p.r.Context(), p.Log, err).Messages(), "; ")
}

const heads = "refs/heads/"

// choose returns the command that is to be deployed, and refuses the others.
func (p *push) choose() (chosen *command) {
	branch := p.kept.ref
	for _, c := range p.commands {
		name, isBranch := strings.CutPrefix(c.ref, heads)
		into := strings.TrimPrefix(branch, heads)
		if into == "" {
			into = "main"
		}
		switch {
		case strings.HasPrefix(c.ref, "refs/tags/"):
			c.refused = "tags are not deployed: push the branch " + into
		case !isBranch:
			c.refused = "only branches are deployed"
		case c.new.IsZero():
			c.refused = "a branch that is deployed cannot be deleted: delete the app with ingot delete " + p.name
		case branch != "" && c.ref != branch, branch == "" && name != "main" && name != "master":
			c.refused = fmt.Sprintf("only the branch %s is deployed: deploy this one with git push ingot %s:%s", into, name,
				into)
		case chosen != nil:
			c.refused = "only one branch is deployed at a time"
		case !c.old.IsZero() && (!p.kept.current(p.app) || c.old != p.kept.commit):
			c.refused = "the app was deployed by someone else in the meantime: push again"
		default:
			chosen = c
		}
	}
	return chosen
}
