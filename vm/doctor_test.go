//go:build linux

package main

import (
	"regexp"
	"strings"
	"testing"
)

// doctor runs `ingot doctor` as root and as an ordinary user, who also runs a server.
func doctor(t *testing.T, s *site) {
	s.install(t)
	t.Run("root", func(t *testing.T) { //nolint:paralleltest // one after another
		s.expect(t, "ingot doctor", `(?m)^ok +engine +container \(a test container worked\)`)
	})
	t.Run("user", func(t *testing.T) { //nolint:paralleltest // one after another
		out, err := s.try(t, "dev", "ingot doctor")
		// Plain processes only with a reason.
		if !regexp.MustCompile(`(?m)^ok +engine +container|(?s)note +engine +process.*engine: a test container failed: \S`).
			MatchString(out) {
			t.Errorf("ingot doctor: %v\n%s\nwant containers, or why they do not work", err, out)
		}
	})
	t.Run("up", func(t *testing.T) { userServer(t, s) }) //nolint:paralleltest // one after another
}

// userServer runs a server as an ordinary user, beside that of root.
func userServer(t *testing.T, s *site) {
	t.Helper()
	s.run(t, "systemctl stop ingot; loginctl enable-linger dev")
	const server = `XDG_RUNTIME_DIR=/run/user/1000 systemd-run --user --quiet --unit ingot-dev -- /usr/bin/ingot up --demo --data-dir $HOME/data
for i in $(seq 600); do curl -fs -o /dev/null http://127.0.0.1:8082/readyz && ready=1 && break; sleep 0.2; done
[ "${ready:-}" ] || { XDG_RUNTIME_DIR=/run/user/1000 journalctl --user --no-pager -u ingot-dev | tail -n 30; exit 1; }
ingot api http://127.0.0.1:8080; ingot auth admin "$(cat $HOME/data/secrets/admin-password)"; ingot target -o demo -s dev
`
	out, err := s.try(t, "dev", server+strings.ReplaceAll(pushed("mine", "-m 64M -k 128M"), "/tmp/mine", "$HOME/mine")+`
curl -fsS -H 'Host: mine.apps.localhost' http://127.0.0.1:8080/`)
	if err != nil || !strings.HasSuffix(out, "word-of-mine") {
		t.Errorf("%v\n%s", err, out)
	}
	s.expect(t, "ps -o user= -p $(pgrep -x app | head -n 1)", "^(dev|1[0-9]{5})$")
	if out, err := s.try(t, "dev", `export XDG_RUNTIME_DIR=/run/user/1000; systemctl --user stop ingot-dev; ingot down --data-dir $HOME/data; ! pgrep -x app`); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	s.run(t, "systemctl start ingot"+serverReady)
}
