//go:build linux

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// Variables that scripts/on-vm sets.
const (
	filesVariable  = "INGOT_TEST_VM_FILES" // packages, suites and apps for the guest
	cacheVariable  = "INGOT_TEST_VM_CACHE"
	reportVariable = "INGOT_TEST_REPORT"
	logsVariable   = "INGOT_TEST_LOGS"
	commitVariable = "INGOT_TEST_COMMIT"
)

var (
	killCount   = flag.Int("kills", 50, "number of random kills")
	requestRate = flag.Int("rate", 100, "requests per second during the upgrade")
	running     = flag.String("guest", "", "use the guest of `make vm-up` with these `addresses`: SSH,WEB")
	suiteFilter = flag.String("suite", "", "pattern of the tests of the suites to run")
)

// patience is the timeout of a script in the guest, for what takes seconds on other machines: by emulation on a
// busy machine the installation of the package took seven minutes.
const patience = 30 * time.Minute

// A site is the guest of the tests, which one part after another uses.
type site struct {
	image, files string
	kvm          bool
	guest        *guest
	dir          string // the guest's
	booted       int
}

// TestGuest runs the parts in the order of their value, in one guest, because starting one
// takes minutes by emulation. Each part installs what it needs.
//
//nolint:tparallel // the parts share the guest
func TestGuest(t *testing.T) {
	t.Parallel()
	s := &site{files: os.Getenv(filesVariable)}
	if s.files == "" {
		t.Skip(filesVariable + " is not set: make test-vm sets it")
	}
	var err error
	if s.image, err = image(t.Context(), os.Getenv(cacheVariable), defaultMirror); err != nil {
		t.Fatal(err)
	}
	reason := trial(t.Context(), s.image)
	s.kvm = reason == nil
	how := "KVM"
	if !s.kvm {
		how = fmt.Sprintf("emulation, because KVM does not work here: %v", reason)
	}
	text(t, fmt.Sprintf("%s, %s, 2 processors, 3 GB, by %s\n\n| What | Goal | Figure |\n|---|---|---|\n",
		time.Now().UTC().Format(time.DateOnly), os.Getenv(commitVariable), how))
	t.Cleanup(func() {
		if s.guest != nil {
			s.discard()
		}
	})
	for _, part := range []struct { //nolint:paralleltest // one after another: they share the guest
		name string
		run  func(*testing.T, *site)
	}{
		{"install", oneLine}, {"life", life}, {"limits", limits}, {"databases", databases}, {"doctor", doctor},
		{"rootless", rootless}, {"suites", suites}, {"backup", backup}, {"kills", kills},
	} {
		t.Run(part.name, func(t *testing.T) {
			began := time.Now()
			s.boot(t)
			t.Cleanup(func() { s.keepLogs(t) })
			part.run(t, s)
			result := "passed"
			if t.Failed() {
				result = "FAILED"
			}
			row(t, "part `"+part.name+"`", "pass", result+", "+seconds(time.Since(began)))
		})
	}
}

// boot starts the guest, unless it runs.
func (s *site) boot(t *testing.T) {
	t.Helper()
	if s.guest != nil {
		return
	}
	if sshAddr, webAddr, ok := strings.Cut(*running, ","); ok {
		s.guest = attach(s.image, sshAddr, webAddr)
		*running = "" // a second guest is a new one
		s.copyFiles(t)
	} else {
		s.startGuest(t)
	}
	s.expect(t, "cat /proc/1/comm; stat -fc %T /sys/fs/cgroup; cat /proc/sys/kernel/osrelease", `^systemd\ncgroup2fs\n`)
	s.run(t, mountFiles)
}

// mountFiles mounts what this machine has made for the guest, unless it was copied.
const mountFiles = "[ -e /files/ingot.deb ] || mount /files"

