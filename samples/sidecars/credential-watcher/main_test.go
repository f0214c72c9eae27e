package main

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestMain is also the process that a test signals: it reports each SIGHUP on a line.
func TestMain(m *testing.M) {
	if os.Getenv("BE_SIGNALLED") == "" {
		os.Exit(m.Run())
	}
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGHUP)
	fmt.Fprintln(os.Stdout, "ready")
	for range c {
		fmt.Fprintln(os.Stdout, "hangup")
	}
}

const text = `user={{ (service "db").Credentials.username }}
password={{ (label "postgres").Credential "password" }}
tagged={{ (tag "sql").Name }} {{ json (tag "sql").Tags }} {{ urlquery "a b" }} {{ len .Services }} {{ len services }} {{ env "PLACE" }}
`

func vcap(password string) string {
	return fmt.Sprintf(`{"postgres": [{"name": "db", "tags": ["sql"], "credentials": {"username": "ann", "password": %q, "port": 5432}}]}`, password)
}

// put replaces a file atomically, as the platform does.
func put(t *testing.T, name, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name+".new", []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// world is a folder with a file of services, a template, and an environment.
type world struct {
	dir string
	env map[string]string
}

func newWorld(t *testing.T, pairs ...string) *world {
	t.Helper()
	dir := t.TempDir()
	w := &world{dir, map[string]string{
		"VCAP_SERVICES_FILE_PATH": filepath.Join(dir, "bindings", "vcap_services"),
		"WATCH_TEMPLATE":          filepath.Join(dir, "template"),
		"WATCH_OUTPUT":            filepath.Join(dir, "output"), "WATCH_INTERVAL": "10ms", "WATCH_SETTLE": "0s",
		"PLACE": "here",
	}}
	put(t, w.env["VCAP_SERVICES_FILE_PATH"], vcap("first"))
	put(t, w.env["WATCH_TEMPLATE"], text)
	for i := 0; i+1 < len(pairs); i += 2 {
		w.env[pairs[i]] = pairs[i+1]
	}
	return w
}

func (w *world) get(name string) string { return w.env[name] }

// start watches until the end of the test, and returns a function that waits for two
// more looks at the files.
func (w *world) start(t *testing.T) func() {
	t.Helper()
	watcher, err := configure(w.get)
	if err != nil {
		t.Fatal(err)
	}
	looks := make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	watcher.seen = func() {
		select {
		case looks <- struct{}{}:
		case <-ctx.Done():
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- watcher.watch(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return func() { <-looks; <-looks }
}

// TestRotation rotates credentials: the file is replaced and the app is told, once. What
// cannot be used leaves the old file in place.
func TestRotation(t *testing.T) {
	t.Parallel()
	var posts atomic.Int32
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			posts.Add(1)
		}
	}))
	t.Cleanup(hook.Close)
	w := newWorld(t, "WATCH_POST", hook.URL)
	services, output := w.env["VCAP_SERVICES_FILE_PATH"], w.env["WATCH_OUTPUT"]
	looked := w.start(t)
	looked()
	want := "user=ann\npassword=first\ntagged=db [\"sql\"] a+b 1 1 here\n"
	if got := read(t, output); got != want || posts.Load() != 0 {
		t.Fatalf("at the start: %q, want %q; told %d times", got, want, posts.Load())
	}
	if info, err := os.Stat(output); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	expect := func(what, password string, told int32) {
		t.Helper()
		looked()
		looked()
		if got := read(t, output); !strings.Contains(got, "password="+password+"\n") || posts.Load() != told {
			t.Errorf("%s: %q, want the password %s; told %d times, want %d", what, got, password, posts.Load(), told)
		}
	}
	put(t, services, vcap("second"))
	expect("after a rotation", "second", 1)
	put(t, services, vcap("second"))
	expect("without a change", "second", 1)
	put(t, services, `{"postgres": [`)
	expect("with half a file", "second", 1)
	os.Remove(services)
	expect("without the file", "second", 1)
	put(t, services, `{"postgres": [{"name": "db", "tags": ["sql"], "credentials": {"username": "ann"}}]}`)
	expect("without a credential", "second", 1)
	put(t, w.env["WATCH_TEMPLATE"], "{{ broken")
	put(t, services, vcap("third"))
	expect("with a bad template", "second", 1)
	put(t, w.env["WATCH_TEMPLATE"], text)
	expect("with a good template", "third", 2)
}

