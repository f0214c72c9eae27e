package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a system with its own systemd; see testdata/machine.
type machine struct {
	pid string
	cf  string
}

// boot starts a machine, and stops it at the end of the test.
func boot(t *testing.T) *machine {
	t.Helper()
	if os.Getenv("INGOT_SOAK") != "1" {
		t.Skip("slow: set INGOT_SOAK=1")
	}
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil || os.Getuid() != 0 {
		t.Skipf("it needs root and systemd: %v", err)
	}
	if os.Getenv("CF_BIN") == "" {
		t.Fatal("CF_BIN is not set")
	}
	dir := t.TempDir()
	cmd := exec.Command("testdata/machine", dir)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
		if t.Failed() {
			console, _ := os.ReadFile(filepath.Join(dir, "console"))
			t.Logf("the machine: %s%s", &out, console)
		}
	})
	for {
		if pid, err := os.ReadFile(filepath.Join(dir, "pid")); err == nil {
			return &machine{pid: strings.TrimSpace(string(pid)), cf: os.Getenv("CF_BIN")}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the machine has ended: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// try runs a shell script on the machine.
func (m *machine) try(script string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", "--all", "--target", m.pid, "--", "/bin/bash", "-euo", "pipefail",
		"-c", script)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/tmp", "CF_HOME=/tmp",
		"LC_ALL=C.UTF-8", "CF=" + m.cf}
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// run is try for a script that has to succeed.
func (m *machine) run(t *testing.T, script string) string {
	t.Helper()
	out, err := m.try(script)
	if err != nil {
		log, _ := m.try("journalctl --no-pager -o cat -u ingot | tail -n 30")
		t.Fatalf("%s: %v\n%s\nthe log of the server:\n%s", script, err, out, log)
	}
	return out
}

// expect runs a script and compares its output.
func (m *machine) expect(t *testing.T, script, pattern string) {
	t.Helper()
	out, err := m.try(script)
	if !regexp.MustCompile(pattern).MatchString(out) {
		t.Errorf("%s: %v\n%s\nwant output that matches %s", script, err, out, pattern)
	}
}

// serverReady waits until the server answers.
const serverReady = `for i in $(seq 300); do curl -fs -o /dev/null http://127.0.0.1:8082/readyz && exit 0; sleep 0.2; done; curl -s http://127.0.0.1:8082/readyz; exit 1`

// TestSoakInstalled installs the package on a machine with systemd, runs an app under the
// hardened unit, restarts, kills and upgrades the server, and removes the package.
func TestSoakInstalled(t *testing.T) {
	t.Parallel()
	m := boot(t)
	if err := os.WriteFile("/proc/"+filepath.Join(m.pid, "root", "ingot.deb"), released(t, "*.deb"), 0o600); err != nil {
		t.Fatal(err)
	}
	m.run(t, "dpkg -i /ingot.deb")
	m.expect(t, "systemctl is-enabled ingot.service", "^disabled$")
	m.expect(t, "systemctl is-active ingot.service", "^inactive$")
	m.expect(t, "systemd-analyze verify ingot.service", "^$")
	m.expect(t, "stat -c '%a %U' /etc/default/ingot", "^640 root$")
	m.expect(t, "man -w ingot-push", "ingot-push.1.gz$")
	m.expect(t, `source /usr/share/bash-completion/completions/ingot; COMP_WORDS=(ingot pus); COMP_CWORD=1; _ingot_complete; echo "${COMPREPLY[@]}"`, "^push$")

	m.run(t, `echo 'INGOT_DEMO=true' >>/etc/default/ingot; systemctl enable --now ingot.service; `+serverReady)
	hardened(t, m)
	m.run(t, `mkdir -p /tmp/app; echo '<p>one</p>' >/tmp/app/index.html; touch /tmp/app/Staticfile
		$CF api http://127.0.0.1:8080 >/dev/null; $CF auth admin "$(cat /var/lib/ingot/secrets/admin-password)" >/dev/null; $CF target -o demo -s dev
		$CF push page -p /tmp/app -m 64M`)
	const page = `curl -fs -H 'Host: page.apps.localhost' http://127.0.0.1:8080/`
	m.expect(t, page, "<p>one</p>")

	app := instances(t, m)
	if len(app) != 1 {
		t.Fatalf("instances %q, want one", app)
	}
	for _, how := range []struct{ name, script string }{
		{"restart", "systemctl restart ingot.service"},
		{"reload", "systemctl reload ingot.service"},
		{"kill", `kill -9 "$(systemctl show -P MainPID ingot.service)"; sleep 1.5`},
		{"stop and start", "systemctl stop ingot.service; systemctl start ingot.service"},
		{"upgrade", "dpkg -i /ingot.deb"},
	} {
		before := m.run(t, "systemctl show -P MainPID ingot.service")
		m.run(t, how.script+"; "+serverReady)
		if after := m.run(t, "systemctl show -P MainPID ingot.service"); after == before || after == "0" {
			t.Errorf("%s: the server has the process id %s, and had %s", how.name, after, before)
		}
		if now := instances(t, m); !slices.Equal(now, app) {
			t.Errorf("%s: instances %q, want the same as before: %q", how.name, now, app)
		}
		m.expect(t, page, "<p>one</p>")
		m.expect(t, "$CF ssh page -c 'cat app/public/index.html || cat app/index.html'", "<p>one</p>")
		m.expect(t, "$CF app page", `#0 +running .* [1-9][0-9.]*[KM] of 1G `)
	}
	m.expect(t, "grep DEMO /etc/default/ingot", "^INGOT_DEMO=true$") // the upgrade has kept it

	// Everything that starts and removes containers works in the namespaces of the restarted server.
	m.run(t, `echo '<p>two</p>' >/tmp/app/index.html; $CF push page -p /tmp/app -m 64M; $CF scale page -i 2; $CF delete -f other`)
	m.expect(t, page, "<p>two</p>")
	// cf scale does not wait
	m.run(t, `for i in $(seq 300); do [ "$(pgrep -fc ^/.ingot-init)" = 2 ] && exit 0; sleep 0.2; done; exit 1`)
	if now := instances(t, m); len(now) != 2 || slices.Contains(now, app[0]) {
		t.Errorf("instances %q, want two new ones", now)
	}

	m.expect(t, "dpkg -r ingot", "Removing ingot")
	if now := instances(t, m); len(now) != 0 {
		t.Errorf("instances %q are left after the package was removed", now)
	}
	m.expect(t, "systemctl is-active ingot.service", "^inactive$")
	m.expect(t, "ls /usr/bin/ingot /usr/lib/ingot", "cannot access '/usr/bin/ingot'")
	m.expect(t, "ls /etc/default/ingot", "^/etc/default/ingot$")
	m.expect(t, "dpkg -P ingot", "/var/lib/ingot has the data of apps and users, and was kept")
	m.expect(t, "ls /etc/default/ingot /var/lib/ingot/secrets/encryption-keys",
		"(?s)cannot access '/etc/default/ingot'.*\n/var/lib/ingot/secrets/encryption-keys$")
	m.run(t, "dpkg -i /ingot.deb; systemctl start ingot.service; "+serverReady)
	m.expect(t, "for i in $(seq 300); do "+page+" && exit 0; sleep 0.2; done", "<p>two</p>") // its apps start again
	m.run(t, "systemctl stop ingot.service; ingot down --data-dir /var/lib/ingot")
}

// TestSoakInstallScript runs install.sh on a machine with systemd and without network: one line
// to a server to which an app can be pushed, with the package, with the archive, and with rpm.
func TestSoakInstallScript(t *testing.T) {
	t.Parallel()
	m := boot(t)
	if err := os.CopyFS("/proc/"+filepath.Join(m.pid, "root", "dist"), os.DirFS(published(t))); err != nil {
		t.Fatal(err)
	}
	m.run(t, "mkdir /tmp/app; echo '<p>one line</p>' >/tmp/app/index.html")
	const page = `for i in $(seq 300); do curl -fs -H 'Host: page.apps.localhost' http://127.0.0.1:8080/ && exit 0; sleep 0.2; done`
	const id = "systemctl show -P MainPID ingot.service"
	for _, way := range []struct{ args, program, push string }{
		{"", "/usr/bin/ingot", "ingot push page -p /tmp/app -m 64M"},
		{"--tarball", "/usr/local/bin/ingot", "true"}, // with the data of the first
	} {
		out := m.run(t, "sh /dist/install.sh "+way.args)
		if !strings.Contains(out, "http://127.0.0.1:8080/console") || !strings.Contains(out, "is ready") {
			t.Errorf("install.sh %s prints\n%s", way.args, out)
		}
		m.expect(t, "command -v ingot", "^"+way.program+"$")
		m.expect(t, "systemctl is-enabled ingot.service", "^enabled$")
		m.run(t, way.push)
		m.expect(t, page, "<p>one line</p>")
		before := m.run(t, id)
		m.run(t, "sh /dist/install.sh "+way.args)
		if after := m.run(t, id); after != before {
			t.Errorf("install.sh %s again: the server has the process id %s, and had %s", way.args, after, before)
		}
		m.expect(t, "sh /dist/install.sh --uninstall", "Its data is kept")
		m.expect(t, "ls "+way.program, "cannot access")
		m.expect(t, "systemctl is-active ingot.service", "^inactive$")
		if left := instances(t, m); len(left) > 0 {
			t.Errorf("instances %q are left", left)
		}
	}

	const rpm = "rpm --nodeps --dbpath /tmp/rpm "
	m.run(t, rpm+"-i /dist/*.rpm; systemctl start ingot.service; "+serverReady)
	m.expect(t, page, "<p>one line</p>")
	before := m.run(t, id)
	m.run(t, rpm+"-U --force /dist/*.rpm; "+serverReady)
	if after := m.run(t, id); after == before {
		t.Error("the upgrade of the rpm package did not replace the server")
	}
	m.expect(t, rpm+"-e ingot", "was kept")
	m.expect(t, "systemctl is-active ingot.service", "^inactive$")
	m.expect(t, "sh /dist/install.sh --uninstall --purge; ls -A /var/lib/ingot", "Removed Ingot and /var/lib/ingot.$")
}

// hardened checks what the server may do.
func hardened(t *testing.T, m *machine) {
	t.Helper()
	status := m.run(t, `cat "/proc/$(systemctl show -P MainPID ingot.service)/status"`)
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2"} {
		if !strings.Contains(status, want) {
			t.Errorf("the server's status has no %q:\n%s", want, status)
		}
	}
	for _, path := range []string{"/etc/x", "/usr/x", "/opt/x", "/boot/x", "/var/x"} {
		m.expect(t, fmt.Sprintf(`nsenter --mount --target "$(systemctl show -P MainPID ingot.service)" touch %s`, path),
			"Read-only file system")
	}
	m.expect(t, `nsenter --mount --target "$(systemctl show -P MainPID ingot.service)" ls /root`, "Permission denied|^$")
}

// instances returns the process ids of the instances that run.
func instances(t *testing.T, m *machine) []string {
	t.Helper()
	out, _ := m.try("pgrep -f ^/.ingot-init") // status 1 without any
	return strings.Fields(out)
}
