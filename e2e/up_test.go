package e2e

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestUpFirstSecrets(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	first := s.Stdout.await(t, "What to type next")
	password, secret := s.secret(t, "admin-password"), s.secret(t, "admin-client-secret")
	for _, want := range []string{password, secret, s.API, s.Dir, filepath.Join(s.Dir, "secrets")} {
		if !strings.Contains(first, want) {
			t.Errorf("the first start does not print %q:\n%s", want, first)
		}
	}
	s.userTokens(t, "admin", password)
	token := s.clientToken(t, "admin", secret)
	s.Stop(t)

	s.Restart(t)
	again := s.Stdout.await(t, "What to type next")
	if strings.Contains(again, password) || strings.Contains(again, secret) {
		t.Errorf("the second start prints the secrets again:\n%s", again)
	}
	s.userTokens(t, "admin", password)
	s.call(t, http.MethodGet, "/Users", token, nil).want(t, http.StatusOK)
	s.Stop(t)
	for _, text := range []string{s.Stderr.String(), first} {
		if strings.Contains(text, "\x1b") {
			t.Errorf("colours where there is no terminal: %q", text)
		}
	}
}

func TestUpChosenSecrets(t *testing.T) {
	t.Parallel()
	s := start(t, options{Env: []string{"INGOT_ADMIN_PASSWORD=chosen password",
		"INGOT_ADMIN_CLIENT_SECRET=chosen secret"}})
	s.userTokens(t, "admin", "chosen password")
	s.clientToken(t, "admin", "chosen secret")
	if out := s.Stdout.await(t, "What to type next"); strings.Contains(out, "chosen") {
		t.Errorf("a chosen secret is printed:\n%s", out)
	}
	if log := s.Stderr.String(); strings.Contains(log, "chosen") {
		t.Errorf("a chosen secret is in the log:\n%s", log)
	}
	s.Stop(t)

	// They are used only at the first start.
	s.options.Env = []string{"INGOT_ADMIN_PASSWORD=later password"}
	s.Restart(t)
	s.userTokens(t, "admin", "chosen password")
	s.login(t, "admin", "later password").want(t, http.StatusUnauthorized)
	s.Stderr.await(t, "INGOT_ADMIN_PASSWORD is ignored")
}