// TestSettle does not act while files keep changing.
func TestSettle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "WATCH_SETTLE", "1m")
	watcher, err := configure(w.get)
	if err != nil {
		t.Fatal(err)
	}
	var s state
	now := time.Now()
	at := func(d time.Duration) string {
		watcher.look(t.Context(), &s, now.Add(d))
		text, _ := os.ReadFile(w.env["WATCH_OUTPUT"])
		return string(text)
	}
	if got := at(0); got != "" {
		t.Errorf("at once: %q", got)
	}
	put(t, w.env["VCAP_SERVICES_FILE_PATH"], vcap("second"))
	if got := at(50*time.Second) + at(100*time.Second); got != "" {
		t.Errorf("50 seconds after a change: %q", got)
	}
	if got := at(110 * time.Second); !strings.Contains(got, "password=second") {
		t.Errorf("a minute after the last change: %q", got)
	}
}

// TestBindings reads the folders of servicebinding.io, with the links of Kubernetes.
func TestBindings(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, content := range map[string]string{
		"db/type": "postgres", "db/tags": `["sql"]`, "db/username": "ann", "db/..data/password": "linked", "db/plan": "small",
		"..other/type": "x", "file": "x",
	} {
		put(t, filepath.Join(root, name), content)
	}
	if err := os.Symlink("..data/password", filepath.Join(root, "db", "password")); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, "VCAP_SERVICES_FILE_PATH", "", "SERVICE_BINDING_ROOT", root)
	looked := w.start(t)
	looked()
	if got := read(t, w.env["WATCH_OUTPUT"]); !strings.Contains(got, "user=ann\npassword=linked\ntagged=db") {
		t.Errorf("%q", got)
	}
	put(t, filepath.Join(root, "db", "..data", "password"), "rotated")
	looked()
	looked()
	if got := read(t, w.env["WATCH_OUTPUT"]); !strings.Contains(got, "password=rotated\n") {
		t.Errorf("%q", got)
	}
}

// process starts a process of an instance and returns its output, after its first line.
func process(t *testing.T, program, instance string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = []string{"BE_SIGNALLED=1", "CF_INSTANCE_GUID=" + instance}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "ready" {
		t.Fatalf("the process says %q, %v", lines.Text(), lines.Err())
	}
	return cmd, lines
}

// TestSignal signals a process by its name and by a file with its id, and not the
// process of another instance.
func TestSignal(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "watched-app")
	if err := os.Symlink(os.Args[0], program); err != nil {
		t.Fatal(err)
	}
	mine, lines := process(t, program, "mine")
	other, _ := process(t, program, "other")
	pid := filepath.Join(t.TempDir(), "pid")
	n := &notifier{signal: syscall.SIGHUP, process: "watched-app", timeout: time.Minute, proc: "/proc", instance: "mine"}
	for range 2 {
		did, err := n.notify(t.Context())
		if want := fmt.Sprintf("sent HANGUP to [%d]", mine.Process.Pid); err != nil || did != want {
			t.Errorf("%q, %v, want %q", did, err, want)
		}
		if !lines.Scan() || lines.Text() != "hangup" {
			t.Errorf("the process says %q", lines.Text())
		}
		put(t, pid, fmt.Sprintln(mine.Process.Pid))
		n.process, n.pidFile = "", pid
	}
	for content, want := range map[string]string{
		fmt.Sprint(other.Process.Pid): "belongs to another instance", "1": "is no process id", "-1": "is no process id",
		"x":        "is no process id",
		"99999999": "does not run",
	} {
		put(t, pid, content)
		if did, err := n.notify(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %q, %v, want %q", content, did, err, want)
		}
	}
	n.process, n.pidFile = "no-such-app", ""
	if _, err := n.notify(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "no process no-such-app runs in this instance") {
		t.Error(err)
	}
}

