package sshd_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/platform/edge/sshd"
)

// openSSH runs a program of OpenSSH against the gateway. The password comes
// from a script, as there is no terminal to type it.
type openSSH struct {
	*world
	dir  string
	user string
}

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("OpenSSH's %s is not installed here", name)
		}
	}
}

func newOpenSSH(t *testing.T) *openSSH {
	t.Helper()
	o := &openSSH{setup(t, func(c *sshd.Config) {
		c.SFTPServers = []string{"/no/such/sftp-server",
			"{{home}}/.sftp-server"}
	}), t.TempDir(), theName}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.write(filepath.Join(o.dir, "askpass"), "#!/bin/sh\necho "+theCode+"\n", 0o755)
	o.write(filepath.Join(o.engine.home, ".sftp-server"), "#!/bin/sh\n"+serveFiles+"=1 exec '"+self+"'\n", 0o755)
	return o
}

func (o *openSSH) write(path, content string, mode os.FileMode) {
	o.Helper()
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		o.Fatal(err)
	}
}

func (o *openSSH) read(path string) string {
	o.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		o.Error(err)
	}
	return string(b)
}

// command has what all the programs need.
func (o *openSSH) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	_, port, err := net.SplitHostPort(o.server.Addr().String())
	if err != nil {
		o.Fatal(err)
	}
	options := []string{"-F", "none"}
	for _, option := range []string{
		"Port=" + port, "User=" + o.user, "StrictHostKeyChecking=no", "UserKnownHostsFile=" + filepath.Join(o.dir, "known"),
		"PreferredAuthentications=password", "NumberOfPasswordPrompts=1", "LogLevel=ERROR", "BatchMode=no",
		"ServerAliveInterval=1",
	} {
		options = append(options, "-o", option)
	}
	cmd := exec.CommandContext(ctx, name, append(options, args...)...)
	cmd.Dir = o.dir
	cmd.Env = append(os.Environ(), "SSH_ASKPASS="+filepath.Join(o.dir, "askpass"), "SSH_ASKPASS_REQUIRE=force",
		"DISPLAY=none", "LC_ALL=C")
	return cmd
}

func (o *openSSH) run(input, name string, args ...string) (out, errs string, status int) {
	o.Helper()
	ctx, cancel := context.WithTimeout(o.Context(), time.Minute)
	defer cancel()
	cmd := o.command(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(input), &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		o.Fatal(err)
	}
	return stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
}

func TestOpenSSH(t *testing.T) {
	t.Parallel()
	needs(t, "ssh")
	o := newOpenSSH(t)
	out, errs, status := o.run("some input", "ssh", "127.0.0.1", "cat; echo error >&2; exit 9")
	if out != "some input" || errs != "error\n" || status != 9 {
		t.Errorf("stdout %q, stderr %q, status %d, want some input, error and 9", out, errs, status)
	}
	out, _, status = o.run("", "ssh", "-tt", "127.0.0.1", "test -t 0 && echo tty; exit 3")
	if !strings.Contains(out, "tty\r\n") || status != 3 {
		t.Errorf("with a terminal: %q %d", out, status)
	}
	o.user = "cf:other/x"
	if _, errs, status := o.run("", "ssh", "127.0.0.1", "true"); status != 255 ||
		!strings.Contains(errs, "Permission denied") {
		t.Errorf("as another user: %q %d", errs, status)
	}
}

func TestOpenSSHForwards(t *testing.T) {
	t.Parallel()
	needs(t, "ssh")
	o := newOpenSSH(t)
	address := serveTCP(t, func(c *net.TCPConn) {
		b, _ := io.ReadAll(c)
		_, _ = c.Write(bytes.ToUpper(b))
	})
	// -W is -L for a single connection that is standard input and output.
	out, errs, status := o.run("hello", "ssh", "-W", address, "127.0.0.1")
	if out != "HELLO" || status != 0 {
		t.Errorf("stdout %q, stderr %q, status %d, want HELLO and status 0", out, errs, status)
	}
	l := listen(t)
	local := l.Addr().String()
	l.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cmd := o.command(ctx, "ssh", "-N", "-o", "ExitOnForwardFailure=yes", "-L", local+":"+address, "127.0.0.1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
	})
	var conn net.Conn
	testkit.Eventually(o, "the port to be open", func() (ok bool) {
		var err error
		conn, err = net.Dial("tcp", local)
		return err == nil
	})
	defer conn.Close()
	_, _ = io.WriteString(conn, "through -L")
	closeWrite(t, conn)
	if b, err := io.ReadAll(conn); string(b) != "THROUGH -L" || err != nil {
		t.Errorf("read %q, %v, want THROUGH -L", b, err)
	}
}

func TestOpenSSHCopies(t *testing.T) {
	t.Parallel()
	needs(t, "scp", "ssh")
	for name, option := range map[string]string{"SCP": "-O", "SFTP": "-s"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOpenSSH(t)
			content := strings.Repeat("0123456789abcdef", 100_000)
			o.write(filepath.Join(o.dir, "local"), content, 0o640)
			if out, errs, status := o.run("", "scp", option, "-p", "local", "127.0.0.1:there"); status != 0 {
				t.Fatalf("scp there: stdout %q, stderr %q, status %d, want status 0", out, errs, status)
			}
			if o.read(filepath.Join(o.engine.home, "there")) != content {
				t.Error("another file arrived")
			}
			testkit.CheckMode(t, filepath.Join(o.engine.home, "there"), 0o640)
			if err := os.MkdirAll(filepath.Join(o.engine.home, "tree", "deep"), 0o755); err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				o.write(filepath.Join(o.engine.home, "tree", "deep", fmt.Sprintf("file %d", i)), fmt.Sprint(i), 0o644)
			}
			if out, errs, status := o.run("", "scp", option, "-r", "127.0.0.1:tree", "copy"); status != 0 {
				t.Fatalf("scp back: stdout %q, stderr %q, status %d, want status 0", out, errs, status)
			}
			if got := o.read(filepath.Join(o.dir, "copy", "deep", "file 3")); got != "3" {
				t.Errorf("%q came", got)
			}
			if _, errs, status := o.run("", "scp", option, "127.0.0.1:missing", "x"); status == 0 ||
				!strings.Contains(errs, "No such file") {
				t.Errorf("a missing file: %q %d", errs, status)
			}
		})
	}
}

func TestOpenSSHFiles(t *testing.T) {
	t.Parallel()
	needs(t, "sftp", "ssh")
	o := newOpenSSH(t)
	o.write(filepath.Join(o.dir, "local"), "content", 0o644)
	out, errs, status := o.run(`pwd
mkdir folder
put local folder/a
chmod 600 folder/a
rename folder/a folder/b
symlink b folder/c
ln folder/b folder/d
ls -l folder
get folder/c back
rm folder/c
rm folder/d
rm folder/b
rmdir folder
`, "sftp", "-b", "-", "127.0.0.1")
	if status != 0 || !strings.Contains(out, "Remote working directory: "+o.engine.home) ||
		!strings.Contains(out, "-rw-------") || !strings.Contains(out, "lrwxrwxrwx") {
		t.Errorf("sftp: stdout %q, stderr %q, status %d, want status 0, the directory %s and both modes", out, errs, status,
			o.engine.home)
	}
	if got := o.read(filepath.Join(o.dir, "back")); got != "content" {
		t.Errorf("%q came back", got)
	}
	if _, err := os.Stat(filepath.Join(o.engine.home, "folder")); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
}
