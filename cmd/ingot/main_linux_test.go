package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/system"
)

func TestMain(m *testing.M) { os.Exit(testkit.WithPrograms(m.Run)) }

func TestFlagsAndEnvironment(t *testing.T) {
	t.Parallel()
	standard := system.DefaultConfig()
	standard.DataDir = "/home/vcap/.local/share/ingot"
	with := func(change func(*system.Config)) system.Config {
		c := standard
		change(&c)
		return c
	}
	tests := map[string]struct {
		args string
		env  func(string) string
		uid  int
		want system.Config
	}{
		"nothing":   {"", env(), 1000, standard},
		"root":      {"", env(), 0, with(func(c *system.Config) { c.DataDir = "/var/lib/ingot" })},
		"xdg":       {"", env("XDG_DATA_HOME", "/data"), 1000, with(func(c *system.Config) { c.DataDir = "/data/ingot" })},
		"flag":      {"--listen 127.0.0.1:0", env(), 1000, with(func(c *system.Config) { c.Listen = "127.0.0.1:0" })},
		"equals":    {"--listen=127.0.0.1:0", env(), 1000, with(func(c *system.Config) { c.Listen = "127.0.0.1:0" })},
		"variable":  {"", env("INGOT_LISTEN", ":1"), 1000, with(func(c *system.Config) { c.Listen = ":1" })},
		"flag wins": {"--listen :2", env("INGOT_LISTEN", ":1"), 1000, with(func(c *system.Config) { c.Listen = ":2" })},
		"empty":     {"", env("INGOT_LISTEN", "", "INGOT_DEMO", ""), 1000, standard},
		"demo":      {"--demo", env(), 1000, with(func(c *system.Config) { c.Demo = true })},
		"kubernetes": {"--engine kubernetes --kubernetes-image stack --kubernetes-rate 5 --kubernetes-cpu-limit",
			env("INGOT_KUBERNETES_NAMESPACE", "apps"), 1000, with(func(c *system.Config) {
				c.Engine, c.Kubernetes.Image, c.Kubernetes.Rate, c.Kubernetes.CPULimit, c.Kubernetes.Namespace = "kubernetes",
					"stack", 5, true, "apps"
			})},
		"demo by env": {"", env("INGOT_DEMO", "true"), 1000, with(func(c *system.Config) { c.Demo = true })},
		"no demo":     {"", env("INGOT_DEMO", "false"), 1000, standard},
		"password off": {"--password-grant off", env(), 1000, with(func(c *system.Config) {
			c.PasswordGrant = false
		})},
		"secrets": {"", env("INGOT_ADMIN_PASSWORD", "p", "INGOT_ADMIN_CLIENT_SECRET", "s", "INGOT_ADMIN_EMAIL",
			"ops@example.org", "INGOT_ENCRYPTION_KEY", "k"), 1000,
			with(func(c *system.Config) {
				c.AdminPassword, c.AdminClientSecret, c.AdminEmail, c.EncryptionKey = "p", "s", "ops@example.org", "k"
			})},
		"all others": {
			"--data-dir /d --notifications-listen :1 --ssh-listen :2 --admin-listen :3 --domain Example.org --engine process " +
				"--trusted-proxies 10.0.0.1 --proxy-protocol-from 10.0.0.2 --login-lockout 7/2m --api-rate-limit 2000 " +
				"--database-url postgres://u:p@h/n --smtp-url smtp://h:25 --auth-url https://uaa.example.org --broker-timeout 5s",
			env("INGOT_ADMIN_TOKEN", "sixteen-characters"), 1000,
			with(func(c *system.Config) {
				c.DataDir, c.NotificationsListen, c.SSHListen, c.AdminListen = "/d", ":1", ":2", ":3"
				c.Domain, c.Engine, c.DatabaseURL = "Example.org", "process", "postgres://u:p@h/n"
				c.SMTPURL, c.AuthURL, c.BrokerTimeout = "smtp://h:25", "https://uaa.example.org", 5*time.Second
				c.TrustedProxies, c.ProxyProtocolFrom, c.LoginLimits.Lockout, c.APILimits.General = "10.0.0.1", "10.0.0.2",
					"7/2m", 2000
				c.AdminToken = "sixteen-characters"
			}),
		},
		"all others by env": {
			"", env("INGOT_DATA_DIR", "/d", "INGOT_NOTIFICATIONS_LISTEN", ":1", "INGOT_SSH_LISTEN", ":2", "INGOT_ADMIN_LISTEN",
				"127.0.0.1:3",
				"INGOT_DOMAIN", "example.org", "INGOT_ENGINE", "container", "INGOT_DATABASE_URL", "sqlite:x.db",
				"INGOT_SMTP_URL", "smtps://h", "INGOT_AUTH_URL", "http://h:1", "INGOT_PASSWORD_GRANT", "off"), 1000,
			with(func(c *system.Config) {
				c.DataDir, c.NotificationsListen, c.SSHListen, c.AdminListen = "/d", ":1", ":2", "127.0.0.1:3"
				c.Domain, c.Engine, c.DatabaseURL = "example.org", "container", "sqlite:x.db"
				c.SMTPURL, c.AuthURL, c.PasswordGrant = "smtps://h", "http://h:1", false
			}),
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &process{args: append([]string{"up"}, strings.Fields(tc.args)...), getenv: tc.env, uid: tc.uid, err: io.Discard}
			o, command, err := p.parse()
			if err != nil || command != "up" {
				t.Fatalf("parse: %q, %v", command, err)
			}
			got, err := p.config(o.Up)
			if err != nil {
				t.Fatal(err)
			}
			got.Log = nil
			if !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got  %+v\nwant %+v", got, tc.want)
			}
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		args []string
		env  func(string) string
		code int
		out  string // part of standard output
		err  string // part of standard error
	}{
		"no command":      {nil, env(), 0, "Everyday commands:", ""},
		"notifications":   {[]string{"notifications"}, env(), 0, "register KIND", ""},
		"version flag":    {[]string{"--version"}, env(), 0, "ingot 0.1.0-dev", ""},
		"unknown command": {[]string{"upp"}, env(), 2, "", "\"upp\" is not a command; did you mean up?"},
		"help help":       {[]string{"help", "help"}, env(), 0, "Available commands", ""},
		"help --help":     {[]string{"help", "--help"}, env(), 0, "Available commands", ""},
		"help up --help":  {[]string{"help", "up", "--help"}, env(), 0, "$INGOT_LISTEN", ""},
		"both":            {[]string{"help", "notifications"}, env(), 0, "send KIND", ""},
		"both with flag":  {[]string{"notifications", "--help"}, env(), 0, "$INGOT_NOTIFICATIONS_LISTEN", ""},
		"below":           {[]string{"help", "notifications", "send"}, env(), 0, "--reply-to", ""},
		"below keys":      {[]string{"help", "keys", "rotate-encryption"}, env(), 0, "data-dir", ""},
		"no such below":   {[]string{"notifications", "foo"}, env(), 2, "", "Commands: register, kinds"},
		"cf alone":        {[]string{"add-plugin-repo"}, env(), 2, "", "the cf CLI has it"},
		"another's word":  {[]string{"deploy"}, env(), 2, "", "did you mean push?"},
		"unknown flag":    {[]string{"up", "--lisen", "x"}, env(), 2, "", "did you mean --listen?"},
		"far from any":    {[]string{"up", "--zzzzzz"}, env(), 2, "", "unknown flag --zzzzzz (see"},
		"short flag":      {[]string{"up", "-x"}, env(), 2, "", "unknown flag -x"},
		"argument":        {[]string{"up", "now"}, env(), 2, "", `unexpected argument "now"`},
		"value missing":   {[]string{"up", "--listen"}, env(), 2, "", "--listen needs a value"},
		"empty address":   {[]string{"up", "--listen="}, env(), 2, "", "--listen: "},
		"no port":         {[]string{"up", "--listen=localhost"}, env(), 2, "", "--listen: "},
		"port too high":   {[]string{"up", "--admin-listen=:70000"}, env(), 2, "", "--admin-listen: "},
		"ssh":             {[]string{"up", "--ssh-listen=x"}, env(), 2, "", "--ssh-listen: "},
		"domain":          {[]string{"up", "--domain=a..b"}, env(), 2, "", "--domain: "},
		"domain address":  {[]string{"up", "--domain=10.0.0.1"}, env(), 2, "", "is an address"},
		"engine":          {[]string{"up", "--engine=docker"}, env(), 2, "", "auto, container, process, kubernetes"},
		"engine by env":   {[]string{"up"}, env("INGOT_ENGINE", "docker"), 2, "", "--engine: "},
		"database":        {[]string{"up", "--database-url=mysql://u:hunter2@h"}, env(), 2, "", "--database-url: "},
		"smtp":            {[]string{"up", "--smtp-url=http://h"}, env(), 2, "", "--smtp-url: "},
		"auth":            {[]string{"up", "--auth-url=http://u:hunter2@h"}, env(), 2, "", "--auth-url: "},
		"grant":           {[]string{"up", "--password-grant=maybe"}, env(), 2, "", "on, off"},
		"level":           {[]string{"up", "--log-level=loud"}, env(), 2, "", "debug, info, warn, error"},
		"format":          {[]string{"up", "--log-format=xml"}, env(), 2, "", "auto, human, json"},
		"demo":            {[]string{"up"}, env("INGOT_DEMO", "perhaps"), 2, "", "--demo"},
		"no home":         {[]string{"up"}, env("HOME", ""), 2, "", "--data-dir is required"},
		"version":         {[]string{"version"}, env(), 0, "ingot 0.1.0-dev", ""},
		"help":            {[]string{"help"}, env(), 0, "Available commands", ""},
		"help flag":       {[]string{"--help"}, env(), 0, "Available commands", ""},
		"help on up":      {[]string{"help", "up"}, env(), 0, "$INGOT_LISTEN", ""},
		"up help":         {[]string{"up", "--help"}, env(), 0, "$INGOT_LISTEN", ""},
		"client help":     {[]string{"help", "push"}, env(), 0, "ingot push: ", ""},
		"client usage":    {[]string{"push", "--no-sart"}, env(), 2, "", "did you mean --no-start?"},
		"client alone":    {[]string{"apps"}, env("INGOT_HOME", "/nonexistent/ingot"), 1, "", "No API is targeted"},
		"keys alone":      {[]string{"keys"}, env(), 2, "", "rotate-encryption"},
		"nothing to turn": {[]string{"keys", "rotate-encryption", "--data-dir", "/nonexistent/ingot"}, env(), 1, "",
			"has `ingot up` been run"},
		"keys in variable": {[]string{"keys", "rotate-encryption"}, env("INGOT_ENCRYPTION_KEY", "x"), 1, "",
			"INGOT_ENCRYPTION_KEY is set"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out, errs bytes.Buffer
			p := &process{args: tc.args, getenv: tc.env, uid: 1000, out: &out, err: &errs}
			if code := p.run(); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			if !strings.Contains(out.String(), tc.out) || !strings.Contains(errs.String(), tc.err) {
				t.Errorf("stdout: %s\nstderr: %s", &out, &errs)
			}
			if lines := strings.Count(errs.String(), "\n"); tc.code == exitUsage && (lines != 1 || out.Len() > 0) {
				t.Errorf("wrong usage must be answered with one line, got %d:\n%s%s", lines, &errs, &out)
			}
			if strings.Contains(errs.String(), "hunter2") {
				t.Errorf("a password is shown: %s", &errs)
			}
		})
	}
}