// TestRetry tells the app again until it has worked.
func TestRetry(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) > 1 {
			return
		}
		http.Error(w, "not now", http.StatusServiceUnavailable)
	}))
	t.Cleanup(hook.Close)
	ran := filepath.Join(t.TempDir(), "ran")
	w := newWorld(t, "WATCH_POST", hook.URL, "WATCH_TEMPLATE", "", "WATCH_OUTPUT", "", "WATCH_COMMAND", "echo x >> "+ran)
	looked := w.start(t)
	looked()
	put(t, w.env["VCAP_SERVICES_FILE_PATH"], vcap("second"))
	for calls.Load() < 2 {
		looked()
	}
	looked()
	looked()
	if got := read(t, ran); got != "x\nx\n" || calls.Load() != 2 {
		t.Errorf("the command wrote %q; %d calls", got, calls.Load())
	}
}

// TestTemplates fills templates in that use what exists, and what does not.
func TestTemplates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, x := range []struct{ text, want, problem string }{
		{text: `{{ (service "db").Credential "port" }}`, want: "5432"},
		{text: `{{ range .Services }}{{ .Name }}:{{ .Label }}{{ end }}`, want: "db:postgres"},
		{text: `{{ (service "db").Credential "uri" }}`,
			problem: `the service db has no credential "uri", only ["password" "port" "username"]`},
		{text: `{{ (service "db").Credentials.uri }}`, problem: `map has no entry for key "uri"`},
		{text: `{{ index (service "db").Credentials "uri" }}`, problem: "a value does not exist"},
		{text: `{{ (service "other").Credential "x" }}`, problem: `0 bound services have the name "other", want 1`},
	} {
		put(t, w.env["WATCH_TEMPLATE"], x.text)
		snap, err := source{file: w.env["VCAP_SERVICES_FILE_PATH"]}.read()
		if err != nil {
			t.Fatal(err)
		}
		got, err := render(w.env["WATCH_TEMPLATE"], snap.services, w.get)
		if string(got) != x.want || (err == nil) != (x.problem == "") || err != nil &&
			!strings.Contains(err.Error(), x.problem) {
			t.Errorf("%s: %q, %v, want %q %q", x.text, got, err, x.want, x.problem)
		}
	}
}

func TestCommandFails(t *testing.T) {
	t.Parallel()
	n := &notifier{command: "echo why >&2; exit 4", timeout: time.Minute}
	if _, err := n.notify(t.Context()); err == nil || !strings.Contains(err.Error(), "exit status 4: why") {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	for want, env := range map[string][]string{
		"features: {file-based-vcap-services: true}":      {"VCAP_SERVICES_FILE_PATH", ""},
		"both a file and a folder":                        {"SERVICE_BINDING_ROOT", "/x"},
		"WATCH_TEMPLATE and WATCH_OUTPUT must be":         {"WATCH_OUTPUT", ""},
		"nothing is to be done":                           {"WATCH_OUTPUT", "", "WATCH_TEMPLATE", ""},
		"WATCH_PID_FILE and WATCH_PROCESS are both set":   {"WATCH_PID_FILE", "x", "WATCH_PROCESS", "y"},
		"WATCH_SIGNAL is \"KILL\"":                        {"WATCH_SIGNAL", "SIGKILL"},
		"WATCH_MODE is \"999\", and must be octal":        {"WATCH_MODE", "999"},
		"WATCH_INTERVAL is \"1\", and must be a duration": {"WATCH_INTERVAL", "1"},
	} {
		if _, err := configure(newWorld(t, env...).get); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", env, err, want)
		}
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, filepath.Join(dir, "large"), strings.Repeat("x", maxFile+1))
	put(t, filepath.Join(dir, "empty"), " \n")
	put(t, filepath.Join(dir, "root", "db", "tags"), "no list")
	for want, s := range map[string]source{
		"has more than": {file: filepath.Join(dir, "large")}, "is empty": {file: filepath.Join(dir, "empty")},
		"no such file": {root: filepath.Join(dir, "none")}, "tags: invalid": {root: filepath.Join(dir, "root")},
	} {
		if _, err := s.read(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}
