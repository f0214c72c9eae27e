package staging_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/run/staging/buildpacks"
	"ingot/internal/platform/storage/blob"
)

// What a Procfile may name without saying where it is.
func TestProgramsInPath(t *testing.T) {
	t.Parallel()
	const serve = "#!/usr/bin/env python3\nimport http.server, os\nhttp.server.HTTPServer(('127.0.0.1', " +
		"int(os.environ['PORT'])), http.server.SimpleHTTPRequestHandler).serve_forever()\n"
	for name, test := range map[string]struct {
		needs []string
		app   map[string]string
	}{
		"go": {nil, map[string]string{
			"go.mod": "module example.com/proxy\n\ngo 1.18\n", "main.go": strings.ReplaceAll(goApp, "greeting()", `"hello"`),
			"Procfile": "web: proxy\n",
		}},
		"nodejs": {[]string{"node", "python3"}, map[string]string{
			"package.json": `{"name":"a"}`, "node_modules/.bin/serve": serve, "Procfile": "web: serve\n",
		}},
		"python": {[]string{"python3", "pip3"}, map[string]string{
			"requirements.txt": "served==1.0\n", "Procfile": "web: serve\n",
			"vendor/served-1.0-py3-none-any.whl": string(makeZip(t, map[string]string{
				"served-1.0.data/scripts/serve": strings.Replace(serve, "#!/usr/bin/env python3", "#!python", 1),
				"served-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: served\nVersion: 1.0\n",
				"served-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
				"served-1.0.dist-info/RECORD":   "",
			})),
		}},
		"php": {[]string{"php", "python3"}, map[string]string{"index.php": "<?php", "vendor/bin/serve": serve,
			"Procfile": "web: serve\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs(t, test.needs...)
			w := newWorld(t, nil)
			req, log := w.request(test.app)
			if name == "go" {
				req.App.Env = goCache(t)
			}
			w.launch(w.stage(req, log)).get("/", "")
		})
	}
}

