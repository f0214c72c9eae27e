//go:build linux

package main

import (
	"regexp"
	"testing"
)

// releaseURL is the address of the release that scripts/on-vm has made for the guest.
const releaseURL = "http://127.0.0.1:8000"

// serveRelease lets the guest have the release at its address, as if it had a network.
const serveRelease = `systemctl is-active --quiet release || systemd-run --quiet --unit release \
  sh -c 'cd /files/release && exec python3 -m http.server --bind 127.0.0.1 8000'
for i in $(seq 300); do curl -fs -o /dev/null ` + releaseURL + `/SHA256SUMS && break; sleep 0.2; done
`

// appFiles are what the first push of a user may be: one file.
const appFiles = `rm -rf $HOME/hello; mkdir $HOME/hello; echo '<p>one line</p>' >$HOME/hello/index.html
`

// shown requests the page until the app serves it.
const shown = `
for i in $(seq 300); do curl -fs -H 'Host: hello.apps.localhost' http://127.0.0.1:8080/ && exit 0; sleep 0.2; done; exit 1`

// oneLine installs a release where nothing of it is installed, pushes an app, and removes all of it.
func oneLine(t *testing.T, s *site) {
	s.run(t, serveRelease+appFiles+`if command -v ingot || command -v go || [ -e /var/lib/ingot ]; then exit 1; fi`)
	took := s.timed(t, "curl -fsSL "+releaseURL+"/install.sh | sh && ingot push hello -p ~/hello -m 64M"+shown)
	row(t, "`curl … \\| sh && ingot push` until the app answers, root", "", seconds(took))
	s.expect(t, "command -v ingot; systemctl is-active ingot; systemctl is-enabled ingot",
		"^/usr/bin/ingot\nactive\nenabled$")
	s.expect(t, "ingot app hello", `(?m)^#0 +running`)
	s.expect(t, "cat /proc/$(pgrep -f '^/.ingot-init')/cgroup", `^0::/ingot\.slice/`)
	// Again it changes nothing.
	apps, server := s.instances(t), s.mainPID(t)
	s.run(t, "curl -fsSL "+releaseURL+"/install.sh | sh")
	s.sameInstances(t, "install.sh again", apps)
	if now := s.mainPID(t); now != server {
		t.Errorf("install.sh again: the server has the process id %s, and had %s", now, server)
	}
	s.expect(t, "curl -fsSL "+releaseURL+"/install.sh | sh -s -- --uninstall --purge",
		"Removed Ingot and /var/lib/ingot.$")
	s.expect(t, `ls -d /usr/bin/ingot /usr/lib/ingot /var/lib/ingot /etc/default/ingot /etc/systemd/system/ingot* \
  2>/dev/null || true`, "^$")
	s.expect(t, "pgrep -fa '^/.ingot-init|^/usr/(bin|lib)/ingot' || true", "^$")
	s.expect(t, "mount | grep -F ingot || true; losetup --list --noheadings", "^$")
}

// userInstalls is oneLine for an ordinary user, whose server is a unit of their own systemd, with containers.
func userInstalls(t *testing.T, s *site) {
	t.Helper()
	const path = `export PATH="$HOME/.local/bin:$PATH"` + "\n"
	s.run(t, serveRelease)
	as := func(script, want string) {
		t.Helper()
		out, err := s.try(t, "dev", path+script)
		if !regexp.MustCompile(want).MatchString(out) {
			t.Fatalf("%v\n%s\nwant output that matches %s", err, out, want)
		}
	}
	row(t, "`curl … \\| sh && ingot push` until the app answers, ordinary user", "", seconds(s.timedAs(t, "dev",
		path+appFiles+"curl -fsSL "+releaseURL+"/install.sh | sh && ingot push hello -p ~/hello -m 64M"+shown)))
	as("systemctl --user is-active ingot", "^active$")
	as("ingot doctor", `(?m)^ok +engine +container \(a test container worked, without root\)`)
	as("ingot app hello", `(?m)^#0 +running`)
	// The process of the app has one of the user's subordinate ids, and its group is below the user's systemd.
	s.expect(t, "ps -o uid= -p $(pgrep -f '^/.ingot-init')", "^ *1[0-9]{5}$")
	s.expect(t, "cat /proc/$(pgrep -f '^/.ingot-init')/cgroup", `^0::/user\.slice/user-1000\.slice/user@1000\.service/`)
	apps := s.instances(t)
	as(`kill -9 "$(systemctl --user show -P MainPID ingot)"
for i in $(seq 300); do [ "$(systemctl --user is-active ingot)" = active ] && [ "$(systemctl --user show -P NRestarts ingot)" -gt 0 ] && break; sleep 0.2; done`+shown,
		"one line")
	s.sameInstances(t, "kill -9 of the user's server", apps)
	as("curl -fsSL "+releaseURL+"/install.sh | sh -s -- --uninstall --purge",
		`Removed Ingot and \S+/\.local/share/ingot\.$`)
	s.expect(t, `pgrep -u dev -fa 'ingot|pasta|slirp4netns' || true
ls -d ~dev/.local/bin ~dev/.local/share/ingot 2>/dev/null || true`, "^$")
}
