//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// life is the life of the unit, from the installation of a package to its purge.
func life(t *testing.T, s *site) {
	for _, step := range []struct {
		name string
		run  func(*testing.T, *site)
	}{
		{"install", installed}, {"start", started}, {"push", firstPush}, {"restarts", restarts}, {"watchdog", watchdog},
		{"reboot", reboot}, {"upgrade", upgrade}, {"remove", remove}, {"purge", purge}, {"again", again},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.run(t, s) }) { //nolint:paralleltest // one after another
			return // the next steps would fail for the same reason
		}
	}
	hostFigures(t)
}

func installed(t *testing.T, s *site) {
	row(t, "`apt install` of the package", "", seconds(s.timed(t, "apt-get install -y -q /files/before.deb </dev/null")))
	s.expect(t, "systemctl is-enabled ingot || true", "^disabled$")
	s.expect(t, "systemctl is-active ingot || true", "^inactive$")
	s.expect(t, "systemd-analyze verify --man=no ingot.service ingot-backup.service ingot-backup.timer", "^$")
	s.expect(t, "stat -c '%a %U' /etc/default/ingot", "^640 root$")
	s.expect(t, "ingot version", `0\.0\.1`)
	// A systemd that does not answer in time leaves no package half installed.
	s.expect(t, `mkdir -p /tmp/late; printf '#!/bin/sh\nexit 1\n' >/tmp/late/systemctl; chmod 755 /tmp/late/systemctl
PATH=/tmp/late:$PATH sh /var/lib/dpkg/info/ingot.postinst configure 2>&1; echo status $?`,
		"^ingot: systemd did not read the new units: .*\nstatus 0$")
}

func started(t *testing.T, s *site) {
	s.run(t, configure)
	// Type=notify: systemctl returns when the server says that it is ready.
	took := s.timed(t, "systemctl enable --now ingot; curl -fsS http://127.0.0.1:8082/readyz")
	row(t, "`systemctl start` until `/readyz` answers 200, guest", "", seconds(took))
	s.expect(t, "systemctl show -P Type -P SubState ingot", "^notify\nrunning$|^running\nnotify$")
	s.expect(t, `grep -E '^(NoNewPrivs|Seccomp):' "/proc/$(systemctl show -P MainPID ingot)/status"`,
		"^NoNewPrivs:\t1\nSeccomp:\t2$")
	s.expect(t, `nsenter --mount --target "$(systemctl show -P MainPID ingot)" touch /usr/x 2>&1 || true`, "Read-only file system")
}

func firstPush(t *testing.T, s *site) {
	s.run(t, serverReady+logIn)
	row(t, "`ingot push` of a binary, guest", "", seconds(s.timed(t, pushed("page", "-m 64M -k 128M"))))
	s.answers(t, "page")
	s.run(t, "ingot stop page")
	row(t, "`ingot start` of a stopped app, guest", "", seconds(s.timed(t, "ingot start page")))
	s.answers(t, "page")
	// Apps are in a slice of their own, not in the group of the unit.
	s.expect(t, `cat /proc/$(pgrep -f '^/.ingot-init')/cgroup`, `^0::/ingot\.slice/`)
	s.expect(t, `cat /sys/fs/cgroup/$(cut -d : -f 3 /proc/$(pgrep -f '^/.ingot-init')/cgroup)/cgroup.controllers`, "memory")
}

// restarts checks that the processes of apps are the same after all that replaces the server.
func restarts(t *testing.T, s *site) {
	apps := s.instances(t)
	for _, how := range []struct{ name, script string }{
		{"reload", "systemctl reload ingot"},
		{"restart", "systemctl restart ingot"},
		{"stop and start", `systemctl stop ingot; curl -fs http://127.0.0.1:8080/ && exit 1
pgrep -f '^/.ingot-init' >/dev/null; systemctl start ingot`},
		{"kill -9", `kill -9 "$(systemctl show -P MainPID ingot)"
for i in $(seq 300); do [ "$(systemctl is-active ingot)" = active ] && [ "$(systemctl show -P NRestarts ingot)" -gt 0 ] && break; sleep 0.2; done`},
	} {
		before := s.mainPID(t)
		took := s.timed(t, how.script+serverReady)
		if after := s.mainPID(t); after == before || after == "0" {
			t.Errorf("%s: the server has the process id %s, and had %s", how.name, after, before)
		}
		s.answers(t, "page")
		s.sameInstances(t, how.name, apps)
		row(t, "`"+how.name+"` of the server until `/readyz`", "apps unchanged",
			fmt.Sprintf("%s, %d processes of apps unchanged", seconds(took), len(apps)))
	}
	s.expect(t, "ingot app page", `(?m)^#0 +running`)
}

