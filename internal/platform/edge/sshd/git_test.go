package sshd_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform/edge/sshd"
	"ingot/internal/platform/engine"
)

// fakeGit accepts theCode, and repeats what it is sent.
type fakeGit struct{}

func (fakeGit) Login(_ context.Context, code string) (sshd.User, string, error) {
	switch code {
	case theCode:
		return sshd.User{GUID: theUser, Name: "anna"}, "a-token", nil
	case "broken":
		return sshd.User{}, "", errBroken
	}
	return sshd.User{}, "", fault.New(fault.Unauthenticated, "that code is wrong")
}

func (fakeGit) Serve(ctx context.Context, c sshd.GitCommand) bool {
	fmt.Fprintf(c.Out, "%s %q %s\n", c.Service, c.Path, c.Token)
	switch {
	case strings.Contains(c.Path, "cut"):
		c.Cut()
		<-ctx.Done()
		return false
	case strings.Contains(c.Path, "stop"):
		<-c.Closing.Done()
		return false
	}
	_, err := io.Copy(c.Out, c.In)
	return err == nil && !strings.Contains(c.Path, "fails")
}

func withGit(c *sshd.Config) { c.Git = fakeGit{} }

func TestGitCommands(t *testing.T) {
	t.Parallel()
	w := setup(t, withGit)
	c, err := w.dialAs("git", theCode)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, x := range []struct {
		command, out string
		status       int
	}{
		{"git-receive-pack '/o/s/a'", `git-receive-pack "/o/s/a" a-token` + "\nhello", 0},
		{"git upload-pack 'o/s/a'", `git-upload-pack "o/s/a" a-token` + "\nhello", 0},
		{`git-upload-pack '/o/it'\''s/a'\!''`, `git-upload-pack "/o/it's/a!" a-token` + "\nhello", 0},
		{"git-receive-pack '/fails'", `git-receive-pack "/fails" a-token` + "\nhello", 1},
		{"git-receive-pack /o/s/a", "", 1}, {"git-receive-pack '/o/s/a'; id", "", 1}, {"git-receive-pack '/o/s/a", "", 1},
		{"git-receive-pack $(id)", "", 1}, {"git-receive-pack '/o\n/s'", "", 1}, {"git-receive-pack ''", "", 1},
		{`git-receive-pack '/o'\`, "", 1}, {"git-upload-archive '/o/s/a'", "", 1}, {"id", "", 1}, {"", "", 1},
		{" git-receive-pack '/o/s/a'", "", 1}, {"scp -t /tmp", "", 1},
	} {
		s := w.session(c)
		s.Stdin = strings.NewReader("hello")
		var out, errs strings.Builder
		s.Stdout, s.Stderr = &out, &errs
		if err := s.Run(x.command); out.String() != x.out || exitStatus(err) != x.status {
			t.Errorf("%q: %q, %v, want %q and %d", x.command, &out, err, x.out, x.status)
		}
		if x.out == "" && !strings.Contains(errs.String(), "Only git push, git fetch and git clone are possible here") {
			t.Errorf("%q: %q, want an explanation", x.command, &errs)
		}
	}
	if n := len(w.events); n != 0 {
		t.Errorf("%d events of an instance, want none", n)
	}
}

// TestGitIsAlone tries all that other connections may do.
func TestGitIsAlone(t *testing.T) {
	t.Parallel()
	w := setup(t, withGit, func(c *sshd.Config) { c.SFTPServers = []string{"/bin/cat"} })
	w.engine.fail = func(r engine.ExecRequest) error {
		t.Errorf("the engine starts %q", r.Args)
		return errors.New("no")
	}
	c, err := w.dialAs("git", theCode)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if conn, err := c.Dial("tcp", w.server.Addr().String()); err == nil {
		conn.Close()
		t.Error("a connection is forwarded")
	}
	if _, err := c.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("a port is forwarded back")
	}
	s := w.session(c)
	if err := errors.Join(s.Setenv("GIT_PROTOCOL", "version=2"), s.RequestPty("xterm", 24, 80, nil)); err == nil {
		t.Error("an environment and a terminal are accepted")
	}
	if err := s.RequestSubsystem("sftp"); err == nil {
		t.Error("files are transferred")
	}
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); exitStatus(err) != 1 {
		t.Errorf("a shell: %v, want exit status 1", err)
	}
	if ok, err := s.SendRequest("exec", true, []byte("\x00\x00\x00\x02id")); ok {
		t.Errorf("a second command: %v", err)
	}
}

func TestGitLogins(t *testing.T) {
	t.Parallel()
	without := setup(t)
	if _, err := without.dialAs("git", theCode); err == nil {
		t.Error("git is let in although it is not served")
	}
	w := setup(t, withGit, withLimits(sshd.Limits{AddressBurst: 2, UserSessions: 1}))
	if _, err := w.dialFrom("127.0.0.2", "git", "wrong"); err == nil {
		t.Error("let in with a wrong code")
	}
	if _, err := w.dialFrom("127.0.0.2", "git", "broken"); err == nil { // no guess
		t.Error("let in")
	}
	if _, err := w.dialFrom("127.0.0.2", "git", "wrong"); err == nil {
		t.Error("let in with a wrong code")
	}
	if _, err := w.dialFrom("127.0.0.2", "git", theCode); err == nil {
		t.Error("let in after too many wrong codes")
	}
	c, err := w.dialAs("git", theCode) // another address
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.dialAs("git", theCode); err == nil {
		t.Error("a user has more connections than the limit")
	}
	c.Close()
	if strings.Contains(w.log.String(), theCode) || strings.Contains(w.log.String(), "a-token") {
		t.Error("a code or a token is in the log")
	}
}

// TestGitEnds ends connections from the server's side.
func TestGitEnds(t *testing.T) {
	t.Parallel()
	w := setup(t, withGit)
	for _, path := range []string{"cut", "stop"} {
		c, err := w.dialAs("git", theCode)
		if err != nil {
			t.Fatal(err)
		}
		s := w.session(c)
		out, err := s.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start("git-upload-pack '" + path + "'"); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		if path == "stop" {
			w.server.Stop()
		}
		if err := s.Wait(); err == nil {
			t.Errorf("%s: the command succeeds", path)
		}
		c.Close()
	}
}