// copyFiles replaces the files of a guest that another process has started, unless it has them.
func (s *site) copyFiles(t *testing.T) {
	t.Helper()
	stamp := onHost(t, nil, "cd "+s.files+" && find . -type f -printf '%p %s %T@\n' | LC_ALL=C sort | sha256sum")
	if had, _ := s.try(t, "root", "cat /files/stamp"); had == stamp {
		return
	}
	tar := exec.CommandContext(t.Context(), "tar", "-C", s.files, "-c", ".")
	pipe, err := tar.StdoutPipe()
	if err == nil {
		err = tar.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := s.guest.stream(ctx, "root", `if mountpoint -q /files; then umount /files; fi
rm -rf /files/*; tar -C /files --no-same-owner -x; echo '`+stamp+"' >/files/stamp", pipe, io.Discard); err != nil {
		t.Fatal(err)
	}
	if err := tar.Wait(); err != nil {
		t.Fatal(err)
	}
}

func (s *site) startGuest(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", dirPrefix)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	// The guest is used by other parts, too: its life is not that of this test.
	g, err := start(context.WithoutCancel(t.Context()), s.image, dir, s.files, s.kvm)
	if err != nil {
		os.RemoveAll(dir)
		t.Fatal(err)
	}
	s.guest, s.dir = g, dir
	s.booted++
	if err := g.await(t.Context()); err != nil {
		s.keepLogs(t)
		t.Fatal(err)
	}
	row(t, "start of the guest until systemd has started everything", "", seconds(time.Since(began)))
}

// attach returns a guest that another process runs.
func attach(image, sshAddr, webAddr string) *guest {
	return &guest{image: image, sshAddr: sshAddr, webAddr: webAddr, stop: func() {}, clients: map[string]*ssh.Client{}}
}

// discard ends the guest, so that the next part has a new one.
func (s *site) discard() {
	s.guest.close()
	os.RemoveAll(s.dir)
	s.guest = nil
}

// keepLogs copies what a failed part leaves to look at.
func (s *site) keepLogs(t *testing.T) {
	t.Helper()
	to := os.Getenv(logsVariable)
	if !t.Failed() || to == "" || s.guest == nil {
		return
	}
	to = filepath.Join(to, fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), s.booted))
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Log(err)
		return
	}
	for _, name := range []string{"console.log", "qemu.log"} {
		content, _ := os.ReadFile(filepath.Join(s.dir, name))
		_ = os.WriteFile(filepath.Join(to, name), content, 0o644) //nolint:gosec // not secret
	}
	for name, script := range map[string]string{
		"ingot.log": "journalctl --no-pager -o short-precise -u 'ingot*'",
		"system.log": "journalctl --no-pager -p notice; systemctl --no-pager --failed; ps axf; systemd-cgls --no-pager; " +
			"findmnt; losetup -l",
		// The disks of databases are mounted where the server is.
		"services.log": `nsenter --mount --target "$(systemctl show -P MainPID ingot)" \
  sh -c 'tail -n 60 /var/lib/ingot/services/own/*/log /var/lib/ingot/services/*/log'`,
	} {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		out, err := s.guest.run(ctx, "root", script)
		cancel()
		if err != nil {
			out += "\n" + err.Error()
		}
		_ = os.WriteFile(filepath.Join(to, name), []byte(out), 0o644) //nolint:gosec // not secret
	}
	t.Logf("logs are in %s", to)
}

// try runs a script in the guest as a user.
func (s *site) try(t *testing.T, user, script string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return s.guest.run(ctx, user, script)
}

// run runs a script, as root, that has to succeed.
func (s *site) run(t *testing.T, script string) string {
	t.Helper()
	out, err := s.try(t, "root", script)
	if err != nil {
		log, _ := s.try(t, "root", "journalctl --no-pager -o cat -u ingot | tail -n 30")
		t.Fatalf("%v\nthe log of the server:\n%s", err, log)
	}
	return out
}

// timed is run, and returns how long it took.
func (s *site) timed(t *testing.T, script string) time.Duration {
	t.Helper()
	began := time.Now()
	s.run(t, script)
	return time.Since(began)
}

// timedAs is timed for another user.
func (s *site) timedAs(t *testing.T, user, script string) time.Duration {
	t.Helper()
	began := time.Now()
	if _, err := s.try(t, user, script); err != nil {
		log, _ := s.try(t, user, "journalctl --user --no-pager -o cat -u ingot | tail -n 30")
		t.Fatalf("%v\nthe log of the user's server:\n%s", err, log)
	}
	return time.Since(began)
}

