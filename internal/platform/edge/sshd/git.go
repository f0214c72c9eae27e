package sshd

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"

	"golang.org/x/crypto/ssh"

	"ingot/internal/base/fault"
	"ingot/internal/base/logging"
)

// gitName is the user name for git; the password says who it is.
const gitName = "git"

// gitChannels limits the channels of a connection for git, which needs one.
const gitChannels = 8

// Git serves the repositories of apps to users who log in as git.
type Git interface {
	// Login redeems a one-time code for its owner and a token of theirs. Errors are those of
	// Authorizer.Authorize.
	Login(ctx context.Context, code string) (User, string, error)
	// Serve serves a command, and reports whether it was carried out or refused in the words of git's
	// protocol. The context is canceled when the client is gone.
	Serve(ctx context.Context, c GitCommand) bool
}

// GitCommand is a command of a git client.
type GitCommand struct {
	Service string // git-receive-pack or git-upload-pack
	Path    string // of the repository
	Token   string
	Remote  net.Addr
	In      io.Reader // ends when the client has sent everything, or is gone
	Out     io.Writer
	// Closing is canceled when the server stops, and Cut ends the connection.
	Closing context.Context
	Cut     func()
}

// gitLogin is the user of a connection for git.
type gitLogin struct {
	user  User
	token string
	// closing is canceled when the server stops.
	closing context.Context
}

// authenticateGit authenticates a client that wants to use git. A wrong password counts only for its address:
// a client cannot lock out others, who have the same user name.
func (c *connection) authenticateGit(ctx, closing context.Context, code string) error {
	s := c.server
	c.access = Access{Remote: c.conn.RemoteAddr()}
	address := addressKey(c.access.Remote)
	if !s.byAddress.take(address) {
		s.c.Log.InfoContext(ctx, "git over ssh refused: too many wrong passwords from this address")
		return errDenied
	}
	refuse := func(err error) error {
		c.slots.release()
		s.c.Log.InfoContext(ctx, "git over ssh refused", "error", err)
		return err
	}
	if !c.slots.take("", s.limits.Sessions) {
		s.byAddress.give(address)
		return refuse(fault.New(fault.RateLimited, "there are %d ssh connections already", s.limits.Sessions))
	}
	user, token, err := s.c.Git.Login(ctx, code)
	if err == nil || !refused(err) {
		s.byAddress.give(address)
	}
	if err != nil {
		return refuse(err)
	}
	if !c.slots.take("user "+user.GUID, s.limits.UserSessions) {
		return refuse(fault.New(fault.RateLimited, "the user has %d ssh connections already", s.limits.UserSessions))
	}
	c.access.UserGUID, c.access.UserName = user.GUID, user.Name
	c.git = &gitLogin{user: user, token: token, closing: closing}
	return nil
}

// serveGit serves an authenticated connection for git: sessions, and nothing else.
func (c *connection) serveGit(ctx context.Context, channels <-chan ssh.NewChannel, requests <-chan *ssh.Request) {
	ctx = logging.With(ctx, "user", c.git.user.Name)
	c.server.c.Log.InfoContext(ctx, "ssh connection for git opened")
	defer c.server.c.Log.InfoContext(ctx, "ssh connection for git closed")
	c.channels(ctx, channels, requests, min(c.server.limits.Channels, gitChannels))
}

// gitSession answers the requests of a channel of a connection for git.
func (s *session) gitSession(ctx context.Context, r *ssh.Request) (ok bool, then func()) {
	var m struct{ Command string }
	switch {
	case s.served, r.Type != "shell" && r.Type != "exec":
		return false, nil
	case r.Type == "exec" && (ssh.Unmarshal(r.Payload, &m) != nil || len(m.Command) > maxCommand):
		return false, nil
	}
	s.served = true
	service, path, known := parseGit(m.Command)
	if !known {
		return true, func() {
			fmt.Fprintf(s.channel.Stderr(), "Welcome, %s. Only git push, git fetch and git clone are possible here; "+
				"ingot ssh APP opens a shell in an app.\r\n", s.c.git.user.Name)
			s.finish(1)
		}
	}
	return true, func() {
		done := s.c.server.c.Git.Serve(ctx, GitCommand{
			Service: service, Path: path, Token: s.c.git.token, Remote: s.c.access.Remote, In: s.channel, Out: s.channel,
			Closing: s.c.git.closing, Cut: s.c.end,
		})
		status := 0
		if !done {
			status = 1
		}
		s.finish(status)
	}
}

// parseGit parses the command that git gives to ssh: a service and a quoted path. Nothing else
// is a command.
func parseGit(command string) (service, path string, ok bool) {
	for _, name := range []string{"receive-pack", "upload-pack"} {
		for _, form := range []string{"git-", "git "} {
			if rest, found := strings.CutPrefix(command, form+name+" "); found {
				path, ok = unquote(rest)
				return "git-" + name, path, ok
			}
		}
	}
	return "", "", false
}

// unquote undoes the quotes of git: the text is in single quotes, outside of which are only
// quotes and exclamation marks behind a backslash.
func unquote(text string) (string, bool) {
	var out strings.Builder
	for text != "" {
		if text[0] == '\\' && len(text) > 1 && (text[1] == '\'' || text[1] == '!') {
			out.WriteByte(text[1])
			text = text[2:]
			continue
		}
		quoted, rest, closed := strings.Cut(strings.TrimPrefix(text, "'"), "'")
		if text[0] != '\'' || !closed {
			return "", false
		}
		out.WriteString(quoted)
		text = rest
	}
	return out.String(), out.Len() > 0 && !strings.ContainsFunc(out.String(), func(c rune) bool { return c < ' ' })
}
