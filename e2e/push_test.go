package e2e

import (
	"archive/zip"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestPush runs the commands that developers use most.
func TestPush(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, s *site) {
		together(t,
			part{"life", func(t *testing.T) { pushLife(t, s) }},
			part{"routes", func(t *testing.T) { pushRoutes(t, s) }},
			part{"logs", func(t *testing.T) { pushLogs(t, s) }},
			part{"watch", func(t *testing.T) { pushWatch(t, s) }},
			part{"plugins", func(t *testing.T) { pluginInterface(t, s) }},
		)
	})
}

// pushLife tests an app from its creation to its deletion.
func pushLife(t *testing.T, s *site) {
	home := cfAdmin(t, s.Server)
	for range 2 { // the second time it exists already, which is not an error
		contains(t, cfOK(t, home, "create-org", "acme"), "OK")
		contains(t, cfOK(t, home, "create-space", "shop", "-o", "acme"), "OK")
	}
	contains(t, columns(cfOK(t, home, "target", "-o", "acme", "-s", "shop")), "org: acme", "space: shop")
	for range 2 {
		contains(t, cfOK(t, home, "create-app", "life"), "OK")
	}
	contains(t, columns(cfOK(t, home, "apps")), "life stopped web:0/1")
	// A check may take a second unless told otherwise, and a busy machine longer.
	cfOK(t, home, "set-health-check", "life", "http", "--endpoint", "/health", "--invocation-timeout", "60")

	out := cfOK(t, home, pushProbe(t, "life", "-i", "2", "-u", "http", "--endpoint", "/health")...)
	contains(t, columns(out), "name: life", "requested state: started", "routes: life.apps.localhost", "memory usage: 64M",
		"start command: ./probe")
	app := guid(t, home, "life")
	first := s.running(t, app, 2)
	contains(t, columns(cfOK(t, home, "app", "life")), "instances: 2/2", "#0 running", "#1 running",
		"binary_buildpack", "64M")
	contains(t, columns(cfOK(t, home, "apps")), "life started web:2/2 life.apps.localhost")
	seen := map[string]bool{}
	testkit.Eventually(t, "both instances are asked", func() bool {
		seen[string(s.get(t, "life", "/").want(t, http.StatusOK).Body)] = true
		return seen["probe 0 /\n"] && seen["probe 1 /\n"]
	})
	lifeEnvironment(t, s, app)

	// The environment takes effect after a restart.
	contains(t, cfOK(t, home, "set-env", "life", "GREETING", "good morning"), "OK")
	contains(t, cfOK(t, home, "env", "life"), "GREETING:", "good morning", "VCAP_APPLICATION")
	if got := s.environment(t, "life")["GREETING"]; got != "" {
		t.Errorf("GREETING=%q without a restart", got)
	}
	cfOK(t, home, "restart", "life")
	second := s.running(t, app, 2)
	if got := s.environment(t, "life")["GREETING"]; got != "good morning" {
		t.Errorf("GREETING=%q after a restart", got)
	}
	if slices.Contains(second, first[0]) || slices.Contains(second, first[1]) {
		t.Errorf("instances %v before the restart, %v after it", first, second)
	}
	contains(t, cfOK(t, home, "unset-env", "life", "GREETING"), "OK")
	contains(t, columns(cfOK(t, home, "restage", "life")), " running ")
	s.running(t, app, 2)
	if _, there := s.environment(t, "life")["GREETING"]; there {
		t.Error("GREETING is there after it was unset")
	}

	contains(t, cfOK(t, home, "stop", "life"), "OK")
	s.reaches(t, "life", "/", http.StatusNotFound)
	testkit.Eventually(t, "the instances are down", func() bool {
		return !slices.ContainsFunc(s.stats(t, app), func(r stat) bool { return r.State != "DOWN" })
	})
	contains(t, columns(cfOK(t, home, "app", "life")), "requested state: stopped", "instances: 0/2", "#0 down", "#1 down")
	contains(t, columns(cfOK(t, home, "apps")), "life stopped web:0/2")
	// None of these commands may hang.
	contains(t, columns(cfOK(t, home, "scale", "life", "-i", "1")), "requested state: stopped",
		"instances: 0/1", "#0 down")
	contains(t, columns(cfOK(t, home, "scale", "life")), "instances: 0/1")
	contains(t, columns(cfOK(t, home, "start", "life")), "requested state: started", "#0 running")
	s.reaches(t, "life", "/", http.StatusOK)
	contains(t, cfOK(t, home, "stop", "life"), "OK")
	contains(t, columns(cfOK(t, home, "restart", "life")), "requested state: started", "#0 running")

	contains(t, columns(cfOK(t, home, "scale", "life", "-i", "3")), "#0 running")
	before := s.running(t, app, 3)
	contains(t, columns(cfOK(t, home, "scale", "life")), "instances: 3/3")
	contains(t, cfOK(t, home, "restart-app-instance", "life", "1"), "OK")
	testkit.Eventually(t, "instance 1 is another", func() bool {
		after := s.running(t, app, 3)
		if after[0] != before[0] || after[2] != before[2] {
			t.Fatalf("instances %v, then %v: only 1 was to be restarted", before, after)
		}
		return after[1] != before[1]
	})
	cfOK(t, home, "scale", "life", "-i", "1", "-m", "96M", "-f")
	s.running(t, app, 1)
	if got := s.stats(t, app)[0].Memory; got != 96<<20 {
		t.Errorf("%d bytes of memory after the scale to 96M", got)
	}

	contains(t, cfOK(t, home, "rename", "life", "afterlife"), "OK")
	contains(t, columns(cfOK(t, home, "app", "afterlife")), "name: afterlife", "routes: life.apps.localhost", "of 96M")
	contains(t, cfOK(t, home, "events", "afterlife"), "audit.app.create", "audit.app.apply_manifest",
		"audit.app.package.upload",
		"audit.app.build.create", "audit.app.droplet.mapped", "audit.app.restart", "audit.app.stop", "audit.app.start",
		"audit.app.process.scale",
		"audit.app.process.terminate_instance", "audit.app.map-route", "audit.app.update", "admin")

	contains(t, cfOK(t, home, "delete", "afterlife", "-f", "-r"), "OK")
	s.reaches(t, "life", "/", http.StatusNotFound)
	cfFails(t, home, "App 'afterlife' not found", "app", "afterlife")
	contains(t, cfOK(t, home, "routes"), "No routes found")
	contains(t, cfOK(t, home, "delete-org", "acme", "-f"), "OK")
}

