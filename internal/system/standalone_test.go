package system

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/web"
	"ingot/internal/notify/httpext"
	"ingot/internal/notify/mail/mailtest"
)

func standaloneConfig(t *testing.T, authURL string) StandaloneConfig {
	t.Helper()
	c := defaultStandaloneConfig()
	c.DataDir = filepath.Join(t.TempDir(), "data")
	c.Listen, c.AdminListen = "127.0.0.1:0", "127.0.0.1:0"
	c.AuthURL, c.ClientSecret = authURL, "secret"
	return c
}

func newStandalone(t *testing.T, c StandaloneConfig) *Standalone {
	t.Helper()
	s, err := NewStandalone(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func TestStandaloneStress(t *testing.T) {
	t.Parallel()
	gone := "http://127.0.0.1:1" // no server answers there
	backgroundtest.Stress(t, func(t *testing.T) background.Service { return newStandalone(t, standaloneConfig(t, gone)) })
}

func TestStandaloneConfig(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*StandaloneConfig){
		"--auth-url":           func(c *StandaloneConfig) { c.AuthURL = "" },
		"--client-secret-file": func(c *StandaloneConfig) { c.ClientSecret = "" },
		"--client-id":          func(c *StandaloneConfig) { c.ClientID = "" },
		"--platform-url":       func(c *StandaloneConfig) { c.PlatformURL = "ftp://x" },
		"--data-dir":           func(c *StandaloneConfig) { c.DataDir = "" },
		"--listen":             func(c *StandaloneConfig) { c.Listen = "x" },
		"--smtp-url":           func(c *StandaloneConfig) { c.SMTPURL = "http://x" },
		"--bounce-listen":      func(c *StandaloneConfig) { c.BounceListen = "x" },
		"--messages-kept-max":  func(c *StandaloneConfig) { c.MessagesKeptMax = 59 * time.Minute },
		"--bounce-address": func(c *StandaloneConfig) {
			c.BounceListen, c.MailFrom = ":25", "a.long.notification.sender@example.com"
		},
		"--database-url": func(c *StandaloneConfig) { c.DatabaseURL = "mysql://x" },
	} {
		c := standaloneConfig(t, "http://127.0.0.1:1")
		change(&c)
		if _, err := NewStandalone(c); err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%v, want something about %s", err, want)
		}
	}
}

// TestStandalone uses a whole server as authorization server and platform.
// TestMessagesKept sees that kinds may say at least what the server keeps anyway.
func TestMessagesKept(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for c, want := range map[[2]time.Duration][2]time.Duration{
		{0, 0}: {7 * day, 400 * day}, {day, 30 * day}: {day, 30 * day}, {500 * day, 0}: {500 * day, 500 * day},
		{7 * day, time.Hour}: {7 * day, 7 * day},
	} {
		usual, most := MailConfig{MessagesKept: c[0], MessagesKeptMax: c[1]}.kept()
		if got := [2]time.Duration{usual, most}; got != want {
			t.Errorf("%v: %v, want %v", c, got, want)
		}
	}
}

func TestStandalone(t *testing.T) {
	t.Parallel()
	sink, config := mailtest.New(t, mailtest.Options{Keep: 1}), testConfig(t)
	config.SMTPURL, config.BounceListen, config.MailFrom = sink.URL("", ""), "127.0.0.1:0", "Ingot <mail@example.com>"
	up := startSystem(t, config)
	c := standaloneConfig(t, up.Endpoints().Auth+"/")
	c.PlatformURL = up.Endpoints().API
	secret, err := os.ReadFile(filepath.Join(up.SecretsDir(), auth.ClientNotifications))
	if err != nil {
		t.Fatal(err)
	}
	c.ClientSecret = strings.TrimSpace(string(secret))
	s := newStandalone(t, c)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	e := s.Endpoints()
	if a := call(t, http.MethodGet, e.Notifications+"/readyz", "", nil); a.status != http.StatusOK {
		t.Errorf("readyz: %d %s", a.status, a.body)
	}
	if a := call(t, http.MethodGet, e.Admin+"/mailbox", "", nil); a.status != http.StatusOK {
		t.Errorf("mailbox: %d %s", a.status, a.body)
	}
	// A client without a password of the authorization server can do nothing.
	a := call(t, http.MethodPost, up.Endpoints().API+"/oauth/clients", adminToken(t, up), map[string]any{
		"client_id": "nobody", "client_secret": "a long enough secret", "authorized_grant_types": "client_credentials",
		"authorities": []string{"notifications.nothing"},
	})
	if a.status != http.StatusCreated {
		t.Fatalf("create the client: %d %s", a.status, a.body)
	}
	without := clientToken(t, up, "nobody", "a long enough secret")
	b := s.built.Load()
	live := b.front.Live.Load()
	for _, mux := range []*web.Mux{live.Notifications.(*httpext.Versions).V1, live.Notifications.(*httpext.Versions).V2,
		b.admin, b.front.Health} {
		for _, route := range mux.Routes() {
			checkRoute(t, mux, route, without)
		}
	}
	// Mail has a return path that cannot be guessed.
	a = call(t, http.MethodPost, up.Endpoints().API+"/oauth/clients", adminToken(t, up), map[string]any{
		"client_id": "sender", "client_secret": "a long enough secret", "authorized_grant_types": "client_credentials",
		"authorities": []string{"emails.write"},
	})
	if a.status != http.StatusCreated {
		t.Fatalf("create the client: %d %s", a.status, a.body)
	}
	if a := call(t, http.MethodPost, up.Endpoints().Notifications+"/emails", clientToken(t, up, "sender",
		"a long enough secret"), map[string]any{"to": "ann@example.com", "subject": "s", "text": "t"}); a.status != 200 {
		t.Errorf("send: %d %s", a.status, a.body)
	}
	if !sink.Wait(1, time.Minute) {
		t.Fatal("no mail came")
	}
	if from := sink.Messages()[0].From; !regexp.MustCompile(`^mail\+[a-z2-7]{42}@example\.com$`).MatchString(from) {
		t.Errorf("the return path is %q", from)
	}
	if live.Origin != nil || live.Auth != nil || live.Apps != nil {
		t.Error("it serves more than notifications")
	}
	s.Stop()
	if _, err := os.Stat(filepath.Join(c.DataDir, endpointsFile)); err == nil {
		t.Error("endpoints.json is left")
	}
}

// defaultStandaloneConfig is what `ingot notifications` does when it is told
// nothing more than what it needs.
func defaultStandaloneConfig() StandaloneConfig {
	c := DefaultConfig()
	return StandaloneConfig{
		Listen: c.NotificationsListen, AdminListen: c.AdminListen, Domain: c.Domain, MailConfig: c.MailConfig,
		ClientID: auth.ClientNotifications,
	}
}
