package e2e

import (
	"testing"

	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/platform/services/brokertest"
)

// TestDevelopersAreTold has a space with notifications about its apps, and one
// without.
func TestDevelopersAreTold(t *testing.T) {
	t.Parallel()
	sink := mailtest.New(t, mailtest.Options{Keep: 1000})
	s := startApps(t, options{Args: []string{"--smtp-url", sink.URL("", "")}})
	p := &mailFixture{Server: s.Server, sink: sink, admin: s.adminToken(t)}
	home := s.admin(t)
	p.createUser(t, p.admin, "ann", "p")
	cfOK(t, home, "create-space", "silent", "-o", "demo")
	for _, space := range []string{"dev", "silent"} {
		cfOK(t, home, "set-space-role", "ann", "demo", space, "SpaceDeveloper")
	}
	cfOK(t, home, "target", "-s", "silent")
	pushFails(t, home, "push", "unheard", "-p", probe(t))
	cfOK(t, home, "target", "-s", "dev")
	cfOK(t, home, "set-label", "space", "dev", "notifications=on")

	// It exits repeatedly: one mail, which says how often.
	pushFails(t, home, pushProbe(t, "restless", "-c", "./probe exit 3")...)
	pushFails(t, home, "push", "mystery", "-p", probe(t))
	contains(t, p.receive(t, "Staging mystery failed", "admin@localhost", "ann@example.org")[0].Text,
		"cf logs mystery --recent")
	contains(t, p.receive(t, "restless crashed", "admin@localhost", "ann@example.org")[0].Text, "The app restless crashed",
		"Exited with status 3", "Org:   demo", "Space: dev", "lines of its log",
		"You are receiving this because you are a developer in the space dev of the org demo.", "Unsubscribe: http")
	cfOK(t, home, pushProbe(t, "smooth")...)
	cfOK(t, home, "restart", "smooth", "--strategy", "rolling")
	contains(t, p.receive(t, "A deployment of smooth finished", "admin@localhost", "ann@example.org")[0].Text,
		"The deployment of the app smooth finished: the new version runs.")
	if got := p.messages(t, ""); len(got) != 6 {
		t.Errorf("%d mails, want 6: %+v", len(got), got)
	}
}

// TestDevelopersAreToldOfServices has an asynchronous broker: a mail is sent at
// the end, and none for synchronous operations.
func TestDevelopersAreToldOfServices(t *testing.T) {
	t.Parallel()
	b := brokertest.New(t, &brokertest.Broker{Polls: 1})
	sink := mailtest.New(t, mailtest.Options{Keep: 1000})
	s := startApps(t, options{Engine: "process", Args: []string{"--smtp-url", sink.URL("", "")}})
	t.Cleanup(func() { s.emptySpace(t) })
	p := &mailFixture{Server: s.Server, sink: sink, admin: s.adminToken(t)}
	home := s.admin(t)
	p.createUser(t, p.admin, "ann", "p")
	cfOK(t, home, "set-space-role", "ann", "demo", "dev", "SpaceDeveloper")
	cfOK(t, home, "set-label", "space", "dev", "notifications=on")
	cfOK(t, home, "create-service-broker", "fakes", brokertest.Username, brokertest.Password, b.URL)
	cfOK(t, home, "enable-service-access", "fake")

	cfOK(t, home, "create-service", "fake", "sync", "quick", "--wait")
	cfFails(t, home, "it broke", "create-service", "fake", "breaks", "broken", "--wait")
	contains(t, p.receive(t, "Creating the service instance broken failed", "admin@localhost", "ann@example.org")[0].Text,
		"it broke", "cf service broken")
	cfOK(t, home, "create-service", "fake", "async", "later", "--wait")
	p.receive(t, "Creating the service instance later succeeded", "admin@localhost", "ann@example.org")
	cfOK(t, home, "delete-service", "later", "-f", "--wait")
	p.receive(t, "Deleting the service instance later succeeded", "admin@localhost", "ann@example.org")
	if got := p.messages(t, ""); len(got) != 6 {
		t.Errorf("%d mails, want 6: %+v", len(got), got)
	}
}