// gem makes a gem with one program, as gem build does.
func gem(t *testing.T, name, version, program string) string {
	t.Helper()
	dir := t.TempDir()
	spec := "Gem::Specification.new { |s| s.name = '" + name + "'; s.version = '" + version +
		"'; s.summary = 'x'; s.authors = ['x']; s.files = []"
	if program != "" {
		spec += "; s.executables = ['" + name + "']; s.files = ['bin/" + name + "']"
	}
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"x.gemspec": spec + " }\n", "bin/" + name: program} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	build := exec.Command("gem", "build", "--force", "-q", "x.gemspec")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("gem build: %v: %s", err, out)
	}
	b, err := os.ReadFile(filepath.Join(dir, name+"-"+version+".gem"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// rubyServer answers with its name and arguments.
const rubyServer = `#!/usr/bin/env ruby
require "socket"
server = TCPServer.new("127.0.0.1", Integer(ENV["PORT"]))
loop do
  c = server.accept
  nil until c.gets.to_s.strip.empty?
  body = ([File.basename($0)] + ARGV).join(" ") + " secret=#{ENV["SECRET_KEY_BASE"].to_s.size}"
  c.write "HTTP/1.1 200 OK\r\nContent-Length: #{body.size}\r\nConnection: close\r\n\r\n#{body}"
  c.close
end
`

func lock(gems ...string) string {
	text := "GEM\n  remote: https://rubygems.org/\n  specs:\n"
	deps := "\nPLATFORMS\n  ruby\n\nDEPENDENCIES\n"
	for _, g := range gems {
		name, version, _ := strings.Cut(g, " ")
		text += "    " + name + " (" + version + ")\n"
		deps += "  " + name + "\n"
	}
	return text + deps
}

func TestRuby(t *testing.T) {
	t.Parallel()
	needs(t, "ruby", "bundle", "gem")
	thin, puma, rack, rails := gem(t, "thin", "1.8.1", rubyServer), gem(t, "puma", "6.0.0", rubyServer),
		gem(t, "rack", "3.1.0", ""), gem(t, "rails", "7.0.0", rubyServer)
	rackup := gem(t, "rackup", "2.1.0", rubyServer)
	app := func(more map[string]string, gems ...string) map[string]string {
		files := map[string]string{"Gemfile": "source 'https://rubygems.org'\n",
			"config.ru": "run ->(e) { [200, {}, ['hello']] }\n", "Gemfile.lock": lock(gems...)}
		for _, g := range gems {
			name, version, _ := strings.Cut(g, " ")
			files["Gemfile"] += "gem '" + name + "'\n"
			content := map[string]string{"thin": thin, "puma": puma, "rack": rack, "rails": rails, "rackup": rackup}[name]
			files["vendor/cache/"+name+"-"+version+".gem"] = content
		}
		for name, text := range more {
			files[name] = text
		}
		return files
	}
	for name, test := range map[string]struct {
		app      map[string]string
		want, is string
	}{
		"thin": {app(nil, "rack 3.1.0", "thin 1.8.1", "puma 6.0.0"),
			"bundle exec thin start -R config.ru -e $RACK_ENV -a 0.0.0.0 -p $PORT", "thin start -R config.ru -e production"},
		"puma": {app(nil, "rack 3.1.0", "puma 6.0.0"), "bundle exec puma -e $RACK_ENV -p $PORT config.ru",
			"puma -e production"},
		"rackup": {app(nil, "rack 3.1.0", "rackup 2.1.0"), "bundle exec rackup config.ru -o 0.0.0.0 -p $PORT",
			"rackup config.ru"},
		"rails": {app(map[string]string{"config/application.rb": ""}, "rack 3.1.0", "thin 1.8.1", "rails 7.0.0"),
			"bundle exec rails server -b 0.0.0.0 -p $PORT -e $RAILS_ENV", "rails server -b 0.0.0.0 -p"},
		"bin/rails": {
			app(map[string]string{"bin/rails": rubyServer, "config/application.rb": ""}, "rack 3.1.0", "rails 7.0.0"),
			"ruby bin/rails server -b 0.0.0.0 -p $PORT -e $RAILS_ENV", "-e production secret=128",
		},
		"program of a gem in a Procfile": {app(map[string]string{"Procfile": "web: thin --here\n"}, "rack 3.1.0",
			"thin 1.8.1"), "thin --here", "thin --here"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			req, log := w.request(test.app)
			result := w.stage(req, log)
			if got := result.ProcessTypes["web"]; got != test.want {
				t.Fatalf("web is %q, want %q", got, test.want)
			}
			w.launch(result).get("/", test.is)
		})
	}
	t.Run("no server", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(app(nil, "rack 3.1.0"))
		w.fails(req, log, "finalize phase", "none of thin, puma and rackup is in Gemfile.lock")
	})
	t.Run("missing in vendor", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		files := app(nil, "rack 3.1.0")
		delete(files, "vendor/cache/rack-3.1.0.gem")
		files["vendor/cache/.keep"] = ""
		req, log := w.request(files)
		w.fails(req, log, "finalize phase", "bundle cache --all")
	})
}

func TestPHP(t *testing.T) {
	t.Parallel()
	needs(t, "php")
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{
		"composer.json": "{}", "vendor/autoload.php": "<?php",
		"public/index.php": `<?php echo "index for ", $_SERVER["REQUEST_URI"];`, "public/site.css": "color: red",
		"secret.txt": "secret",
	})
	app := w.launch(w.stage(req, log))
	app.get("/", "index for /")
	app.get("/some/path?x=1", "index for /some/path?x=1")
	app.get("/site.css", "color: red")
	app.get("/../secret.txt", "index for")
}

const nginxApp = `worker_processes 1;
events { worker_connections 64; }
http {
  include mime.types;
  include sites/*.conf;
}
`

