package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/creack/pty"

	"ingot/internal/base/testkit"
)

// TestSSH tests ssh to the instances of an app with a sidecar.
func TestSSH(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		home := s.admin(t)
		file := write(t, "manifest.yml", `
applications:
- name: couple
  buildpacks: [binary_buildpack]
  instances: 2
  memory: 96M
  disk_quota: 64M
  command: until test -s helper.pid; do sleep 0.1; done; echo $$ >web.pid && exec ./probe
  sidecars:
  - name: helper
    process_types: [web]
    command: ./probe sidecar helper.pid
    memory: 32M
`)
		cfOK(t, home, "push", "-f", file, "-p", probe(t))
		d := &sshFixture{site: s, home: home, app: guid(t, home, "couple")}
		s.running(t, d.app, 2)
		together(t,
			part{"commands", d.commands},
			part{"shell", d.shell},
			part{"forwarding", d.forwarding},
			part{"files", d.files},
			part{"strangers", d.strangers},
			part{"console", d.console},
		)
		// One after another: each changes state that the others depend on.
		for _, p := range []part{{"switches", d.switches}, {"audit", d.audit}, {"endings", d.endings}} {
			together(t, p)
		}
	})
}

// sshFixture is an app with two instances, as the target of ssh.
type sshFixture struct {
	*site
	home, app string
	user      string // of OpenSSH; empty means the first instance of the app
}

// ssh runs a command in an instance, which must succeed.
func (d *sshFixture) ssh(t testing.TB, index int, command string) string {
	t.Helper()
	return cfOK(t, d.home, "ssh", "couple", "-i", strconv.Itoa(index), "-c", command)
}

func (d *sshFixture) commands(t *testing.T) {
	out, code := cf(t, d.home, "ssh", "couple", "-c", "echo to the one; echo to the other >&2; exit 3")
	if code != 3 {
		t.Errorf("exit code %d, want 3\n%s", code, out)
	}
	contains(t, out, "to the one\n", "to the other\n")
	if out, code := cf(t, d.home, "ssh", "couple", "-c", "kill -9 $$"); code != 137 {
		t.Errorf("a shell that is killed: exit code %d, want 137\n%s", code, out)
	}

	// It has the app's view of the system, as the app's user.
	for index := range 2 {
		var env map[string]string
		testkit.Eventually(t, "the instance is asked by the router", func() bool {
			d.get(t, "couple", "/env").want(t, http.StatusOK).into(t, &env)
			return env["CF_INSTANCE_INDEX"] == strconv.Itoa(index)
		})
		got := map[string]string{}
		for _, v := range strings.Split(d.ssh(t, index, "env -0"), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			got[name] = value
		}
		for _, name := range []string{"PORT", "VCAP_APPLICATION", "VCAP_SERVICES", "CF_INSTANCE_INDEX", "CF_INSTANCE_GUID",
			"MEMORY_LIMIT", "USER", "LANG"} {
			if got[name] != env[name] || name != "USER" && got[name] == "" {
				t.Errorf("%s is %q in ssh, and %q in the app", name, got[name], env[name])
			}
		}
		contains(t, got["VCAP_APPLICATION"], `"application_name":"couple"`)
		if got["HOME"] != strings.TrimSuffix(env["HOME"], "/app") {
			t.Errorf("HOME is %q in ssh, and %q in the app", got["HOME"], env["HOME"])
		}
	}
	if charmap := d.ssh(t, 0, "locale charmap"); charmap != "UTF-8\n" {
		t.Errorf("the characters of the locale are %q, want UTF-8", charmap)
	}
	var where struct{ UID int }
	d.get(t, "couple", "/where").want(t, http.StatusOK).into(t, &where)
	if uid := d.ssh(t, 0, "id -u"); uid != fmt.Sprintf("%d\n", where.UID) {
		t.Errorf("the user is %s in ssh, and %d in the app", uid, where.UID)
	}
	contains(t, d.ssh(t, 0, "cat /proc/$(cat app/helper.pid)/cmdline"), "./probe", "sidecar")
	cfFails(t, d.home, "Instance 2 of process web not found", "ssh", "couple", "-i", "2", "-c", "true")

	// A job that is left behind does not keep the session.
	contains(t, d.ssh(t, 0, "sleep 100000 & echo left behind"), "left behind")
	// Large output arrives complete.
	if out := d.ssh(t, 1, "head -c 3000000 /dev/zero | tr '\\0' x"); len(out) != 3000000 {
		t.Errorf("%d of 3000000 bytes arrive", len(out))
	}
}

