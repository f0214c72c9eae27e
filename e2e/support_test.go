package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// secretsOfServer are secrets that a server gets when it starts, as variables and flags.
var secretsOfServer = map[string]string{
	"admin's password":        "INGOT_ADMIN_PASSWORD=plant-admin-password",
	"admin client's secret":   "INGOT_ADMIN_CLIENT_SECRET=plant-client-secret",
	"token of the admin port": "INGOT_ADMIN_TOKEN=plant-admin-token-0123456789",
	"encryption key":          "INGOT_ENCRYPTION_KEY=" + plantedKey,
	"mail server":             "INGOT_SMTP_URL=smtp://mailer:plant-smtp@127.0.0.1:9",
	"collector of traces":     "INGOT_OTLP_HEADERS=x-api=plant-otlp",
	"bucket's key":            "AWS_ACCESS_KEY_ID=AKIAPLANTPLANTPLANT1",
	"bucket's secret":         "AWS_SECRET_ACCESS_KEY=plant-s3",
	"signing key of backups":  "INGOT_BACKUP_SIGNING_KEY=INGOT-SIGNING-KEY-PLANTED",
	"passphrase of backups":   "INGOT_BACKUP_PASSPHRASE=plant-passphrase",
	"variable of others":      "SOMETHING_ELSE=plant-unknown",
}

var plantedKey = base64.StdEncoding.EncodeToString([]byte("plant-key-plant-key-plant-key-01"))

// plantedLines are log lines with secrets that a server should never write.
const plantedLines = `{"time":"2999-01-01T00:00:00Z","msg":"GET /x?access_token=plant-query","header":"Bearer plant-bearer"}
{"time":"2999-01-01T00:00:00Z","msg":"connect postgres://ingot:plant-database@db.example.com/ingot and redis://:plant-redis@10.0.0.1"}
{"time":"2999-01-01T00:00:00Z","msg":"VCAP_SERVICES={\"postgres\":[{\"credentials\":{\"uri\":\"plant-vcap\"}}]}"}
{"time":"2999-01-01T00:00:00Z","msg":"key -----BEGIN PRIVATE KEY-----\nplantPEM\n-----END PRIVATE KEY-----"}
{"time":"2999-01-01T00:00:00Z","msg":"mail to plant.reader@example.com, restore with AGE-SECRET-KEY-1PLANT"}
{"time":"2999-01-01T00:00:00Z","msg":"token eyJhbGciOiJIUzI1NiJ9.plantJWTplantJWT.c2lnbmF0dXJl, hash $2a$10$plantplantplantplantplantplantplant"}
`

// plantSecrets puts secrets of users into a server, and returns those that it creates itself.
func plantSecrets(t *testing.T, s *Server) (more []string) {
	t.Helper()
	tokens := s.userTokens(t, "admin", "plant-admin-password")
	admin := s.clientToken(t, "admin", "plant-client-secret")
	s.createUser(t, admin, "plant.user", "plant-user-password")
	s.call(t, http.MethodPost, s.Auth+"/oauth/clients", admin, map[string]any{
		"client_id": "planted", "client_secret": "plant-oauth-secret",
		"authorized_grant_types": []string{"client_credentials"},
	}).want(t, http.StatusCreated)
	var spaces struct{ Resources []struct{ GUID string } }
	s.call(t, http.MethodGet, "/v3/spaces", tokens.Access, nil).want(t, http.StatusOK).into(t, &spaces)
	if len(spaces.Resources) != 1 {
		t.Fatalf("%+v, want the space of --demo", spaces)
	}
	in := func(more map[string]any) map[string]any {
		space := map[string]any{"guid": spaces.Resources[0].GUID}
		more["relationships"] = map[string]any{"space": map[string]any{"data": space}}
		return more
	}
	s.call(t, http.MethodPatch, "/v3/feature_flags/diego_docker", tokens.Access, map[string]any{"enabled": true}).
		want(t, http.StatusOK)
	app := s.call(t, http.MethodPost, s.API+"/v3/apps", tokens.Access, in(map[string]any{
		"name": "planted", "environment_variables": map[string]string{"API_KEY": "plant-env"},
		"lifecycle": map[string]any{"type": "docker", "data": map[string]any{}},
	})).want(t, http.StatusCreated).object(t)["guid"]
	s.call(t, http.MethodPost, "/v3/packages", tokens.Access, map[string]any{"type": "docker", "data": map[string]any{
		"image": "registry.example.com/x", "username": "bot", "password": "plant-registry"}, "relationships": map[string]any{
		"app": map[string]any{"data": map[string]any{"guid": app}}}}).want(t, http.StatusCreated)
	s.call(t, http.MethodPost, s.API+"/v3/service_instances", tokens.Access, in(map[string]any{"type": "user-provided",
		"name": "planted", "credentials": map[string]string{"uri": "plant-credentials"},
		"syslog_drain_url": "syslog-tls://x:plant-drain@logs.example.com:6514"})).want(t, http.StatusCreated)
	s.call(t, http.MethodPatch, s.API+"/v3/environment_variable_groups/running", tokens.Access,
		map[string]any{"var": map[string]string{"SHARED": "plant-group"}}).want(t, http.StatusOK)
	files, err := filepath.Glob(filepath.Join(s.Dir, "secrets", "*"))
	if err != nil || len(files) < 5 {
		t.Fatalf("%v, %v, want the server's secrets", files, err)
	}
	for _, file := range files {
		more = append(more, strings.Split(strings.TrimSpace(s.secret(t, filepath.Base(file))), "\n")...)
	}
	return append(more, tokens.Access, tokens.Refresh, admin)
}

