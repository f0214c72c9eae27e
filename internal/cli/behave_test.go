package cli_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"ingot/internal/base/testkit"
	"ingot/internal/cli"
	"ingot/internal/cli/config"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term/termtest"
)

// A push on a narrow terminal leaves the same lines as one without a terminal:
// the progress line disappears and never mixes with other output.
func TestPushOnANarrowTerminal(t *testing.T) {
	t.Parallel()
	const width = 34
	prepare := func() *world {
		w := loggedIn(t)
		w.file(t, "app/shop", strings.Repeat("x", 1<<20))
		return w
	}
	args := []string{"push", "shop", "-p", "app"}
	plain, _, _ := prepare().run(args...)
	w := prepare()
	control, tty, err := pty.Open()
	if err != nil {
		t.Skipf("there are no terminals here: %v", err)
	}
	defer control.Close()
	if err := pty.Setsize(tty, &pty.Winsize{Rows: 24, Cols: width}); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, _ := io.ReadAll(control)
		read <- string(text)
	}()
	code := cli.Run(t.Context(), &core.Env{
		Program: "ingot", Args: args, Getenv: func(name string) string { return w.env[name] }, Dir: w.dir, In: tty,
		Out: tty, Err: tty,
		InTerminal: true, OutTerminal: true, ErrTerminal: true, Width: func() int { return width },
		Now: func() time.Time { return time.Date(2026, 1, 2, 3, 5, 5, 0, time.UTC) },
	})
	tty.Close()
	text := <-read
	screen := termtest.NewScreen(width)
	screen.Feed(text)
	port := w.api.URL[strings.LastIndex(w.api.URL, ":"):] // each world has its own
	if got, want := screen.Lines(), strings.Split(strings.TrimRight(strings.ReplaceAll(plain, ":PORT", port), "\n"),
		"\n"); code != 0 || !slices.Equal(got, want) {
		t.Errorf("code %d, the screen shows\n%s\nwant\n%s", code, strings.Join(got, "\n"), plain)
	}
	if !strings.Contains(text, "\x1b[2K") {
		t.Error("no progress was shown")
	}
}

// The manifest that a push sends combines the file and the flags.
func TestPushManifest(t *testing.T) {
	t.Parallel()
	manifest := "applications:\n- name: shop\n  path: app\n  memory: ((mem))\n  processes:\n  - type: web\n    " +
		"disk_quota: 1G\n- name: other\n"
	for name, tc := range map[string]struct {
		args []string
		want string
		code int
	}{
		"named, flags to the web process": {[]string{"push", "shop", "--var", "mem=32M", "-m", "64M", "-i", "2", "-k", "2G",
			"-u", "http", "--endpoint", "/ok", "-b", "binary_buildpack"},
			"applications:\n- name: shop\n  memory: 32M\n  processes:\n  - type: web\n    instances: 2\n    disk_quota: 2G\n  " +
				"  memory: 64M\n    health-check-type: http\n    health-check-http-endpoint: /ok\n  buildpacks:\n  - " +
				"binary_buildpack\n  default-route: true\n", 0},
		"without manifest": {[]string{"push", "shop", "--no-manifest", "-p", "app", "-c", "null", "--no-route", "-t", "5",
			"-k", "1G"},
			"applications:\n- name: shop\n  no-route: true\n  timeout: 5\n  command: null\n  disk-quota: 1G\n", 0},
		"variable missing":   {[]string{"push", "shop"}, "", 1},
		"flags for several":  {[]string{"push", "--var", "mem=1G", "-m", "1G"}, "", 2},
		"no such app":        {[]string{"push", "nobody", "--var", "mem=1G"}, "", 1},
		"nothing to push":    {[]string{"push", "shop", "--no-manifest", "-p", "nowhere"}, "", 1},
		"not an archive":     {[]string{"push", "shop", "--no-manifest", "-p", "manifest.yml"}, "", 1},
		"wrong strategy":     {[]string{"push", "shop", "--strategy", "slow"}, "", 2},
		"strategy, no start": {[]string{"push", "shop", "--strategy", "rolling", "--no-start"}, "", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := loggedIn(t)
			w.file(t, "manifest.yml", manifest)
			w.file(t, "app/shop", "x")
			out, errs, code := w.run(tc.args...)
			const call = "POST /v3/spaces/space-guid/actions/apply_manifest"
			w.api.mu.Lock()
			defer w.api.mu.Unlock()
			if got := w.api.bodies[call]; code != tc.code || got != tc.want {
				t.Errorf("code %d, sent\n%s\nwant\n%s\n%s%s", code, got, tc.want, out, errs)
			}
			if tc.code != 0 && len(w.api.calls) > 0 {
				t.Errorf("something was changed before it failed: %v", w.api.calls)
			}
		})
	}
}