// shell tests a shell on a terminal whose window changes.
func (d *sshFixture) shell(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := cfCommand(ctx, t, d.home, []string{"ssh", "couple"})
	cmd.Env = append(cmd.Env, "TERM=vt100")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 91})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	screen, over := newOutput(), make(chan struct{})
	go func() {
		defer close(over)
		_, _ = io.Copy(screen, terminal) // ends with the other side
	}()
	// Each command sets its own prompt, and the next is typed after it: input typed
	// while another command runs may be lost.
	step := 0
	say := func(command string) {
		t.Helper()
		step++
		if _, err := fmt.Fprintf(terminal, "%s; PS1='step''%d> '\r", command, step); err != nil {
			t.Fatal(err)
		}
	}
	sees := func(words ...string) {
		t.Helper()
		for _, w := range append(words, fmt.Sprintf("step%d> ", step)) {
			screen.await(t, w)
		}
	}
	screen.await(t, "$ ")
	say("test -t 0 && echo $TERM-$(stty size)-on-a-terminal")
	sees("vt100-33 91-on-a-terminal")
	// The window changes while something runs.
	say(`echo wait${x}ing; until [ "$(stty size)" = "22 77" ]; do sleep 0.1; done`)
	// A line may end with two carriage returns: runc turns the conversion of line ends off
	// while the shell already reads the settings of its terminal.
	screen.await(t, "waiting\r")
	if err := pty.Setsize(terminal, &pty.Winsize{Rows: 22, Cols: 77}); err != nil {
		t.Fatal(err)
	}
	sees()
	// Control-C interrupts the running command, not the shell.
	say(`sh -c 'trap "echo caught; exit 5" INT; echo a${x}wake; while :; do sleep 0.1; done'; echo with $?`)
	screen.await(t, "awake\r")
	if _, err := terminal.Write([]byte{3}); err != nil {
		t.Fatal(err)
	}
	sees("caught\r", "with 5\r")
	if _, err := io.WriteString(terminal, "exit 4\r"); err != nil {
		t.Fatal(err)
	}
	<-over
	_ = cmd.Wait() // the exit code is in ProcessState
	if code := cmd.ProcessState.ExitCode(); code != 4 {
		t.Errorf("exit code %d, want 4\n%s", code, screen)
	}
}

// forwarding connects to a port that only the instance itself can reach.
func (d *sshFixture) forwarding(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	inside := d.ssh(t, 1, "cat app/helper.pid.address")
	free, err := net.Listen("tcp", loopback()+":0")
	if err != nil {
		t.Fatal(err)
	}
	local := free.Addr().String()
	free.Close()
	cmd := cfCommand(ctx, t, d.home, []string{"ssh", "couple", "-i", "1", "-N", "-L", local + ":" + inside})
	out := newOutput()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var body string
	testkit.Eventually(t, "the sidecar answers through the tunnel", func() bool {
		select {
		case err := <-done:
			t.Fatalf("cf ssh -L ended: %v\n%s", err, out)
		default:
		}
		r, err := d.try(http.MethodGet, "http://"+local+"/", "", nil)
		if err == nil {
			body = string(r.Body)
		}
		return err == nil
	})
	if body != "sidecar of 1\n" {
		t.Errorf("through the tunnel: %q", body)
	}
	cancel()
	<-done
}

// openSSH runs a program of OpenSSH against the gateway, with a password.
func (d *sshFixture) openSSH(t *testing.T, password, input, program string, args ...string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	ask := filepath.Join(dir, "ask")
	if err := os.WriteFile(ask, []byte("#!/bin/sh\necho '"+password+"'\n"), //nolint:gosec // it is run
		0o700); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(d.SSH)
	if err != nil {
		t.Fatal(err)
	}
	options := []string{"-F", "none"}
	for _, o := range []string{
		"Port=" + port, "User=" + cmp.Or(d.user, "cf:"+d.app+"/0"), "StrictHostKeyChecking=no", "UserKnownHostsFile=" +
			filepath.Join(dir, "known"),
		"PreferredAuthentications=password", "NumberOfPasswordPrompts=1", "LogLevel=INFO",
	} {
		options = append(options, "-o", o)
	}
	cmd := exec.CommandContext(ctx, program, append(options, args...)...)
	cmd.Dir, cmd.Stdin = dir, strings.NewReader(input)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C", "SSH_ASKPASS=" + ask,
		"SSH_ASKPASS_REQUIRE=force", "DISPLAY=none"}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// host returns the host of the gateway.