// watchdog stops the server's process without ending it, as a deadlock would.
func watchdog(t *testing.T, s *site) {
	const dropIn = "/etc/systemd/system/ingot.service.d/watchdog.conf"
	s.run(t, "mkdir -p $(dirname "+dropIn+"); printf '[Service]\\nWatchdogSec=30s\\n' >"+dropIn+
		"; systemctl daemon-reload; systemctl restart ingot"+serverReady)
	apps, before := s.instances(t), s.mainPID(t)
	s.expect(t, "systemctl show -P WatchdogUSec ingot", "^30s$")
	took := s.timed(t, `kill -STOP `+before+`
for i in $(seq 1200); do [ "$(systemctl show -P MainPID ingot)" != `+before+` ] && [ "$(systemctl is-active ingot)" = active ] && break; sleep 0.2; done`+serverReady)
	s.expect(t, "journalctl --no-pager -o cat -u ingot -b | grep -o 'Watchdog timeout' | head -n 1", "Watchdog timeout")
	s.answers(t, "page")
	s.sameInstances(t, "watchdog", apps)
	row(t, "server that hangs (`kill -STOP`, `WatchdogSec=30s`) until `/readyz`", "apps unchanged", seconds(took))
	s.run(t, "rm -r $(dirname "+dropIn+"); systemctl daemon-reload; systemctl restart ingot"+serverReady)
}

// reboot restarts the guest and waits for the apps without doing anything.
func reboot(t *testing.T, s *site) {
	s.push(t, "second", "-m 64M -k 128M -i 2")
	before := s.run(t, "cat /proc/sys/kernel/random/boot_id")
	began := time.Now()
	_, _ = s.try(t, "root", "systemctl reboot") // the connection may end first
	eventually(t, "another boot", func() bool {
		id, err := s.try(t, "root", "cat /proc/sys/kernel/random/boot_id")
		return err == nil && id != before
	})
	s.answers(t, "page")
	s.answers(t, "second")
	row(t, "reboot of the guest until all apps answer", "without a hand", seconds(time.Since(began)))
	s.run(t, mountFiles)
	eventually(t, "three instances", func() bool { return len(s.instances(t)) == 3 })
	s.expect(t, "systemctl show -P NRestarts ingot", "^0$")
	// The app ended with its machine, which is no crash.
	s.expect(t, "ingot events second | grep crash | grep -cE 'killed|143' || true", "^0$")
}

// upgrade installs the next version while requests are sent.
func upgrade(t *testing.T, s *site) {
	apps, before := s.instances(t), s.mainPID(t)
	load := s.load(t, *requestRate, "page", "second")
	load.await(t, 100)
	took := s.timed(t, "apt-get install -y -q /files/ingot.deb </dev/null"+serverReady)
	load.await(t, 100)
	sent, failed, elapsed := load.stop()
	s.expect(t, "ingot version", `[1-9]`)
	s.expect(t, "ingot version | grep -c '0\\.0\\.1' || true", "^0$")
	if after := s.mainPID(t); after == before {
		t.Error("the server of the old version runs")
	}
	s.expect(t, `readlink "/proc/$(systemctl show -P MainPID ingot)/exe"`, `^/usr/bin/ingot$`) // not deleted
	s.sameInstances(t, "upgrade", apps)
	s.expect(t, "grep -c ^INGOT_DEMO /etc/default/ingot", "^1$")
	row(t, fmt.Sprintf("upgrade of the package (%s) with %.0f requests/s", seconds(took), float64(sent)/elapsed.Seconds()),
		"0 failed", fmt.Sprintf("%d of %d failed", len(failed), sent))
	if len(failed) > 0 {
		t.Errorf("%d of %d requests failed: %s", len(failed), sent, failed[0])
	}
}

func remove(t *testing.T, s *site) {
	s.run(t, "apt-get remove -y -q ingot </dev/null")
	s.expect(t, "pgrep -fa '^/.ingot-init|^/usr/bin/ingot ' || true", "^$")
	s.expect(t, "systemctl is-active ingot || true", "^inactive$")
	s.expect(t, "ls /usr/bin/ingot /usr/lib/ingot 2>&1 || true",
		"(?s)cannot access '/usr/bin/ingot'.*cannot access '/usr/lib/ingot'")
	s.expect(t, "ls -d /etc/default/ingot /var/lib/ingot/secrets/encryption-keys",
		"^/etc/default/ingot\n/var/lib/ingot/secrets")
	// Nothing in the kernel is left: control groups with processes, links, mounts, loop devices.
	s.expect(t, "cat /sys/fs/cgroup/ingot.slice/cgroup.events 2>/dev/null | grep populated || true", "^(populated 0)?$")
	s.expect(t, "mount | grep -F ingot || true", "^$")
	s.expect(t, "losetup --list --noheadings || true", "^$")
}

