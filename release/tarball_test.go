package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server runs from the unpacked tarball alone: with an empty home, a PATH that has
// nothing of Ingot, and an app that the real cf CLI pushes.
func TestTarballRuns(t *testing.T) {
	t.Parallel()
	cf := os.Getenv("CF_BIN")
	if cf == "" {
		t.Skip("CF_BIN is not set")
	}
	dir := t.TempDir()
	cmd := exec.Command("tar", "-xz", "-C", dir)
	cmd.Stdin = bytes.NewReader(released(t, "*.tar.gz"))
	if _, err := output(cmd); err != nil {
		t.Fatal(err)
	}
	ingot := filepath.Join(dir, "ingot-"+testVersion+"-linux-"+runtime.GOARCH, "ingot")
	home, data, app := filepath.Join(dir, "home"), filepath.Join(dir, "data"), filepath.Join(dir, "app")
	for _, d := range []string{home, app} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Instances run as other users, which must be able to open their files.
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/usr/bin:/bin", "HOME=" + home, "INGOT_DATA_DIR=" + data}
	server := exec.Command(ingot, "up", "--demo", "--listen", "127.0.0.1:0", "--notifications-listen", "127.0.0.1:0",
		"--admin-listen", "127.0.0.1:0", "--ssh-listen", "127.0.0.1:0", "--tcp-ports", "none")
	var log bytes.Buffer
	server.Env, server.Dir, server.Stdout, server.Stderr = env, home, &log, &log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	t.Cleanup(func() {
		down := exec.Command(ingot, "down")
		down.Env = env
		if _, err := output(down); err != nil {
			t.Error(err)
		}
		_ = server.Process.Signal(syscall.SIGKILL) // it has ended
		<-ended
		if t.Failed() {
			t.Logf("the log of the server:\n%s", &log)
		}
	})
	api := ready(t, data, ended)
	for name, text := range map[string]string{"Staticfile": "", "index.html": "from the tarball"} {
		if err := os.WriteFile(filepath.Join(app, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	password, err := os.ReadFile(filepath.Join(data, "secrets", "admin-password"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"api", api}, {"auth", "admin", strings.TrimSpace(string(password))}, {"target", "-o", "demo", "-s", "dev"},
		{"push", "page", "-p", app, "-m", "64M"},
	} {
		cmd := exec.Command(cf, args...)
		cmd.Env = slices.Concat(env, []string{"CF_HOME=" + home})
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("cf %s: %v\n%s", args[0], err, out)
		}
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "page.apps.localhost"
	client := &http.Client{Timeout: time.Minute}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "from the tarball" {
		t.Errorf("the app answers %d %q, %v", response.StatusCode, body, err)
	}
}

// ready waits until a server is ready, and returns the URL of its API.
func ready(t *testing.T, data string, ended chan error) string {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	for deadline := time.Now().Add(time.Minute); ; {
		var at struct{ API, Admin string }
		if text, err := os.ReadFile(filepath.Join(data, "endpoints.json")); err == nil && json.Unmarshal(text, &at) == nil {
			if _, err := url.Parse(at.Admin); err == nil {
				if response, err := client.Get(at.Admin + "/readyz"); err == nil { //nolint:noctx // on this machine
					response.Body.Close()
					if response.StatusCode == http.StatusOK {
						return at.API
					}
				}
			}
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("the server has ended: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatal("the server is not ready after a minute")
		}
	}
}