func TestUpFilesArePrivate(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.adminToken(t)
	check := func(when string) {
		t.Helper()
		err := filepath.WalkDir(s.Dir, func(path string, d fs.DirEntry, err error) error {
			var info fs.FileInfo
			if err == nil {
				info, err = d.Info()
			}
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			want := fs.FileMode(0o600)
			switch {
			case path == s.Dir && os.Geteuid() == 0, d.Name() == "processes": // apps must reach their homes
				want = 0o711
			// Databases must reach their folders.
			case path == filepath.Join(s.Dir, "services"), path == filepath.Join(s.Dir, "services", "redis"),
				path == filepath.Join(s.Dir, "services", "own"):
				want = 0o711
			case d.Name() == "cache", d.Name() == "programs", d.Name() == "ingot-sftp": // shared by apps
				want = 0o755
			case d.IsDir():
				want = 0o700
			case d.Name() == "endpoints.json": // readable by all users, without secrets
				want = 0o644
			}
			if got := info.Mode().Perm(); got != want {
				t.Errorf("%s: %s has mode %04o, want %04o", when, path, got, want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	check("while it runs")
	s.Stop(t)
	check("when it has ended")

	// A secret that others can read is rejected.
	file := filepath.Join(s.Dir, "secrets", "admin-password")
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, s, "chmod 600 "+file)
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
}

// refused starts a server that must exit with 1 and log the reason in its last
// line.
func refused(t *testing.T, s *Server, why ...string) {
	t.Helper()
	p := run(t, s.options.Env, s.args()...)
	p.mayFail = true
	if code := p.wait(t); code != 1 {
		t.Fatalf("exit code %d, want 1\n%s", code, p.Stderr)
	}
	lines := strings.Split(strings.TrimSpace(p.Stderr.String()), "\n")
	last := lines[len(lines)-1]
	for _, want := range append(why, "ingot: ") {
		if !strings.Contains(last, want) {
			t.Errorf("it ends with %q, want %q in it", last, want)
		}
	}
	if out := p.Stdout.String(); out != "" {
		t.Errorf("it prints %q", out)
	}
}

func TestUpOneServerADirectory(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	token := s.adminToken(t)
	second := prepare(t, options{Dir: s.Dir})
	refused(t, second, "another ingot", fmt.Sprintf("(pid %d)", s.Cmd.Process.Pid), "already using "+s.Dir, "--data-dir")

	s.call(t, http.MethodGet, "/Users", token, nil).want(t, http.StatusOK)
	if _, err := os.Stat(filepath.Join(s.Dir, "endpoints.json")); err != nil {
		t.Errorf("the second took the endpoints of the first: %v", err)
	}
	s.Stop(t)
	second.launch(t)
	second.awaitReady(t)
}

func TestUpNewerDirectory(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	s.Stop(t)
	file := filepath.Join(s.Dir, "version.json")
	old, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"format": 9999, "ingot": "v99.1"}`)
	refused(t, s, "format 9999", `"v99.1"`, "Nothing was changed")
	write("not JSON")
	refused(t, s, "version.json", "backup")
	write(string(old))
	s.Restart(t)
}

func TestUpWrongUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want string
	}{
		{"fly", "fly"},
		{"up --no-such-flag", "unknown flag --no-such-flag"},
		{"up --data-dri x", "did you mean --data-dir?"},
		{"up surplus", `unexpected argument "surplus"`},
		{"up --listen 8080", "--listen: "},
		{"up --admin-listen 127.0.0.1:99999", "--admin-listen: "},
		{"up --admin-listen 0.0.0.0:0", "--admin-listen: 0.0.0.0:0 is not a loopback address"},
		{"up --admin-token-file /no/such/file", "--admin-token-file: "},
		{"up --trusted-ca /no/such/file", "--trusted-ca: "},
		{"up --trusted-proxies everyone", "--trusted-proxies: "},
		{"up --proxy-protocol-from 10.0.0.0/99", "--proxy-protocol-from: "},
		{"up --login-lockout 5", "--login-lockout: "},
		{"up --login-limit-address 0/1m", "--login-limit-address: "},
		{"up --api-rate-limit -1", "--api-rate-limit: "},
		{"up --domain 127.0.0.1", "--domain: "},
		{"up --engine steam", "--engine: "},
		{"up --log-level loud", "--log-level: "},
		{"up --log-format xml", "--log-format: "},
		{"up --database-url mysql://u:hidden@h/d", "--database-url: "},
		{"up --auth-url ftp://hidden", "--auth-url: "},
		{"up --password-grant maybe", "--password-grant: "},
		{"keys", "rotate-encryption"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			p := run(t, []string{"INGOT_DATA_DIR=" + dir}, strings.Fields(c.args)...)
			if code := p.wait(t); code != 2 {
				t.Errorf("exit code %d, want 2", code)
			}
			text := p.Stderr.String()
			if !strings.Contains(text, c.want) || strings.Count(text, "\n") != 1 || strings.Contains(text, "hidden") {
				t.Errorf("it says %q, want one line with %q", text, c.want)
			}
			if _, err := os.Stat(dir); err == nil {
				t.Error("it made a data directory")
			}
		})
	}
	for _, args := range []string{"help", "--help", "up --help", "help up", "version"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			p := run(t, nil, strings.Fields(args)...)
			if code := p.wait(t); code != 0 || p.Stdout.String() == "" || p.Stderr.String() != "" {
				t.Errorf("exit code %d, output %q, errors %q", code, p.Stdout, p.Stderr)
			}
		})
	}
}

func TestUpSignals(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, options{})
			if err := s.Cmd.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			if code := s.wait(t); code != 0 {
				t.Errorf("exit code %d, want 0", code)
			}
			if _, err := os.Stat(filepath.Join(s.Dir, "endpoints.json")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("endpoints.json: %v", err)
			}
		})
	}
	t.Run("while it starts", func(t *testing.T) {
		t.Parallel()
		s := prepare(t, options{})
		s.launch(t)
		s.awaitEndpoints(t)
		s.Stop(t)
		s.Restart(t)
		s.userTokens(t, "admin", s.secret(t, "admin-password"))
		s.Stop(t)
	})
}

func TestUpBusyPort(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for i, flag := range listenFlags {
		s := prepare(t, options{})
		free := s.listen
		s.listen[i] = busy.Addr().String()
		refused(t, s, "cannot listen on "+busy.Addr().String(), "with "+flag+" ")
		if _, err := os.Stat(filepath.Join(s.Dir, "endpoints.json")); err == nil {
			t.Errorf("%s: endpoints.json is there", flag)
		}
		if i == 0 { // nothing prevents the next start
			s.listen = free
			s.launch(t)
			s.awaitReady(t)
		}
	}
}

func TestUpEnvironment(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := &Server{Dir: dir, client: newClient()}
	s.process = run(t, []string{
		"INGOT_DATA_DIR=" + dir, "INGOT_LISTEN=127.0.0.1:0", "INGOT_NOTIFICATIONS_LISTEN=127.0.0.1:0",
		"INGOT_ADMIN_LISTEN=127.0.0.1:0", "INGOT_SSH_LISTEN=127.0.0.1:0",
		"INGOT_DOMAIN=example.test", "INGOT_LOG_LEVEL=debug", "INGOT_DATABASE_URL=sqlite:" +
			filepath.Join(t.TempDir(), "other.db"),
	}, "up")
	s.awaitReady(t)
	s.call(t, http.MethodGet, "/healthz", "", nil, header{"Host", "api.example.test"}).want(t, http.StatusOK)
	s.call(t, http.MethodGet, "/healthz", "", nil, header{"Host", "api.localhost"}).want(t, http.StatusNotFound)
	if _, err := os.Stat(filepath.Join(dir, "ingot.db")); err == nil {
		t.Error("a database is in the data directory, although another was named")
	}
	s.Stderr.await(t, `"level":"DEBUG"`)
	s.Stop(t)
}

func TestUpLog(t *testing.T) {
	t.Parallel()
	// whose request ids count
	s := start(t, options{Args: []string{"--log-level", "debug", "--trusted-proxies", "127.0.0.0/8"}})
	const id = "my-request.1_a:b"
	password, secret := s.secret(t, "admin-password"), s.secret(t, "admin-client-secret")
	if got := s.call(t, http.MethodGet, "/v3/info?secret=in-the-query", "", nil, header{"X-Vcap-Request-Id", id}).
		want(t, http.StatusOK).
		Header.Get("X-Vcap-Request-Id"); got != id {
		t.Errorf("the request id comes back as %q, want %q", got, id)
	}
	// One that could forge a log line is replaced.
	if got := s.call(t, http.MethodGet, "/v3/info", "", nil, header{"X-Vcap-Request-Id", `x"} {"forged`}).
		Header.Get("X-Vcap-Request-Id"); got == "" || strings.Contains(got, "forged") {
		t.Errorf("a forged request id comes back as %q", got)
	}
	if got := s.call(t, http.MethodGet, "/no/such/route", "", nil).Header.Get("X-Vcap-Request-Id"); got == "" {
		t.Error("no request id in the answer for an unknown route")
	}
	user := s.userTokens(t, "admin", password)
	client := s.clientToken(t, "admin", secret)
	s.login(t, "admin", "a wrong password")
	s.Stop(t)

	var found bool
	for lines := bufio.NewScanner(strings.NewReader(s.Stderr.String())); lines.Scan(); {
		var line map[string]any
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatalf("not JSON: %q", lines.Text())
		}
		for _, name := range []string{"time", "level", "msg"} {
			if text, _ := line[name].(string); text == "" {
				t.Errorf("a line without %s: %s", name, lines.Text())
			}
		}
		if line["msg"] != "request" {
			continue
		}
		for _, name := range []string{"request_id", "method", "path", "status"} {
			if line[name] == nil {
				t.Errorf("a request without %s: %s", name, lines.Text())
			}
		}
		if line["request_id"] == id {
			found = true
			if line["path"] != "/v3/info" || line["status"] != 200.0 || line["method"] != http.MethodGet {
				t.Errorf("our request: %s", lines.Text())
			}
		}
	}
	if !found {
		t.Error("our request is not in the log")
	}
	for _, secret := range []string{password, secret, user.Access, user.Refresh, client, "a wrong password",
		"in-the-query"} {
		if strings.Contains(s.Stderr.String(), secret) {
			t.Errorf("%q is in the log", secret)
		}
	}
}

func TestUpDoors(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	get := func(base, path string, h ...header) *reply {
		t.Helper()
		return s.call(t, http.MethodGet, base+path, "", nil, h...)
	}
	for _, base := range []string{s.API, s.Notifications, s.Admin} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if got := get(base, path).want(t, http.StatusOK).object(t); got["status"] != "ok" {
				t.Errorf("%s%s says %v, want status ok", base, path, got)
			}
		}
	}
	// Metrics and profiles are only for the operator.
	if text := string(get(s.Admin, "/metrics").want(t, http.StatusOK).Body); !strings.Contains(text,
		"ingot_http_request_duration_seconds") || !strings.Contains(text, "go_goroutines") {
		t.Errorf("metrics:\n%s", text)
	}
	get(s.Admin, "/debug/pprof/").want(t, http.StatusOK)
	for _, base := range []string{s.API, s.Notifications} {
		get(base, "/metrics").want(t, http.StatusNotFound)
		get(base, "/debug/pprof/").want(t, http.StatusNotFound)
	}
	for _, path := range []string{"/v3/info", "/token_keys"} {
		get(s.Admin, path).want(t, http.StatusNotFound)
	}

	// Host names.
	for host, path := range map[string]string{
		"localhost": "/v3/info", "api.localhost": "/v3/info", "API.LocalHost:80": "/v3/info",
		"uaa.localhost": "/token_keys", "login.localhost": "/login", "notifications.localhost": "/healthz",
	} {
		if r := get(s.API, path, header{"Host", host}); r.Status != http.StatusOK || r.Header.Get("X-Cf-Routererror") != "" {
			t.Errorf("%s%s answers %s, want 200", host, path, r)
		}
	}
	for _, host := range []string{"nothing.apps.localhost", "example.org", "api.localhost.example.org",
		"127.0.0.1.example.org"} {
		r := get(s.API, "/", header{"Host", host})
		if r.Status != http.StatusNotFound || r.Header.Get("X-Cf-Routererror") != "unknown_route" ||
			!strings.Contains(string(r.Body), host) {
			t.Errorf("the unknown host %s: %s %v", host, r, r.Header)
		}
	}
	// The client can follow the links.
	root := get(s.API, "/", header{"Host", "api.localhost:4711"}).object(t)["links"].(map[string]any)
	if self := root["self"].(map[string]any)["href"]; self != "http://api.localhost:4711" {
		t.Errorf("the link to itself is %v", self)
	}
	if r := get(s.API, "/v3/nothing"); r.Status != http.StatusNotFound || r.Header.Get("X-Cf-Routererror") != "" ||
		!strings.Contains(string(r.Body), `"code":10000`) {
		t.Errorf("an unknown path of the API: %s", r)
	}
}