func needsNginx(t *testing.T) {
	t.Helper()
	for _, dir := range []string{"/usr/sbin", "/usr/bin", "/usr/local/sbin"} {
		if _, err := os.Stat(filepath.Join(dir, "nginx")); err == nil {
			return
		}
	}
	t.Skip("not installed: nginx")
}

func TestNginx(t *testing.T) {
	t.Parallel()
	needsNginx(t)
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{
		"nginx.conf":        nginxApp,
		"sites/a.conf":      `server { listen {{port}}; root public; location /greet { return 200 "{{env "GREETING"}}"; } }`,
		"public/index.html": "hello from nginx", "public/a.css": "a{}",
	})
	result := w.stage(req, log)
	if b := result.Buildpacks; len(b) != 1 || b[0].BuildpackName != "nginx" || b[0].DetectOutput != "nginx "+
		buildpacks.Version {
		t.Errorf("buildpacks %+v", b)
	}
	app := w.launch(result, "GREETING=good day")
	app.get("/", "hello from nginx")
	app.get("/greet", "good day")
	res, err := client.Get(app.address + "/a.css")
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.Header.Get("Content-Type") != "text/css" {
		t.Errorf("type %q, %v", res.Header.Get("Content-Type"), err)
	}

	for name, test := range map[string]struct{ conf, want string }{
		"no port": {"events {} http { server { listen 8080; } }", "no {{port}}"},
		"syntax":  {"events {} http { server { listen {{port}}; roof public; } }", `unknown directive "roof"`},
		"module":  {`{{module "ngx_nope"}} events {} http { server { listen {{port}}; } }`, "there is no module ngx_nope.so"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			req, log := w.request(map[string]string{"nginx.conf": test.conf})
			w.fails(req, log, "finalize phase", test.want)
		})
	}
	t.Run("named without a file", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(map[string]string{"index.html": ""}, "nginx_buildpack")
		w.fails(req, log, "finalize phase", "nginx.conf is not there")
	})
}

func TestWar(t *testing.T) {
	t.Parallel()
	needs(t, "java")
	homes, err := filepath.Glob("/usr/share/tomcat*/bin/bootstrap.jar")
	if err != nil || len(homes) == 0 {
		t.Skip("not installed: tomcat")
	}
	war := map[string]string{
		"WEB-INF/web.xml": `<web-app xmlns="https://jakarta.ee/xml/ns/jakartaee" version="5.0"/>`,
		"index.jsp":       `<%= "hello from tomcat " + (Runtime.getRuntime().maxMemory() >> 20) + " " + request.isSecure() %>`,
		"a.css":           "a{}",
	}
	for name, app := range map[string]map[string]string{
		"unpacked": war,
		"packed":   {"shop.war": string(makeZip(t, war))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			req, log := w.request(app)
			result := w.stage(req, log)
			app := w.launch(result)
			app.get("/", "hello from tomcat 2")
			app.get("/a.css", "a{}")
			res, err := client.Get(app.address + "/WEB-INF/web.xml")
			if err != nil {
				t.Fatal(err)
			}
			if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusNotFound {
				t.Errorf("WEB-INF: %s, %v", res.Status, err)
			}
		})
	}
	t.Run("no tomcat", func(t *testing.T) {
		t.Parallel()
		if _, err := exec.LookPath("unshare"); err != nil || os.Getuid() != 0 {
			t.Skip("only root can hide a directory")
		}
		// The script alone, on a machine without Tomcat.
		dir := t.TempDir()
		script := `set -euo pipefail; shopt -s nullglob; mount -t tmpfs none /usr/share; fail() { printf '%s\n' "$@"; exit 9; }; . ` +
			filepath.Join(must(os.Getwd()), "buildpacks", "packs", "java", "lib", "tomcat.sh") + `; DEPS=` + dir +
			` INDEX=0; tomcat_app '$HOME'`
		out, err := exec.Command("unshare", "-m", "bash", "-c", script).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "apt-get install tomcat10-common") {
			t.Errorf("error is %v, output %s, want the package to install", err, out)
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A distribution of Gradle's is run by its own script, told of the memory.
func TestJavaDistribution(t *testing.T) {
	t.Parallel()
	needs(t, "java", "python3")
	script := "#!/bin/sh\nexport SAID=\"$JAVA_OPTS\"\nexec python3 -c '\nimport http.server, os\nclass " +
		"H(http.server.BaseHTTPRequestHandler):\n  def do_GET(self):\n    self.send_response(200); self.end_headers(); " +
		"self.wfile.write(os.environ[\"SAID\"].encode())\nhttp.server.HTTPServer((\"127.0.0.1\", " +
		"int(os.environ[\"PORT\"])), H).serve_forever()'\n"
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{"shop-1.0/bin/shop": script, "shop-1.0/bin/shop.bat": "rem JAVA_OPTS",
		"shop-1.0/lib/shop.jar": string(makeZip(t, nil))})
	result := w.stage(req, log)
	if got := result.ProcessTypes["web"]; !strings.HasSuffix(got, "-script shop-1.0/bin/shop") {
		t.Errorf("web is %q", got)
	}
	w.launch(result, "JAVA_OPTS=-Da=b").get("/", "-Da=b")
}

// A buildpack that is named takes the app, and says so when it cannot.
func TestNamedForAnother(t *testing.T) {
	t.Parallel()
	needs(t, "java")
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{"index.html": "hello"}, "java_buildpack")
	_, err := w.Stage(context.Background(), req)
	if err == nil || !strings.Contains(err.Error(),
		"BuildpackCompileFailed - App staging failed in the buildpack finalize phase") {
		t.Fatalf("error is %v, want a failure in the finalize phase\n%s", err, log)
	}
	if !strings.Contains(log.String(), "No container can run this application: it is no Java app") {
		t.Errorf("log:\n%s", log)
	}
}