// environment is the environment of an app.
func (s *site) environment(t testing.TB, host string) map[string]string {
	t.Helper()
	got := map[string]string{}
	s.reaches(t, host, "/env", http.StatusOK).into(t, &got)
	return got
}

func lifeEnvironment(t *testing.T, s *site, app string) {
	t.Helper()
	env := s.environment(t, "life")
	for name, want := range map[string]string{
		"MEMORY_LIMIT": "64m", "VCAP_APP_HOST": "0.0.0.0", "VCAP_SERVICES": "{}", "LANG": "C.UTF-8", "USER": "vcap",
		"VCAP_APP_PORT": env["PORT"], "INSTANCE_GUID": env["CF_INSTANCE_GUID"], "INSTANCE_INDEX": env["CF_INSTANCE_INDEX"],
		"CF_INSTANCE_ADDR": env["CF_INSTANCE_IP"] + ":" + env["CF_INSTANCE_PORT"],
	} {
		if env[name] != want {
			t.Errorf("%s=%q, want %q", name, env[name], want)
		}
	}
	for _, name := range []string{"PORT", "CF_INSTANCE_GUID", "CF_INSTANCE_INDEX", "CF_INSTANCE_IP", "CF_INSTANCE_PORT",
		"CF_INSTANCE_PORTS", "TMPDIR", "DEPS_DIR"} {
		if env[name] == "" {
			t.Errorf("%s is not set", name)
		}
	}
	if s.options.Engine == "container" && (env["HOME"] != "/home/vcap/app" || env["PORT"] != "8080") {
		t.Errorf("HOME=%q and PORT=%q", env["HOME"], env["PORT"])
	}
	var v struct {
		ID     string         `json:"application_id"`
		Name   string         `json:"application_name"`
		URIs   []string       `json:"application_uris"`
		Space  string         `json:"space_name"`
		Org    string         `json:"organization_name"`
		Type   string         `json:"process_type"`
		Limits map[string]int `json:"limits"`
		Index  *int           `json:"instance_index"`
		Port   int            `json:"port"`
		API    string         `json:"cf_api"`
	}
	if err := json.Unmarshal([]byte(env["VCAP_APPLICATION"]), &v); err != nil {
		t.Fatal(err)
	}
	if v.ID != app || v.Name != "life" || !slices.Equal(v.URIs, []string{"life.apps.localhost"}) || v.Space != "shop" ||
		v.Org != "acme" ||
		v.Type != "web" || v.Limits["mem"] != 64 || v.Limits["disk"] != 64 || v.Index == nil || v.Port == 0 || v.API == "" ||
		v.API != env["INGOT_API_URL"] || s.options.Engine == "process" && v.API != s.API {
		t.Errorf("VCAP_APPLICATION=%s", env["VCAP_APPLICATION"])
	}
}

