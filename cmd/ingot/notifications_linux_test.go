package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNotificationsUsage(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"--auth-url http://127.0.0.1:1":                                          "INGOT_CLIENT_SECRET",
		"--auth-url http://127.0.0.1:1 --client-secret-file " + empty:            "is empty",
		"--auth-url http://127.0.0.1:1 --client-secret-file " + empty + ".not":   "no such file",
		"--auth-url http://127.0.0.1:1 --log-level loud --client-id x":           "--log-level",
		"--auth-url http://127.0.0.1:1 --auth-ulr http://127.0.0.1:1":            "did you mean --auth-url?",
		"--auth-url http://127.0.0.1:1 --platform-url nowhere --log-format json": "--platform-url",
	} {
		var out, errs bytes.Buffer
		p := &process{args: append([]string{"notifications"}, strings.Fields(args)...), getenv: env("HOME", t.TempDir()),
			uid: 1000, out: &out, err: &errs}
		if code := p.run(); code != exitUsage || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: %d %s, want %s", args, code, &errs, want)
		}
	}
}

// TestNotificationsRuns starts the service while its authorization server is
// down, and stops it.
func TestNotificationsRuns(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 2)
	out, errs := newScreen("Mail"), &bytes.Buffer{}
	p := &process{
		args: strings.Fields("notifications --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0 --auth-url " +
			"http://127.0.0.1:1 --log-format human --data-dir " + filepath.Join(t.TempDir(), "d")),
		getenv: env("INGOT_CLIENT_SECRET", "hush"), uid: 1000, out: out, err: errs, signals: signals,
		exit: func(int) { t.Error("ended at once") },
	}
	code := make(chan int, 1)
	go func() { code <- p.run() }()
	select {
	case <-out.seen:
	case c := <-code:
		t.Fatalf("ended with %d: %s", c, errs)
	}
	signals <- syscall.SIGTERM
	if c := <-code; c != exitOK {
		t.Errorf("exit code %d, want 0: %s", c, errs)
	}
	if text := out.String(); !strings.Contains(text, "/mailbox") || !strings.Contains(text, "--platform-url") ||
		strings.Contains(text+errs.String(), "hush") {
		t.Errorf("output is %s%s, want /mailbox and --platform-url and no secret", text, errs)
	}
}