func purge(t *testing.T, s *site) {
	s.expect(t, "apt-get purge -y -q ingot </dev/null 2>&1", "/var/lib/ingot has the data of apps and users, and was kept")
	s.expect(t, "ls /etc/default/ingot 2>&1 || true", "cannot access")
	s.expect(t, "ls /var/lib/ingot/secrets/encryption-keys", "encryption-keys$")
	s.expect(t, "systemctl cat ingot.service 2>&1 || true", "No files found")
}

// again installs the package where the data was kept: its apps start again.
func again(t *testing.T, s *site) {
	s.install(t)
	s.answers(t, "page")
	s.answers(t, "second")
	s.run(t, "ingot delete -f -r second")
}

// A load sends requests to apps at a rate, or as fast as the answers come.
type load struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	began  time.Time
	sent   atomic.Int64

	mu     sync.Mutex
	failed []string
}

func (s *site) load(t *testing.T, rate int, apps ...string) *load {
	t.Helper()
	const senders = 16
	ctx, cancel := context.WithCancel(t.Context())
	l := &load{cancel: cancel, began: time.Now()}
	ticks := make(chan struct{})
	l.done.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(rate))
		defer tick.Stop()
		defer close(ticks)
		for ctx.Err() == nil {
			select {
			case <-tick.C:
				select {
				case ticks <- struct{}{}:
				case <-ctx.Done():
				}
			case <-ctx.Done():
			}
		}
	})
	for i := range senders {
		l.done.Go(func() {
			for range ticks {
				app := apps[i%len(apps)]
				// A request that was begun is finished.
				body, err := s.get(context.WithoutCancel(ctx), app, "/")
				l.sent.Add(1)
				if err != nil || body != "word-of-"+app {
					l.mu.Lock()
					l.failed = append(l.failed, fmt.Sprintf("%s %s: %q, %v", time.Now().UTC().Format("15:04:05.000"), app, body, err))
					l.mu.Unlock()
				}
			}
		})
	}
	t.Cleanup(func() { l.stop() })
	return l
}

// await waits until n more requests were answered.
func (l *load) await(t *testing.T, n int64) {
	t.Helper()
	n += l.sent.Load()
	eventually(t, "requests are answered", func() bool { return l.sent.Load() >= n })
}

func (l *load) stop() (sent int64, failed []string, elapsed time.Duration) {
	l.cancel()
	l.done.Wait()
	return l.sent.Load(), l.failed, time.Since(l.began)
}

// hostFigures measures the same as in the guest on this machine.
func hostFigures(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	dir := t.TempDir()
	env := []string{"HOME=" + dir, "INGOT_HOME=" + dir, "PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin"}
	var flags, addresses []string
	for _, name := range []string{"listen", "notifications-listen", "ssh-listen", "admin-listen"} {
		address, err := freeAddress()
		if err != nil {
			t.Fatal(err)
		}
		flags, addresses = append(flags, "--"+name, address), append(addresses, address)
	}
	bin := os.Getenv("INGOT_BIN")
	server := fmt.Sprintf("%s up --demo --engine container --data-dir %s/data %s", bin, dir, strings.Join(flags, " "))
	stop := background(t, env, server)
	defer stop()
	began := time.Now()
	onHost(t, env, `for i in $(seq 3000); do curl -fs -o /dev/null http://`+addresses[3]+`/readyz && exit 0; sleep 0.02; done; exit 1`)
	row(t, "start until `/readyz` answers 200, this machine", "", seconds(time.Since(began)))
	onHost(t, env, fmt.Sprintf(`%[1]s api http://%[2]s; %[1]s auth admin "$(cat %[3]s/data/secrets/admin-password)"; %[1]s target -o demo -s dev`,
		bin, addresses[0], dir))
	onHost(t, env, fmt.Sprintf("mkdir %[1]s/page; cp %[2]s/app/app %[1]s/page", dir, os.Getenv(filesVariable)))
	began = time.Now()
	onHost(t, env, fmt.Sprintf("%s push page -p %s/page -b binary_buildpack -c ./app -m 64M -k 128M", bin, dir))
	row(t, "`ingot push` of a binary, this machine", "", seconds(time.Since(began)))
	onHost(t, env, bin+" stop page")
	began = time.Now()
	onHost(t, env, bin+" start page")
	row(t, "`ingot start` of a stopped app, this machine", "", seconds(time.Since(began)))
	stop()
	onHost(t, env, fmt.Sprintf("%s down --data-dir %s/data", bin, dir))
}