// pushRoutes tests routes and manifests.
func pushRoutes(t *testing.T, s *site) {
	home := s.admin(t)
	archive := zipOf(t, probe(t))
	out := cfOK(t, home, "push", "quiet", "-p", archive, "-b", "binary_buildpack", "-c", "./probe", "-m", "64M",
		"-k", "64M",
		"-u", "process", "--no-start", "--no-route")
	contains(t, columns(out), "requested state: stopped", "routes:\n")
	contains(t, cfOK(t, home, "map-route", "quiet", "apps.localhost", "--hostname", "side", "--path", "deep"), "OK")
	contains(t, cfOK(t, home, "map-route", "quiet", "apps.localhost", "--hostname", "loud"), "OK")
	contains(t, columns(cfOK(t, home, "routes")), "dev side apps.localhost /deep http http1 8080 quiet",
		"dev loud apps.localhost http http1 8080 quiet")
	contains(t, columns(cfOK(t, home, "start", "quiet")), "#0 running")
	s.reaches(t, "side", "/deep/er", http.StatusOK)
	if got := string(s.reaches(t, "loud", "/x", http.StatusOK).Body); got != "probe 0 /x\n" {
		t.Errorf("loud/x answers %q", got)
	}
	for _, path := range []string{"/", "/deeper"} {
		if r := s.get(t, "side", path); r.Status != http.StatusNotFound {
			t.Errorf("side%s, which has no app: got %s, want 404", path, r)
		}
	}
	contains(t, cfOK(t, home, "unmap-route", "quiet", "apps.localhost", "--hostname", "loud"), "OK")
	s.reaches(t, "loud", "/", http.StatusNotFound)
	s.get(t, "side", "/deep").want(t, http.StatusOK)
	contains(t, cfOK(t, home, "delete-route", "apps.localhost", "--hostname", "loud", "-f"), "OK")
	s.reaches(t, "loud", "/", http.StatusNotFound)

	// A manifest, and the generated one.
	file := write(t, "manifest.yml", `
applications:
- name: lucky
  buildpacks: [binary_buildpack]
  memory: 64M
  disk_quota: 64M
  command: ./probe
  health-check-type: port
  timeout: 120
  env: {COLOUR: green, COUNT: 3}
  metadata: {labels: {team: blue}}
`)
	cfOK(t, home, "push", "-f", file, "-p", probe(t), "--random-route")
	listed := regexp.MustCompile(`(?m)^dev (lucky-\S+) apps\.localhost http http1 8080 lucky`).
		FindStringSubmatch(columns(cfOK(t, home, "routes")))
	if listed == nil {
		t.Fatalf("no random route:\n%s", cfOK(t, home, "routes"))
	}
	if env := s.environment(t, listed[1]); env["COLOUR"] != "green" || env["COUNT"] != "3" {
		t.Errorf("COLOUR=%q, COUNT=%q", env["COLOUR"], env["COUNT"])
	}
	dir := t.TempDir()
	export := func(name string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		contains(t, cfOK(t, home, "create-app-manifest", "lucky", "-p", path), "OK")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	exported := export("one.yml")
	contains(t, exported, "name: lucky", "COLOUR: green", "team: blue", "memory: 64M", "disk_quota: 64M",
		"command: ./probe", listed[1]+".apps.localhost")
	space := strings.TrimSpace(cfOK(t, home, "space", "dev", "--guid"))
	diff := cfOK(t, home, "curl", "-X", "POST", "/v3/spaces/"+space+"/manifest_diff", "-H",
		"Content-Type: application/x-yaml", "-d", "@"+filepath.Join(dir, "one.yml"))
	if got := strings.Join(strings.Fields(diff), ""); got != `{"diff":[]}` {
		t.Errorf("what create-app-manifest wrote differs from the app: %s\n%s", diff, exported)
	}
	cfOK(t, home, "apply-manifest", "-f", filepath.Join(dir, "one.yml"))
	if again := export("two.yml"); again != exported {
		t.Errorf("after it was applied the manifest is\n%s\nand was\n%s", again, exported)
	}
	// cf shows the changes, and the app keeps its route.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := write(t, "manifest.yml", strings.Replace(string(text), "green", "red", 1))
	out = cfOK(t, home, "push", "-f", changed, "-p", probe(t), "--no-start")
	contains(t, out, listed[1])
	var marked []string
	for l := range strings.Lines(out) {
		if l = strings.TrimSpace(l); strings.HasPrefix(l, "+ ") || strings.HasPrefix(l, "- ") && strings.Contains(l, "    ") {
			marked = append(marked, strings.Join(strings.Fields(l), " "))
		}
	}
	if !slices.Equal(marked, []string{"- COLOUR: green", "+ COLOUR: red"}) {
		t.Errorf("cf shows other changes than that of COLOUR: %q\n%s", marked, out)
	}

	var found struct {
		Resources []struct{ Name, State string }
	}
	if err := json.Unmarshal([]byte(cfOK(t, home, "curl", "/v3/apps?names=lucky")), &found); err != nil ||
		len(found.Resources) != 1 || found.Resources[0].Name != "lucky" {
		t.Errorf("cf curl finds %v, %v", found, err)
	}
	if out, code := cf(t, home, "curl", "-f", "/v3/apps/nobody"); code != 22 {
		t.Errorf("cf curl -f of what is not there: code %d, want 22\n%s", code, out)
	}
}

// zipOf packs the files of a folder, and one more: cf reports an archive with a
// single file as empty.
func zipOf(t testing.TB, dir string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "app.zip")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Create("notes.txt"); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// stream is a client that runs until it is stopped.
type stream struct {
	Out  *output
	stop func()
}

// cfStream starts the client.
func cfStream(t *testing.T, home string, args ...string) *stream {
	t.Helper()
	cmd := cfCommand(t.Context(), t, home, args)
	s := &stream{Out: newOutput()}
	cmd.Stdout, cmd.Stderr = s.Out, s.Out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.stop = func() {
		_ = cmd.Process.Kill() // or it has ended
		_ = cmd.Wait()
	}
	t.Cleanup(s.stop)
	return s
}

// pushLogs tests the logs of an app.
func pushLogs(t *testing.T, s *site) {
	home := s.admin(t)
	cfOK(t, home, pushProbe(t, "talk")...)
	say := func(path, text string) {
		t.Helper()
		s.get(t, "talk", path+"?"+url.Values{"text": {text}}.Encode()).want(t, http.StatusOK)
	}
	say("/stdout", "the first word")
	var recent string
	for _, want := range []string{
		"[STG/0] OUT -----> Binary Buildpack", "[APP/PROC/WEB/0] OUT Invoking start command.",
		"[CELL/0] OUT Container became healthy",
		"[APP/PROC/WEB/0] OUT the first word", `[RTR/0] OUT talk.apps.localhost - [`,
	} {
		testkit.Eventually(t, want+" is in the recent log", func() bool {
			recent = cfOK(t, home, "logs", "talk", "--recent")
			return strings.Contains(recent, want)
		})
	}
	if strings.Index(recent, "[STG/0]") > strings.Index(recent, "the first word") {
		t.Errorf("the order of lines is not that of time:\n%s", recent)
	}

	follow := cfStream(t, home, "logs", "talk")
	// It shows what is newer than the newest line that it finds: write lines until one arrives.
	testkit.Eventually(t, "cf follows the log", func() bool {
		say("/stdout", "anybody there?")
		return strings.Contains(follow.Out.String(), "OUT anybody there?")
	})
	say("/stdout", "a word on the way")
	say("/stderr", "a complaint: größer, 大きい")
	follow.Out.await(t, "[APP/PROC/WEB/0] OUT a word on the way")
	text := follow.Out.await(t, "[APP/PROC/WEB/0] ERR a complaint: größer, 大きい")
	follow.Out.await(t, `"GET /stderr?text=`)
	for _, once := range []string{"OUT a word on the way", "ERR a complaint"} {
		if n := strings.Count(text, once); n != 1 {
			t.Errorf("%q is there %d times:\n%s", once, n, text)
		}
	}
	follow.stop()
	contains(t, cfOK(t, home, "events", "talk"), "audit.app.create", "audit.app.build.staged")
	// Long lines and those without a line end arrive complete, possibly in pieces.
	long := strings.Repeat("0123456789", 1200)
	r, err := s.try(http.MethodPost, s.API+"/stdout", "", url.Values{"text": {long}},
		header{"Host", "talk.apps.localhost"})
	if err != nil {
		t.Fatal(err)
	}
	r.want(t, http.StatusOK)
	app := guid(t, home, "talk")
	testkit.Eventually(t, "the long line is logged", func() bool {
		var all strings.Builder
		for _, l := range s.log(t, app) {
			if l.Source == "APP/PROC/WEB" && strings.Contains(l.Text, "0123456789") {
				all.WriteString(l.Text)
			}
		}
		return all.String() == long
	})
}

// sample is an app for a bundled buildpack.
type sample struct {
	name      string
	buildpack string // its language
	program   string // required on the machine
	files     map[string]string
	// prepare converts the folder with the files to what is pushed.
	prepare func(t *testing.T, dir string) string
	args    []string
}

// samples respond on / with their name.
var samples = []sample{
	{name: "golang", buildpack: "go", program: "go", files: map[string]string{
		"go.mod": "module example.org/golang\n\ngo 1.21\n",
		// Without net/http, which takes long to compile.
		"main.go": `package main

import (
	"net"
	"os"
)

func main() {
	l, err := net.Listen("tcp", ":"+os.Getenv("PORT"))
	if err != nil {
		panic(err)
	}
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		c.Read(make([]byte, 4096))
		c.Write([]byte("HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\ngolang"))
		c.Close()
	}
}
`,
	}, args: []string{"-m", "128M"}},
	{name: "nodejs", buildpack: "nodejs", program: "node", files: map[string]string{
		"package.json": `{"name": "nodejs", "version": "1.0.0", "scripts": {"start": "node server.js"}}`,
		"server.js":    `require("http").createServer((_, res) => res.end("nodejs")).listen(process.env.PORT)`,
	}, args: []string{"-m", "256M"}},
	{name: "python", buildpack: "python", program: "python3", files: map[string]string{
		"requirements.txt": "# none\n",
		"app.py": `import http.server, os

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"python")

http.server.HTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()
`,
	}, args: []string{"-m", "128M"}},
	{name: "static", buildpack: "staticfile", files: map[string]string{"Staticfile": "", "index.html": "static"},
		args: []string{"-m", "64M"}},
	{name: "page", buildpack: "staticfile", files: map[string]string{"index.html": "page"}, args: []string{"-m", "64M"}},
	// As in Cloud Foundry's documentation: logs to the standard streams, and an
	// included table of file types.
	{name: "nginx", buildpack: "nginx", program: "nginx", files: map[string]string{
		"nginx.conf": `worker_processes 1;
daemon off;
error_log stderr;
events { worker_connections 64; }
http {
  log_format cloudfoundry 'NginxLog "$request" $status';
  access_log /dev/stdout cloudfoundry;
  include mime.types;
  server { listen {{port}}; root public; }
}
`, "public/index.html": "nginx",
	}, args: []string{"-m", "64M"}},
	{name: "war", buildpack: "java", program: "tomcat", files: map[string]string{
		"WEB-INF/web.xml": `<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0"/>`,
		"index.jsp":       `<%= "war" %>`,
	}, args: []string{"-m", "512M"}},
	{name: "jar", buildpack: "java", program: "java", files: map[string]string{"Main.java": javaMain}, prepare: makeJar,
		args: []string{"-m", "512M"}},
	{name: "sources", buildpack: "java", program: "javac",
		files: map[string]string{"Main.java": strings.ReplaceAll(javaMain, `"jar"`, `"sources"`)},
		args:  []string{"-m", "512M"}},
	{name: "ruby", buildpack: "ruby", program: "ruby", files: map[string]string{
		"Gemfile": "", "config.ru": `run ->(env) { [200, {}, ["ruby"]] }`,
		"Procfile": `web: ruby -rsocket -e 's = TCPServer.new(ENV["PORT"].to_i); loop { c = s.accept; c.gets; c.write("HTTP/1.0 200 OK\r\n\r\nruby"); c.close }'` + "\n",
	}, args: []string{"-m", "256M"}},
	{name: "php", buildpack: "php", program: "php", files: map[string]string{"index.php": "<?php echo 'php';"},
		args: []string{"-m", "256M"}},
	{name: "binary", buildpack: "binary", prepare: func(t *testing.T, dir string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(probe(t), "probe"))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "probe"), text, 0o700)
		}
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}, files: map[string]string{"Procfile": "web: ./probe\n"}, args: []string{"-m", "64M", "-b", "binary_buildpack"}},
}