// A logout revokes the login, and the user is logged out also if that fails.
func TestLogoutRevokes(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 404, 503} {
		w := loggedIn(t)
		w.change(t, func(c *config.Config) { c.RefreshToken = token(object{"jti": "login-r"}) })
		presented := ""
		w.api.instead["DELETE /oauth/token/revoke/login-r"] = func(r *http.Request) (int, any) {
			presented = r.Header.Get("Authorization")
			return status, object{}
		}
		out, errs, code := w.run("logout")
		if code != 0 || !strings.Contains(presented, token(object{"jti": "login-r"})) {
			t.Errorf("%d: exit code %d, want 0; presented %q, want the refresh token\n%s%s", status, code, presented, out, errs)
		}
		if _, errs, code := w.run("apps"); code != 1 || !strings.Contains(errs, "Not logged in") {
			t.Errorf("%d: after the logout: exit code %d, want 1: %s", status, code, errs)
		}
	}
}

// An expiring token is renewed and saved in a file that only the owner can read.
func TestTokensAreRenewed(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.change(t, func(c *config.Config) { c.AccessToken = userToken(time.Second) })
	if out, errs, code := w.run("apps"); code != 0 {
		t.Fatalf("exit code %d, want 0\n%s%s", code, out, errs)
	}
	if !w.api.body("POST /oauth/token", url.Values{"grant_type": {"refresh_token"},
		"refresh_token": {"refresh"}}.Encode()) {
		t.Error("the token was not renewed")
	}
	path := filepath.Join(w.home, "config.json")
	testkit.CheckMode(t, path, 0o600)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	w.api.calls = nil
	if _, _, code := w.run("apps"); code != 0 || slices.Contains(w.api.calls, "POST /oauth/token") {
		t.Errorf("it is renewed again: %d %v", code, w.api.calls)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the configuration changed without a reason")
	}
}