func (d *sshFixture) host() string {
	host, _, _ := net.SplitHostPort(d.SSH)
	return host
}

// code returns a new one-time code.
func (d *sshFixture) code(t *testing.T) string {
	t.Helper()
	return strings.TrimSpace(cfOK(t, d.home, "ssh-code"))
}

// files copies files with the programs of OpenSSH.
func (d *sshFixture) files(t *testing.T) {
	needOpenSSH(t)
	program := "/.ingot-sftp"
	switch d.options.Engine {
	case "process":
		program = filepath.Join(d.Dir, "programs", "ingot-sftp")
	case "kubernetes":
		program = "/ingot/ingot-sftp"
	}
	d.ssh(t, 0, "test -x "+program)

	dir := t.TempDir()
	content := bytes.Repeat([]byte("all work and no play\n"), 50000)
	if err := os.WriteFile(filepath.Join(dir, "up"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(input, program string, args ...string) string {
		t.Helper()
		out, code := d.openSSH(t, d.code(t), input, program, args...)
		if code != 0 {
			t.Fatalf("%s %v: exit code %d\n%s", program, args, code, out)
		}
		return out
	}
	same := func(path string) {
		t.Helper()
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s is another: %d bytes, %v", filepath.Base(path), len(got), err)
		}
	}
	run("", "scp", "-s", filepath.Join(dir, "up"), d.host()+":copied by scp")
	run("", "scp", "-s", d.host()+":copied by scp", filepath.Join(dir, "down"))
	same(filepath.Join(dir, "down"))
	out := run("mkdir app/new\nrename 'copied by scp' app/new/moved\nls app/new\nget app/new/moved "+
		filepath.Join(dir, "got")+"\nrm app/new/moved\n", "sftp", d.host())
	contains(t, out, "app/new/moved")
	same(filepath.Join(dir, "got"))
	if left := d.ssh(t, 0, "ls app/new"); left != "" {
		t.Errorf("left behind: %s", left)
	}
	contains(t, run("", "ssh", d.host(), "cat app/helper.pid.address"), "127.0.0.1:")
}

func needOpenSSH(t *testing.T) {
	t.Helper()
	for _, name := range []string{"ssh", "scp", "sftp"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("OpenSSH is not installed (%v); run: make setup-test", err)
		}
	}
}

// strangers tests logins that are rejected: wrong codes, codes used twice, and
// users who may only read.
func (d *sshFixture) strangers(t *testing.T) {
	admin := d.adminToken(t)
	d.createUser(t, admin, "watcher", "p")
	cfOK(t, d.home, "set-space-role", "watcher", "demo", "dev", "SpaceAuditor")
	watcher := cfHome(t, d.Server)
	cfOK(t, watcher, "auth", "watcher", "p")
	cfOK(t, watcher, "target", "-o", "demo", "-s", "dev")
	cfFails(t, watcher, notAuthorized, "ssh", "couple", "-c", "true")

	needOpenSSH(t)
	refused := func(password string) {
		t.Helper()
		if out, code := d.openSSH(t, password, "", "ssh", d.host(), "true"); code != 255 ||
			!strings.Contains(out, "Permission denied") {
			t.Errorf("exit code %d, want 255\n%s", code, out)
		}
	}
	refused("a guess")
	code := d.code(t)
	if out, status := d.openSSH(t, code, "", "ssh", d.host(), "exit 7"); status != 7 {
		t.Errorf("exit code %d, want 7\n%s", status, out)
	}
	refused(code)
}

// notAuthorized is the message of cf when it is rejected.
const notAuthorized = "Error opening SSH connection: You are not authorized to perform the requested action."

// switches disables ssh, for the app and for the space.
func (d *sshFixture) switches(t *testing.T) {
	open := func() {
		t.Helper()
		contains(t, cfOK(t, d.home, "ssh-enabled", "couple"), "ssh support is enabled for app 'couple'.")
		d.ssh(t, 0, "true")
	}
	shut := func(why, hint string) {
		t.Helper()
		out, _ := cf(t, d.home, "ssh-enabled", "couple")
		contains(t, out, "ssh support is disabled for app 'couple'.", why)
		cfFails(t, d.home, notAuthorized, "ssh", "couple", "-c", "true")
		if _, err := exec.LookPath("ssh"); err == nil {
			out, code := d.openSSH(t, d.code(t), "", "ssh", d.host(), "true")
			if code != 255 || !strings.Contains(out, hint) {
				t.Errorf("OpenSSH: exit code %d, want 255 and %q\n%s", code, hint, out)
			}
		}
	}
	open()
	cfOK(t, d.home, "disable-ssh", "couple")
	shut("Disabled for app", "ssh is disabled for the app")
	cfOK(t, d.home, "enable-ssh", "couple")
	cfOK(t, d.home, "disallow-space-ssh", "dev")
	shut("Disabled for space dev", "ssh is disabled for the space")
	cfOK(t, d.home, "allow-space-ssh", "dev")
	open()
}