const javaMain = `import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

public class Main {
    public static void main(String[] args) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(Integer.parseInt(System.getenv("PORT"))), 0);
        server.createContext("/", exchange -> {
            byte[] text = "jar".getBytes();
            exchange.sendResponseHeaders(200, text.length);
            exchange.getResponseBody().write(text);
            exchange.close();
        });
        server.start();
    }
}
`

// makeJar compiles the sources; cf unpacks the jar before it sends it.
func makeJar(t *testing.T, dir string) string {
	t.Helper()
	for _, args := range [][]string{
		{"javac", "-d", "classes", "Main.java"},
		{"jar", "--create", "--file", "app.jar", "--main-class", "Main", "-C", "classes", "."},
	} {
		if _, err := exec.LookPath(args[0]); err != nil {
			t.Skipf("no jar can be made: %v", err)
		}
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
	}
	return filepath.Join(dir, "app.jar")
}

// onSystem reports whether apps find a program: in the directories of the system,
// not of a user.
func onSystem(program string) bool {
	if program == "tomcat" {
		homes, err := filepath.Glob("/usr/share/tomcat*/bin/bootstrap.jar")
		return err == nil && len(homes) > 0
	}
	for _, dir := range []string{"/usr/bin", "/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/go/bin",
		"/usr/lib/go/bin"} {
		if _, err := os.Stat(filepath.Join(dir, program)); err == nil {
			return true
		}
	}
	return false
}