// A page alone is a static site, unless anything else is a better guess.
func TestIndexHTML(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{"index.html": "hello, page", "css/a.css": "", "logo.svg": ""})
	result := w.stage(req, log)
	if result.DetectedBuildpack != "staticfile "+buildpacks.Version ||
		result.Buildpacks[0].Name != "staticfile_buildpack" {
		t.Errorf("detected %q, %+v", result.DetectedBuildpack, result.Buildpacks)
	}
	w.launch(result).get("/", "hello, page")

	for want, more := range map[string]map[string]string{
		"nodejs_buildpack": {"package.json": "{}", "server.js": ""},
		"python_buildpack": {"app.py": ""},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			needs(t, map[string]string{"nodejs_buildpack": "node", "python_buildpack": "python3"}[want])
			more["index.html"] = "a page beside it"
			w := newWorld(t, nil)
			req, log := w.request(more)
			if got := w.stage(req, log).Buildpacks[0].Name; got != want {
				t.Errorf("taken by %s", got)
			}
		})
	}
	t.Run("with a Procfile", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(map[string]string{"index.html": "", "Procfile": "web: ./run\n"})
		w.fails(req, log, "NoAppDetectedError", "None of the buildpacks detected")
	})
}

// Named buildpacks tell who they are, as those that were detected do.
func TestNamedOutput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{"Staticfile": "", "run": "#!/bin/sh\n"}, "binary_buildpack",
		"staticfile_buildpack")
	result := w.stage(req, log)
	for i, name := range []string{"binary", "staticfile"} {
		b := result.Buildpacks[i]
		if b.Name != name+"_buildpack" || b.BuildpackName != name || b.Version != buildpacks.Version ||
			b.DetectOutput != name+" "+buildpacks.Version {
			t.Errorf("buildpack is %+v, want %s of version %s", b, name, buildpacks.Version)
		}
	}
	if result.DetectedBuildpack != "staticfile "+buildpacks.Version {
		t.Errorf("detected %q", result.DetectedBuildpack)
	}
}

