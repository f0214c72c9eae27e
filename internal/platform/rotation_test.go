package platform

import (
	"strings"
	"testing"
)

func TestOnCredentials(t *testing.T) {
	t.Parallel()
	for value, ok := range map[string]bool{"": true, "none": true, "restart": true, "SIGHUP": true, "SIGUSR1": true,
		"SIGKILL": false, "hup": false, "RESTART": false} {
		if err := CheckOnCredentials(value); (err == nil) != ok {
			t.Errorf("%q: %v, want ok = %t", value, err, ok)
		}
	}
	for _, c := range []struct {
		o    SidecarOptions
		want string
	}{
		{SidecarOptions{OnCredentials: "SIGHUP"}, ""},
		{SidecarOptions{OnCredentials: "restart", Restart: "always"}, ""},
		{SidecarOptions{OnCredentials: "restart"}, "restart: always"},
		{SidecarOptions{OnCredentials: "restart", Restart: "on-failure"}, "restart: always"},
		{SidecarOptions{OnCredentials: "none"}, "leave it out"},
		{SidecarOptions{OnCredentials: "SIGKILL"}, "must be restart or one of SIGHUP"},
	} {
		if got := strings.Join(c.o.check(), "; "); (c.want == "") != (got == "") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
	for _, s := range CredentialSignals {
		if StopSignals[s] == 0 {
			t.Errorf("%s has no number", s)
		}
	}
}

func TestAtBroker(t *testing.T) {
	t.Parallel()
	b := &ServiceBinding{Resource: Resource{GUID: "b"}}
	if b.AtBroker() != "b" {
		t.Errorf("a binding that was never rotated is %q at the broker", b.AtBroker())
	}
	if b.BrokerID = "n"; b.AtBroker() != "n" {
		t.Errorf("a rotated binding is %q at the broker", b.AtBroker())
	}
	for s, over := range map[RotationState]bool{RotationCreating: false, RotationApplying: false, RotationGrace: false,
		RotationRevoked: true, RotationFailed: true} {
		if s.Over() != over {
			t.Errorf("%s is over: %t", s, s.Over())
		}
	}
}