// bundle runs the command and returns the files in what it writes.
func bundle(t *testing.T, s *Server, env []string) map[string]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "bundle.tar.gz")
	p := run(t, env, "support-bundle", "--data-dir", s.Dir, "--output", file)
	if code := p.wait(t); code != 0 {
		t.Fatalf("exit code %d\n%s%s", code, p.Stdout, p.Stderr)
	}
	contains(t, p.Stdout.String(), "Wrote "+file)
	packed, err := os.ReadFile(file)
	info, statErr := os.Stat(file)
	if err := errors.Join(err, statErr); err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		all[name] = string(text)
	}
}

// TestSupportBundle plants secrets of every kind in a server and looks for them in its support
// bundle: while it runs, while it hangs, when it is down and when its database is broken.
func TestSupportBundle(t *testing.T) {
	t.Parallel()
	var env []string
	for _, variable := range secretsOfServer {
		env = append(env, variable)
	}
	s := start(t, options{Env: env, Args: []string{"--demo",
		"--postgres-url", "postgres://root:plant-postgres@127.0.0.1:1", "--mysql-url=mysql://root:plant-mysql@127.0.0.1:1"}})
	made := plantSecrets(t, s)
	log, err := os.OpenFile(filepath.Join(s.Dir, "server.log"), os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = log.WriteString(plantedLines)
		err = errors.Join(err, log.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	clean := func(when string, got map[string]string) {
		t.Helper()
		for name, text := range got {
			for _, secret := range append(made, "plant-", "plantPEM", "plantJWT", "PLANT", "plant.", plantedKey, "$plant") {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s contains %q", when, name, secret)
				}
			}
		}
		contains(t, got["index.txt"], "Support bundle of ingot", s.Dir)
		contains(t, got["version.txt"], "ingot ")
		contains(t, got["doctor.txt"], "ingot-init", "network")
		contains(t, got["system/memory.txt"], "MemTotal")
		contains(t, got["logs/server.log"], `"msg":"ready"`, "connect postgres://[redacted]@db.example.com/ingot")
		contains(t, got["engine.json"], "--engine process")
	}

	got := bundle(t, s, nil)
	clean("running", got)
	contains(t, got["configuration.txt"], "--smtp-url", "smtp://127.0.0.1:9 (variable of the server)",
		"INGOT_ADMIN_PASSWORD             set", "postgres://127.0.0.1:1 (flag)", "mysql://127.0.0.1:1 (flag)")
	contains(t, got["database.txt"], "SQLite", "platform_apps", "1 state STOPPED", "platform_service_instances")
	contains(t, got["server/metrics.txt"], "ingot_part_ready")
	contains(t, got["server/readyz.json"], `"status"`)
	contains(t, got["server/goroutines.txt"], "goroutine ")
	if !strings.HasPrefix(got["server/heap.pprof"], "\x1f\x8b") {
		t.Errorf("the heap profile has %d bytes", len(got["server/heap.pprof"]))
	}

	if err := s.Cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	got = bundle(t, s, nil)
	if err := s.Cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	clean("hanging", got)
	contains(t, got["index.txt"], path.Join("server", "metrics.txt")+"         MISSING", "not finished after 10s")
	contains(t, got["database.txt"], "platform_apps")

	s.Stop(t)
	broken := []byte("this is not a database, plant-file")
	if err := os.WriteFile(filepath.Join(s.Dir, "ingot.db"), broken, 0o600); err != nil {
		t.Fatal(err)
	}
	got = bundle(t, s, env)
	clean("down", got)
	contains(t, got["index.txt"], "no server uses "+s.Dir, "file is not a database")
	contains(t, got["configuration.txt"], "(variable of this command)")
}

// TestSupportBundleRefused: what cannot work is refused with words, and no file is written.
func TestSupportBundleRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "exists.tar.gz")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no directory": {[]string{"--data-dir", filepath.Join(dir, "none"), "--output", filepath.Join(dir, "x")},
			"does not exist"},
		"file": {[]string{"--data-dir", dir, "--output", file}, "exists: remove it"},
		"time": {[]string{"--data-dir", dir, "--since", "-1h"}, "--since"},
	} {
		p := run(t, nil, append([]string{"support-bundle"}, tc.args...)...)
		if code := p.wait(t); code == 0 {
			t.Errorf("%s: exit code 0, want a failure", name)
		}
		contains(t, p.Stderr.String(), tc.want)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "mine" {
		t.Errorf("the file has %q, %v, want it unchanged", text, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "x")); err == nil {
		t.Error("a file was written")
	}
}