// A failed download: the file does not exist, or no server answers?
func TestDownloads(t *testing.T) {
	t.Parallel()
	registry := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := map[string]string{"/packages.json": `{"packages":{}}`,
			"/versions": "created_at: 2024-01-01T00:00:00Z\n---\n"}[r.URL.Path]; text != "" {
			_, _ = w.Write([]byte(text))
			return
		}
		http.Error(w, `{"error":"Not found"}`, http.StatusNotFound)
	}))
	t.Cleanup(registry.Close)
	closed := "http://" + testkit.Refusing(t)
	for name, test := range map[string]struct {
		needs []string
		app   func(url string) map[string]string
		env   func(url string) map[string]string
		how   string
	}{
		"npm": {
			[]string{"node", "npm"},
			func(string) map[string]string {
				return map[string]string{"package.json": `{"name":"a","dependencies":{"no-such-module":"1.0.0"}}`, "server.js": ""}
			},
			func(url string) map[string]string {
				return map[string]string{"npm_config_registry": url, "npm_config_fetch_retries": "0"}
			}, "npm install",
		},
		"pip": {
			[]string{"python3", "pip3"},
			func(string) map[string]string {
				return map[string]string{"app.py": "", "requirements.txt": "no-such-package==1.0\n"}
			},
			func(url string) map[string]string {
				return map[string]string{"PIP_INDEX_URL": url, "PIP_TRUSTED_HOST": "127.0.0.1", "PIP_CONFIG_FILE": "/dev/null",
					"PIP_RETRIES": "0"}
			}, "pip download -d vendor",
		},
		"go": {
			nil,
			func(string) map[string]string {
				return map[string]string{"go.mod": "module a\n\ngo 1.18\n\nrequire example.org/nowhere v1.0.0\n",
					"main.go": "package main\n\nimport _ \"example.org/nowhere\"\n\nfunc main() {}\n"}
			},
			func(url string) map[string]string {
				return map[string]string{"GOPROXY": url, "GONOSUMDB": "*", "GOFLAGS": "-mod=mod"}
			}, "go mod vendor",
		},
		"bundler": {
			[]string{"ruby", "bundle"},
			func(url string) map[string]string {
				return map[string]string{"Gemfile": "source '" + url + "'\ngem 'no-such-gem'\n", "config.ru": ""}
			}, nil, "bundle cache",
		},
		"composer": {
			[]string{"php", "composer"},
			func(url string) map[string]string {
				return map[string]string{"index.php": "",
					"composer.json": `{"require":{"no/such":"1.0"},"config":{"secure-http":false},"repositories":[{"type":"composer","url":"` + url + `"},{"packagist.org":false}]}`}
			}, nil, "composer install --no-dev",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needs(t, test.needs...)
			try := func(url, want string, not ...string) {
				t.Helper()
				w := newWorld(t, nil)
				req, log := w.request(test.app(url))
				if test.env != nil {
					req.App.Env = test.env(url)
				}
				w.fails(req, log, "finalize phase", want)
				for _, text := range not {
					if strings.Contains(log.String(), text) {
						t.Errorf("%q in the log:\n%s", text, log)
					}
				}
			}
			try(registry.URL, "the server does not have one of them", "could not reach the network")
			try(closed, "no server was reached", "the server does not have")
			try(closed, test.how)
		})
	}
}

// The error of a build has its last lines.
func TestLastLines(t *testing.T) {
	t.Parallel()
	list := &catalog{}
	w := newWorld(t, func(c *staging.Config) { c.Catalog = list })
	*list = append(*list, w.installBuildpack("pack", map[string]string{
		"bin/detect": "#!/bin/sh\n",
		"bin/compile": "#!/bin/sh\nfor i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo line $i; done; echo; echo the reason >&2; " +
			"exit 3\n",
	}))
	req, log := w.request(map[string]string{"x": ""})
	_, err := w.Stage(context.Background(), req)
	f, ok := err.(*staging.Failure) //nolint:errorlint // no other is wanted
	if !ok {
		t.Fatalf("error is %v, want a %T\n%s", err, f, log)
	}
	if len(f.Lines) != 10 || !slices.Contains(f.Lines, "the reason") {
		t.Errorf("lines %q", f.Lines)
	}
	report := f.Report()
	if !strings.HasPrefix(report,
		"BuildpackCompileFailed - App staging failed in the buildpack compile phase\nThe last lines of the build:\n") ||
		strings.Contains(report, "line 1\n") || !strings.Contains(report, "\n   line 12\n") {
		t.Errorf("report:\n%s", report)
	}
}