// A server on this machine is found, also after it moved to another port.
func TestLocalServer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data := t.TempDir()
	w.env["INGOT_DATA_DIR"] = data
	if _, errs, code := w.run("apps"); code != 1 || !strings.Contains(errs, "ingot up --demo") {
		t.Errorf("without a server: %d %s", code, errs)
	}
	if err := os.Mkdir(filepath.Join(data, "secrets"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "secrets", "admin-password"), []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	runs := func(api *fake, pid int) {
		t.Helper()
		content, _ := json.Marshal(map[string]any{"api": api.URL, "notifications": api.URL + "/notify", "pid": pid})
		if err := os.WriteFile(filepath.Join(data, "endpoints.json"), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	runs(w.api, 1)
	out, errs, code := w.run("apps")
	if code != 0 || !strings.Contains(errs,
		"Using the server on this machine: http://api.test as admin, org acme, space dev") || !strings.Contains(out, "shop") {
		t.Fatalf("exit code %d, want 0, the server on this machine and shop\n%s%s", code, out, errs)
	}
	if _, errs, code := w.run("apps"); code != 0 || errs != "" {
		t.Errorf("the second time: %d %s", code, errs)
	}
	other := newFake(t)
	runs(other, 2)
	if _, errs, code := w.run("target"); code != 0 || errs != "" || len(other.calls) == 0 {
		t.Errorf("after it moved: %d %s %v", code, errs, other.calls)
	}
	// A user who logs out stays logged out.
	if _, _, code := w.run("logout"); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if _, errs, code := w.run("apps"); code != 1 || !strings.Contains(errs, "Not logged in") {
		t.Errorf("after the logout: %d %s", code, errs)
	}
}

// live is a running client that follows the log of the app shop.
type live struct {
	t      *testing.T
	out    *io.PipeReader
	text   strings.Builder
	code   chan int
	cancel context.CancelFunc
}

func (w *world) follow(t *testing.T, args ...string) *live {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, pipe := io.Pipe()
	l := &live{t: t, out: out, code: make(chan int, 1), cancel: cancel}
	go func() {
		l.code <- cli.Run(ctx, &core.Env{
			Program: "ingot", Args: append([]string{"logs", "shop"}, args...),
			Getenv: func(name string) string { return w.env[name] },
			Out:    pipe, Err: io.Discard, Now: time.Now,
		})
		pipe.Close()
	}()
	t.Cleanup(cancel)
	return l
}

// await reads the output until it contains a text.
func (l *live) await(text string) {
	l.t.Helper()
	buffer := make([]byte, 4096)
	for !strings.Contains(l.text.String(), text) {
		n, err := l.out.Read(buffer)
		if err != nil {
			l.t.Fatalf("waiting for %q: %v\n%s", text, err, &l.text)
		}
		l.text.Write(buffer[:n])
	}
}

// end interrupts the client and returns the exit code.
func (l *live) end() int {
	l.cancel()
	go func() { _, _ = io.Copy(io.Discard, l.out) }()
	return <-l.code
}

// Live logs continue until interrupted; an interrupt is not a failure.
func TestLiveLogs(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	l := w.follow(t, "--process", "web")
	l.await("no config")
	if c := l.end(); c != 0 || strings.Contains(l.text.String(), "RTR") ||
		strings.Count(l.text.String(), "listening") != 1 {
		t.Errorf("exit code %d, want 0, one listening and no RTR\n%s", c, &l.text)
	}
}

func logEvent(id int, source, text string) string {
	at, _ := time.Parse(time.RFC3339, stamp)
	return fmt.Sprintf(
		"id: %d\ndata: "+
			"{\"timestamp\":\"%d\",\"instance_id\":\"0\",\"tags\":{\"source_type\":%q},\"log\":{\"payload\":%q,\"type\":\"OUT\"}}\n\n",
		id, at.Add(time.Duration(id)*time.Millisecond).UnixNano(), source, base64.StdEncoding.EncodeToString([]byte(text)))
}

// A server that streams its log is not polled: each line is shown at once, before
// the next is written.
func TestLiveLogsAsTheyCome(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	lines := make(chan string)
	w.api.tail = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(rw).Flush()
		for {
			select {
			case text := <-lines:
				_, _ = io.WriteString(rw, text)
				_ = http.NewResponseController(rw).Flush()
				if text == "" {
					return // cut off
				}
			case <-r.Context().Done():
				return
			}
		}
	}
	l := w.follow(t, "--process", "web")
	l.await("Retrieving logs")
	for id := range 5 {
		lines <- logEvent(id, "APP/PROC/WEB", fmt.Sprintf("<line %d>", id))
		l.await(fmt.Sprintf("<line %d>", id))
	}
	lines <- ""
	lines <- logEvent(5, "RTR", "<access>") + logEvent(6, "LGR", "<10 lines were lost>")
	l.await("<10 lines were lost>")
	if c := l.end(); c != 0 || strings.Contains(l.text.String(), "<access>") {
		t.Errorf("exit code %d, want 0 and no <access>\n%s", c, &l.text)
	}
	reads := 0
	for _, call := range w.api.calls {
		if strings.HasPrefix(call, "GET /api/v1/read/") {
			reads++
		}
	}
	if reads != 1 {
		t.Errorf("%d reads: %v", reads, w.api.calls)
	}
}

// A restage shows the lines of its build as they arrive, each once.
func TestStagingLogAsItComes(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.api.tail = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(rw, logEvent(0, "STG", "-----> Binary Buildpack")+"event: end\ndata: {}\n\n")
	}
	out, errs, code := w.run("restage", "shop")
	if code != 0 || strings.Count(out, "-----> Binary Buildpack") != 1 {
		t.Errorf("exit code %d, want 0 and the buildpack once\n%s%s", code, out, errs)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	for line, want := range map[string]string{
		"pus": "push\n", "app ": "shop\n", "push sh": "shop\n", "logs shop --s": "--sidecar\n--since\n",
		"notifications pre": "preferences\n",
		"completion ":       "bash\nfish\nzsh\n", "bind-service shop ": "db\n",
		"help create-se": "create-security-group\ncreate-service\ncreate-service-broker\ncreate-service-key\n",
		"nonsense ":      "",
		"context use ":   "prod\n", "context rename pr": "prod\n", "apps --context ": "prod\n",
		"--context pr": "prod\n", "--context prod contex": "context\ncontexts\n", "app --context prod ": "shop\n",
		"app --context=nowhere ": "", "contex": "context\ncontexts\n",
	} {
		if out, _, code := w.run(append([]string{"__complete"}, strings.Split(line, " ")...)...); out != want || code != 0 {
			t.Errorf("%q: %d %q, want %q", line, code, out, want)
		}
	}
}

func TestQuiet(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	if out, errs, code := w.run("stop", "shop", "-q"); out != "" || errs != "" || code != 0 {
		t.Errorf("exit code %d, stdout %q, stderr %q, want 0 and no output", code, out, errs)
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.api.Close()
	out, errs, code := w.run("apps")
	if code != 1 || !strings.Contains(errs, "cannot be reached") ||
		!strings.Contains(errs, "nothing is listening on that port") {
		t.Errorf("exit code %d, want 1 and a server that cannot be reached: %s%s", code, out, errs)
	}
}

// A raw request is sent unchanged, and --fail turns an error status into a
// failure.
func TestCurl(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.file(t, "body.json", `{"a":1}`)
	out, _, code := w.run("curl", "-X", "PATCH", "-i", "-H", "X-A: b", "/v3/nothing", "-d", "@body.json")
	if code != 0 || !strings.HasPrefix(out, "HTTP/1.1 404 Not Found\n") || !strings.Contains(out, "CF-NotFound") ||
		!w.api.body("PATCH /v3/nothing", `{"a":1}`) {
		t.Errorf("exit code %d, want 0, the 404 and the body sent: %s", code, out)
	}
	if _, _, code := w.run("curl", "--fail", "/v3/nothing"); code != 22 {
		t.Errorf("code %d, want 22", code)
	}
	if w.api.calls[len(w.api.calls)-1] != http.MethodGet+" /v3/nothing" {
		t.Errorf("calls are %q, want GET /v3/nothing as the last", w.api.calls)
	}
}

// With a strategy, size flags apply to the new version only.
func TestPushRolling(t *testing.T) {
	t.Parallel()
	w := loggedIn(t)
	w.file(t, "app/shop", "x")
	_, errs, code := w.run("push", "shop", "--no-manifest", "-p", "app", "--strategy", "canary",
		"--instance-steps", "20, 60",
		"--max-in-flight", "2", "-i", "3", "-m", "1G", "-k", "2G", "-l", "-1", "--no-wait")
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	w.api.mu.Lock()
	defer w.api.mu.Unlock()
	var got map[string]any
	if err := json.Unmarshal([]byte(w.api.bodies["POST /v3/deployments"]), &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"strategy": "canary", "droplet": object{"guid": "droplet-guid"}, "relationships": object{"app": to("app-guid")},
		"options": object{
			"max_in_flight": 2.0, "web_instances": 3.0, "memory_in_mb": 1024.0, "disk_in_mb": 2048.0,
			"log_rate_limit_in_bytes_per_second": -1.0,
			"canary": object{"steps": []any{object{"instance_weight": 20.0},
				object{"instance_weight": 60.0}}},
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the deployment is\n%v, want\n%v", got, want)
	}
	if m := w.api.bodies["POST /v3/spaces/space-guid/actions/apply_manifest"]; strings.Contains(m, "1G") ||
		strings.Contains(m, "instances") {
		t.Errorf("the manifest changes what runs:\n%s", m)
	}
}

// Ingot passes credentials on at each start; for another platform the advice is that of the
// cf CLI.
func TestCredentialsTip(t *testing.T) {
	t.Parallel()
	for platform, want := range map[string]string{"ingot": "restart", "another": "restage"} {
		w := loggedIn(t)
		w.change(t, func(c *config.Config) {
			if platform != "ingot" {
				c.Links.Notifications = ""
			}
		})
		w.api.instead["GET /v3/service_instances"] = func(*http.Request) (int, any) {
			return 200, list(object{"guid": "si-guid", "name": "db", "type": "user-provided", "created_at": stamp})
		}
		for _, c := range []struct {
			args []string
			app  string
		}{{[]string{"bind-service", "shop", "db"}, "shop"},
			{[]string{"update-user-provided-service", "db", "-t", "x"}, "APP"}} {
			out, errs, code := w.run(c.args...)
			if tip := "TIP: Use 'ingot " + want + " " + c.app + "'"; code != 0 || !strings.Contains(out, tip) {
				t.Errorf("%v on %s: exit code %d, %s%s, want %q", c.args, platform, code, out, errs, tip)
			}
		}
	}
}