// expect runs a script and compares its output.
func (s *site) expect(t *testing.T, script, pattern string) {
	t.Helper()
	if out, err := s.try(t, "root", script); !regexp.MustCompile(pattern).MatchString(out) {
		t.Errorf("%s: %v\n%s\nwant output that matches %s", script, err, out, pattern)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !holds(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

// Scripts that wait for the server and for the client to be logged in.
const (
	serverReady = "\n" + `for i in $(seq 600); do curl -fs -m 10 -o /dev/null http://127.0.0.1:8082/readyz && ready=1 && break; sleep 0.2; done
[ "${ready:-}" ] || { curl -s 'http://127.0.0.1:8082/readyz?verbose'; exit 1; }` + "\n"
	logIn = "\n" + `ingot api http://127.0.0.1:8080 >/dev/null
ingot auth admin "$(cat /var/lib/ingot/secrets/admin-password)" >/dev/null
ingot target -o demo -s dev >/dev/null` + "\n"
)

// install installs the newest package and starts the server, unless it runs.
func (s *site) install(t *testing.T) {
	t.Helper()
	s.run(t, `systemctl is-active --quiet ingot && exit 0
apt-get install -y -q /files/ingot.deb </dev/null
`+configure+`systemctl enable --now ingot`+serverReady+logIn)
}

// configure lets the server listen on the address that this machine forwards to, and names it: the guest
// has no DNS.
const configure = `grep -q ^INGOT_DEMO /etc/default/ingot || printf '%s\n' INGOT_LISTEN=0.0.0.0:8080 INGOT_DEMO=true >>/etc/default/ingot
grep -q api.localhost /etc/hosts || echo 127.0.0.1 api.localhost login.localhost uaa.localhost ssh.localhost doppler.localhost log-stream.localhost log-cache.localhost notifications.localhost >>/etc/hosts
`

// push pushes an app, which answers with its word.
func (s *site) push(t *testing.T, name, flags string) {
	t.Helper()
	s.run(t, pushed(name, flags))
}

func pushed(name, flags string) string {
	return fmt.Sprintf(`mkdir -p /tmp/%[1]s && cp /files/app/app /tmp/%[1]s/
printf 'applications:\n- name: %[1]s\n  buildpacks: [binary_buildpack]\n  command: ./app\n  env: {WORD: word-of-%[1]s}\n' >/tmp/%[1]s/manifest.yml
cd /tmp/%[1]s && ingot push %[1]s %[2]s`, name, flags)
}

// web is the client of all requests to apps, whose contexts have timeouts.
var web = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 32}}

// get requests a path of an app through the router, from this machine.
func (s *site) get(ctx context.Context, app, path string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience/6)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.guest.webAddr+path, http.NoBody)
	if err != nil {
		return "", err
	}
	req.Host = app + ".apps.localhost"
	resp, err := web.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", resp.StatusCode, body)
	}
	return strings.TrimSpace(string(body)), err
}

// answers waits until an app answers with its word.
func (s *site) answers(t *testing.T, app string) {
	t.Helper()
	var body string
	var err error
	defer func() {
		if t.Failed() {
			t.Logf("the last answer of %s was %q, %v", app, body, err)
		}
	}()
	eventually(t, app+" answers", func() bool {
		body, err = s.get(t.Context(), app, "/")
		return err == nil && body == "word-of-"+app
	})
}

// trialGroup is part of the control group of a trial container, which a server that starts has for a moment.
const trialGroup = "/trial-"

// instances returns the processes of instances, by id and start time.
func (s *site) instances(t *testing.T) []string {
	t.Helper()
	return strings.Split(s.run(t, `for p in $(pgrep -f '^/.ingot-init' || true); do
grep -q `+trialGroup+` /proc/$p/cgroup || echo "$p@$(cut -d ' ' -f 22 /proc/$p/stat)"; done | sort`), "\n")
}

func (s *site) sameInstances(t *testing.T, what string, want []string) {
	t.Helper()
	if got := s.instances(t); !slices.Equal(got, want) {
		t.Errorf("%s: the instances are %q, want the same as before: %q", what, got, want)
	}
}

func (s *site) mainPID(t *testing.T) string {
	t.Helper()
	return s.run(t, "systemctl show -P MainPID ingot")
}

// row adds a line to the report at once, so that it is not lost when a later part fails.
func row(t *testing.T, what, goal, figure string) {
	t.Helper()
	text(t, fmt.Sprintf("| %s | %s | %s |\n", what, goal, figure))
}

func text(t *testing.T, line string) {
	t.Helper()
	t.Log(strings.TrimSpace(line))
	f, err := os.OpenFile(os.Getenv(reportVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // a report
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(line); err != nil {
		t.Fatal(err)
	}
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// onHost runs a script on this machine.
func onHost(t *testing.T, env []string, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return strings.TrimSpace(string(out))
}

// background starts a program on this machine; the result ends it.
func background(t *testing.T, env []string, program string) func() {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", "exec "+program)
	cmd.Env = append(os.Environ(), env...)
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := cmd.Wait(); err != nil || t.Failed() {
			t.Logf("%s: %v\n%s", program, err, &out)
		}
	})
}