// A droplet without a start command is of use only to an app that has its own.
func TestStartCommand(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{"run": "#!/bin/sh\n"}, "binary_buildpack")
	has := false
	req.HasCommand = func(context.Context) (bool, error) { return has, nil }
	w.fails(req, log, "StagingError - Start command not specified",
		"No start command specified by buildpack or via Procfile.")
	if _, err := w.blobs.Open(context.Background(), blob.Droplets, "droplet"); err == nil {
		t.Error("the droplet was stored")
	}
	has = true
	w.stage(req, log)
	has = false
	req, log = w.request(map[string]string{"run": "#!/bin/sh\n", "Procfile": "worker: ./run\n"}, "binary_buildpack")
	req.HasCommand = func(context.Context) (bool, error) { return false, nil }
	w.stage(req, log)
}

// Of a buildpack that is given by its URL it is not known what it leaves to
// sidecars.
func TestCustomBuildpackSidecars(t *testing.T) {
	t.Parallel()
	pack := func(manifest string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(makeZip(t, map[string]string{
				"bin/detect": "#!/bin/sh\n", "bin/supply": "#!/bin/sh\n", "manifest.yml": manifest,
				"bin/finalize": "#!/bin/sh\nprintf 'processes:\\n- {type: web, command: ./x}\\n- {type: agent, command: ./a, " +
					"platforms: {cloudfoundry: {sidecar_for: [web]}}}\\n' > $3/$4/launch.yml\n",
			}))
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/plain.zip", pack("language: mine\n"))
	mux.Handle("/needs.zip", pack("language: mine\nneeds_sidecar_memory: true\n"))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	w := newWorld(t, func(c *staging.Config) { c.PrivateFetch = true })
	req, log := w.request(map[string]string{"x": ""}, server.URL+"/plain.zip")
	req.Sidecars = []platform.Sidecar{{Name: "good", ProcessTypes: []string{"web"}, MemoryMB: 64},
		{Name: "config-server", ProcessTypes: []string{"web"}}}
	w.stage(req, log)
	for _, want := range []string{
		`WARNING: The sidecar "config-server" has no memory, which is required with a custom buildpack (` + server.URL +
			`/plain.zip)`,
		`WARNING: The sidecar "agent" has no memory`, // the buildpack's own
	} {
		if log.count(want) != 1 {
			t.Errorf("no %q in\n%s", want, log)
		}
	}
	req, log = w.request(map[string]string{"x": ""}, server.URL+"/needs.zip")
	req.Sidecars = []platform.Sidecar{{Name: "config-server", ProcessTypes: []string{"web"}}}
	w.fails(req, log, `The sidecar "config-server" of web has no memory`)
}

// A language that is installed while the server runs is found by the next build.
func TestInstalledMeanwhile(t *testing.T) {
	t.Parallel()
	needs(t, "node")
	bin := t.TempDir()
	add := func(programs ...string) {
		t.Helper()
		for _, p := range programs {
			path, err := exec.LookPath(p)
			if err == nil {
				err = os.Symlink(path, filepath.Join(bin, p))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	add("bash", "sh", "env", "dirname", "cat", "cp", "mkdir", "chmod", "grep", "sed", "sort", "head", "basename")
	w := newWorld(t, func(c *staging.Config) { c.Path = bin })
	req, log := w.request(map[string]string{"package.json": "{}", "server.js": ""})
	w.fails(req, log, "supply phase", "apt-get install nodejs npm")
	add("node")
	w.stage(req, log)
}