// audit checks the events and log lines of the other parts.
func (d *sshFixture) audit(t *testing.T) {
	events := cfOK(t, d.home, "events", "couple")
	contains(t, events, "audit.app.ssh-authorized", "audit.app.ssh-unauthorized", "watcher", "index: 1",
		"reason: the user is no developer of the space", "reason: ssh is disabled for the app",
		"reason: ssh is disabled for the space")
	logs := cfOK(t, d.home, "logs", "couple", "--recent")
	from := d.host()[:strings.Index(d.host(), ".")+1]
	contains(t, logs, "[SSH/0] OUT Successful remote access by "+from, "[SSH/1] OUT Successful remote access by "+from,
		"[SSH/0] OUT Remote access ended for "+from)
	for _, text := range []string{events, logs, d.Stderr.String()} {
		if strings.Contains(text, "a guess") {
			t.Error("got a password in the log, want none")
		}
	}
}

// endings kills the members of an instance from inside: the whole instance stops
// and is replaced.
func (d *sshFixture) endings(t *testing.T) {
	const sidecar = "APP/PROC/WEB/SIDECAR/HELPER"
	// In turns, so that no restart is delayed because of too many crashes.
	for _, c := range []struct {
		name   string
		index  int
		member string
		signal string
		says   string
	}{
		{"sidecar killed", 0, "helper", "KILL", sidecar + ": Exited with status 137"},
		{"sidecar leaves", 1, "helper", "TERM", "Codependent step exited"},
		{"app killed", 0, "web", "KILL", "APP/PROC/WEB: Exited with status 137"},
	} {
		d.running(t, d.app, 2)
		before := d.stats(t, d.app)[c.index].Instance
		if n := processesOf(t, before); n < 2 {
			t.Fatalf("%s: %d processes of instance %s are found, want the app and its sidecar", c.name, n, before)
		}
		// The session may end with the instance before it returns an exit status.
		out, _ := cf(t, d.home, "ssh", "couple", "-i", strconv.Itoa(c.index), "-c", "kill -"+c.signal+" $(cat app/"+
			c.member+".pid)")
		if strings.Contains(out, "kill:") {
			t.Fatalf("%s: kill failed: %s", c.name, out)
		}
		x := d.ended(t, before)
		if x.ExitDescription != c.says || x.Reason != "CRASHED" || x.Index != c.index {
			t.Errorf("%s: the exit record is %+v, want %s", c.name, x, c.says)
		}
		testkit.Eventually(t, "all processes of the instance are gone", func() bool { return processesOf(t, before) == 0 })
		testkit.Eventually(t, "another instance runs", func() bool {
			now := d.stats(t, d.app)[c.index]
			return now.State == "RUNNING" && now.Instance != before
		})
	}
	contains(t, cfOK(t, d.home, "events", "couple"), "app.crash", sidecar+": Exited with status 137",
		"Codependent step exited", "APP/PROC/WEB: Exited with status 137")
	d.ssh(t, 0, "true")
}

// endRecord is the log record of an instance that stopped.
type endRecord struct {
	Instance, Reason, ExitDescription string
	Index                             int
}

// ended waits for the record that an instance stopped.
func (d *sshFixture) ended(t *testing.T, instance string) (x endRecord) {
	t.Helper()
	testkit.Eventually(t, "the end of the instance is recorded", func() bool {
		for _, l := range d.log(t, d.app) {
			if payload, ok := strings.CutPrefix(l.Text, "App instance exited with guid "+d.app+" payload: "); ok {
				x = endRecord{}
				if err := json.Unmarshal([]byte(payload), &x); err != nil {
					t.Fatalf("payload is no JSON: %v: %s", err, payload)
				}
				if x.Instance == instance {
					return true
				}
			}
		}
		return false
	})
	return x
}

// processesOf counts the processes of this machine that belong to an instance.
func processesOf(t *testing.T, instance string) (n int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		env, err := os.ReadFile(f) // fails for another user's process, or an exited one
		if err == nil && bytes.Contains(env, []byte("CF_INSTANCE_GUID="+instance+"\x00")) {
			n++
		}
	}
	return n
}