// screen is a standard output that a test can wait on.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	want string
	seen chan struct{}
}

func newScreen(want string) *screen { return &screen{want: want, seen: make(chan struct{})} }

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := strings.Contains(s.text.String(), s.want)
	n, err := s.text.Write(b)
	if !before && strings.Contains(s.text.String(), s.want) {
		close(s.seen)
	}
	return n, err
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password := filepath.Join(dir, "secrets", "admin-password")

	up := func() string {
		signals := make(chan os.Signal, 2)
		out, errs := newScreen("cf auth admin"), &bytes.Buffer{}
		p := &process{
			args: strings.Fields("up --listen 127.0.0.1:0 --notifications-listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 " +
				"--ssh-listen 127.0.0.1:0 --log-format human --engine process --programs " + testkit.Programs(t) +
				" --data-dir " + dir),
			getenv: env(), uid: 1000, out: out, err: errs, signals: signals, exit: func(int) { t.Error("ended at once") },
		}
		code := make(chan int, 1)
		go func() { code <- p.run() }()
		select {
		case <-out.seen:
		case c := <-code:
			t.Fatalf("ended with %d: %s", c, errs)
		}
		// The server is ready when it says so.
		content, err := os.ReadFile(filepath.Join(dir, "endpoints.json"))
		if err != nil {
			t.Fatal(err)
		}
		var e system.Endpoints
		if err := json.Unmarshal(content, &e); err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, e.API+"/readyz", nil)
		if err != nil {
			t.Fatal(err)
		}
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Errorf("/readyz: %s", res.Status)
		}
		signals <- syscall.SIGTERM
		if c := <-code; c != exitOK {
			t.Errorf("exit code %d, want 0: %s", c, errs)
		}
		return out.String()
	}

	first := up()
	secret, err := os.ReadFile(password)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(first, strings.TrimSpace(string(secret))) {
		t.Errorf("the first start does not show the password it made:\n%s", first)
	}
	if strings.Contains(first, "\x1b") {
		t.Error("colours outside of a terminal")
	}
	second := up()
	if strings.Contains(second, strings.TrimSpace(string(secret))) {
		t.Errorf("the second start shows the password again:\n%s", second)
	}
	if !strings.Contains(second, password) {
		t.Errorf("the second start does not say where the password is:\n%s", second)
	}

	var out bytes.Buffer
	p := &process{args: []string{"keys", "rotate-encryption", "--data-dir", dir}, getenv: env(), uid: 1000, out: &out,
		err: io.Discard}
	if code := p.run(); code != exitOK || !strings.Contains(out.String(), "next start") {
		t.Errorf("rotate: %d %s", code, &out)
	}
	up() // with two keys
}

func TestFailureToStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var errs bytes.Buffer
	p := &process{args: []string{"up", "--data-dir", dir}, getenv: env(), uid: 1000, out: io.Discard, err: &errs}
	if code := p.run(); code != exitFailure || !strings.Contains(errs.String(), "data directory") {
		t.Errorf("exit code %d, want %d and the data directory: %s", code, exitFailure, &errs)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	signals, ended := make(chan os.Signal, 2), make(chan int, 1)
	p := &process{signals: signals, exit: func(code int) { ended <- code }}
	c, err := (&process{getenv: env(), uid: 1000, err: io.Discard, args: []string{"up"}}).config(upOptions{
		DataDir: "x", Listen: ":0", NotificationsListen: ":0", SSHListen: ":0", AdminListen: "127.0.0.1:0",
		Domain: "localhost", Engine: "auto", LogStore: "auto",
		PasswordGrant: "on", logOptions: logOptions{LogLevel: "info", LogFormat: "json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := p.untilAsked(c.Log)
	defer stop()
	signals <- syscall.SIGINT
	<-ctx.Done()
	signals <- syscall.SIGINT
	if code := <-ended; code != exitFailure {
		t.Errorf("a second signal ends with %d, want 1", code)
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"/a/b-c.d": "/a/b-c.d", "": "''", "a b": "'a b'", "it's": `'it'\''s'`,
		"$(x)": "'$(x)'"} {
		if got := shellQuote(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}
