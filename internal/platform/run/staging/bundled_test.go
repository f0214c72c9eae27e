package staging_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/run/staging"
	"ingot/internal/platform/run/staging/buildpacks"
	"ingot/internal/platform/storage/archive"
)

func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath("/usr/bin/" + p); err != nil {
			t.Skip("not installed: " + p)
		}
	}
}

func TestBundledContent(t *testing.T) {
	t.Parallel()
	var names []string
	for _, b := range buildpacks.Bundled() {
		names = append(names, strings.TrimSuffix(b.Name, "_buildpack"))
		r, err := b.Open()
		if err != nil {
			t.Fatal(err)
		}
		programs := map[string]bool{}
		_, err = archive.WalkTar(r, archive.Limits{}, func(e archive.Entry, _ io.Reader) error {
			programs[e.Path] = e.Mode&0o111 != 0
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []string{"bin/detect", "bin/supply", "bin/finalize"} {
			if !programs[p] {
				t.Errorf("%s: %s is no program", b.Name, p)
			}
		}
		if _, ok := programs["lib/common.sh"]; !ok || b.Key == "" {
			t.Errorf("%s has no library or no key", b.Name)
		}
	}
	if got, want := strings.Join(names, " "), "staticfile java ruby nodejs go python php nginx binary"; got != want {
		t.Errorf("order %q, want %q", got, want)
	}
}

// The reference has a section for each, and for no other.
func TestReference(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "buildpacks.md"))
	if err != nil {
		t.Fatal(err)
	}
	var want, table []string
	for _, b := range buildpacks.Bundled() {
		want = append(want, "## "+b.Name)
		table = append(table, "| ["+b.Name+"](#"+b.Name+") |")
	}
	var got, rows []string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "## ") && strings.HasSuffix(line, "_buildpack") {
			got = append(got, line)
		}
		if row, _, ok := strings.Cut(line, ") |"); ok && strings.HasPrefix(row, "| [") {
			rows = append(rows, row+") |")
		}
	}
	if !slices.Equal(got, want) || !slices.Equal(rows, table) {
		t.Errorf("sections %q, rows %q, want %q", got, rows, want)
	}
}

const goApp = `package main

import (
	"fmt"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, greeting()) })
	if err := http.ListenAndServe("127.0.0.1:"+os.Getenv("PORT"), nil); err != nil {
		panic(err)
	}
}
`

// goCache lets the compiler of a build use what is compiled already on this
// machine: the standard library takes it a minute.
func goCache(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{"GOCACHE": strings.TrimSpace(string(out))}
}

func TestGo(t *testing.T) {
	t.Parallel()
	for name, app := range map[string]map[string]string{
		"standard library": {"go.mod": "module example.com/shop\n\ngo 1.18\n", "main.go": goApp,
			"text.go": "package main\n\nfunc greeting() string { return \"hello from go\" }\n"},
		"vendored": {
			"go.mod":                            "module example.com/shop\n\ngo 1.18\n\nrequire example.org/words v1.0.0\n",
			"go.sum":                            "",
			"vendor/modules.txt":                "# example.org/words v1.0.0\n## explicit; go 1.18\nexample.org/words\n",
			"vendor/example.org/words/words.go": "package words\n\nconst Hello = \"hello from go\"\n",
			"cmd/shop/main.go":                  goApp,
			"cmd/shop/text.go": "package main\n\nimport \"example.org/words\"\n\nfunc greeting() string { " +
				"return words.Hello }\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := os.Stat("/usr/local/go/bin/go"); err != nil {
				needs(t, "go")
			}
			w := newWorld(t, nil)
			req, log := w.request(app)
			req.App.Env = goCache(t)
			result := w.stage(req, log)
			if got := result.ProcessTypes["web"]; got != "./bin/shop" {
				t.Errorf("web is %q", got)
			}
			if b := result.Buildpacks; len(b) != 1 || b[0].Name != "go_buildpack" || b[0].BuildpackName != "go" ||
				b[0].Version != buildpacks.Version || b[0].DetectOutput == "" {
				t.Errorf("buildpacks %+v", b)
			}
			w.launch(result).get("/", "hello from go")

			if name != "vendored" {
				return
			}
			// What was kept is there the next time.
			req.BuildGUID = "again"
			if _, err := w.Stage(context.Background(), req); err != nil {
				t.Fatal(err)
			}
			if log.count("Using the build artifacts cache") != 1 {
				t.Errorf("the cache was not used:\n%s", log)
			}
		})
	}
	t.Run("several programs", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		main := "package main\n\nfunc main() {}\n"
		req, log := w.request(map[string]string{"go.mod": "module a\n\ngo 1.18\n", "cmd/x/main.go": main,
			"cmd/y/main.go": main})
		w.fails(req, log, "BuildpackCompileFailed - App staging failed in the buildpack finalize phase",
			"GO_INSTALL_PACKAGE_SPEC")
		req.App.Env = goCache(t)
		req.App.Env["GO_INSTALL_PACKAGE_SPEC"] = "./cmd/y"
		if got := w.stage(req, log).ProcessTypes["web"]; got != "./bin/y" {
			t.Errorf("web is %q", got)
		}
	})
	t.Run("missing modules", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(map[string]string{
			"go.mod":  "module a\n\ngo 1.18\n\nrequire example.org/nowhere v1.0.0\n",
			"main.go": "package main\n\nimport _ \"example.org/nowhere\"\n\nfunc main() {}\n",
		})
		req.App.Env = map[string]string{"GOPROXY": "off"}
		w.fails(req, log, "finalize phase", "go mod vendor")
	})
}

// fails stages, and expects it not to work: texts of the error and of the log.
func (w *world) fails(req staging.Request, log *lines, want string, inLog ...string) {
	w.t.Helper()
	_, err := w.Stage(context.Background(), req)
	var f *staging.Failure
	if !errors.As(err, &f) || !strings.Contains(err.Error(), want) {
		w.t.Fatalf("error %v, want %q\n%s", err, want, log)
	}
	for _, text := range inLog {
		if !strings.Contains(log.String(), text) {
			w.t.Errorf("no %q in the log:\n%s", text, log)
		}
	}
	w.nothingLeft()
}

func TestNode(t *testing.T) {
	t.Parallel()
	needs(t, "node")
	server := `require("http").createServer((q, s) => s.end("hello from " + process.env.NODE_ENV)).listen(process.env.PORT, "127.0.0.1")`
	for name, test := range map[string]struct {
		app  map[string]string
		want string
	}{
		"start script": {map[string]string{"package.json": `{"name":"a","scripts":{"start":"node web.js"}}`,
			"web.js": server}, "node web.js"},
		"server.js": {map[string]string{"package.json": `{"name":"a"}`, "server.js": server}, "node server.js"},
		"vendored": {map[string]string{
			"package.json": `{"name":"a","dependencies":{"x":"1"},"scripts":{"prestart":"true","start":"node server.js"}}`,
			"server.js":    `require("x");` + server, "node_modules/x/index.js": "",
		}, "npm start"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			req, log := w.request(test.app)
			result := w.stage(req, log)
			if got := result.ProcessTypes["web"]; got != test.want {
				t.Fatalf("web is %q, want %q", got, test.want)
			}
			w.launch(result).get("/", "hello from production")
		})
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	needs(t, "python3")
	server := `import http.server, os
import words
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(words.hello.encode())
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), H).serve_forever()
`
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(map[string]string{"app.py": server, "words.py": "hello = 'hello from python'\n",
			"requirements.txt": "# none\n"})
		result := w.stage(req, log)
		if got := result.ProcessTypes["web"]; got != "python3 app.py" {
			t.Fatalf("web is %q", got)
		}
		w.launch(result).get("/", "hello from python")
	})
	t.Run("vendored wheel", func(t *testing.T) {
		t.Parallel()
		needs(t, "pip3")
		w := newWorld(t, nil)
		req, log := w.request(map[string]string{
			"web.py": server, "Procfile": "web: python web.py\n", "requirements.txt": "words==1.0\n",
			"vendor/words-1.0-py3-none-any.whl": string(makeZip(t, map[string]string{
				"words.py":                     "hello = 'hello from a wheel'\n",
				"words-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: words\nVersion: 1.0\n",
				"words-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
				"words-1.0.dist-info/RECORD":   "",
			})),
		})
		result := w.stage(req, log)
		w.launch(result).get("/", "hello from a wheel")
	})
	t.Run("missing package", func(t *testing.T) {
		t.Parallel()
		needs(t, "pip3")
		w := newWorld(t, nil)
		req, log := w.request(map[string]string{"app.py": server, "requirements.txt": "words==1.0\n", "vendor/.keep": ""})
		w.fails(req, log, "finalize phase", "pip download -d vendor")
	})
}

func TestStatic(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{
		"Staticfile": "root: site\npushstate: enabled\n", "site/index.html": "hello, static", "site/.secret": "no",
		"package.json": "{}",
	})
	result := w.stage(req, log)
	if result.DetectedBuildpack != "staticfile "+buildpacks.Version {
		t.Errorf("detected %q", result.DetectedBuildpack)
	}
	app := w.launch(result)
	app.get("/", "hello, static")
	app.get("/some/page", "hello, static")
	app.get("/.secret", "Not Found")

	bad := newWorld(t, nil)
	req, log = bad.request(map[string]string{"Staticfile": "root: ../..\n"})
	bad.fails(req, log, "finalize phase", "outside of the application")
}

const javaApp = `package shop;
import com.sun.net.httpserver.*;
import java.net.*;
public class Main {
  public static void main(String[] args) throws Exception {
    HttpServer s = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(System.getenv("PORT"))), 0);
    s.createContext("/", x -> {
      byte[] b = ("hello from java " + (Runtime.getRuntime().maxMemory() >> 20) + " " + System.getProperty("a")).getBytes();
      x.sendResponseHeaders(200, b.length); x.getResponseBody().write(b); x.close();
    });
    s.start();
  }
}
`

func TestJava(t *testing.T) {
	t.Parallel()
	needs(t, "java", "javac")
	t.Run("sources", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(map[string]string{"shop/Main.java": javaApp, "README.java": ""})
		result := w.stage(req, log)
		// The heap is what 512 MB leave, and JAVA_OPTS are words with quotes.
		w.launch(result, `JAVA_OPTS=-Da="b c"`).get("/", "hello from java 2")
		if got := result.ProcessTypes["web"]; !strings.Contains(got, "shop.Main") {
			t.Errorf("web is %q", got)
		}
	})

	// cf push -p app.jar uploads what is in the jar.
	dir := t.TempDir()
	source := filepath.Join(dir, "Main.java")
	if err := os.WriteFile(source, []byte(javaApp), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("/usr/bin/javac", "-d", dir, source).CombinedOutput(); err != nil {
		t.Fatalf("javac: %v: %s", err, out)
	}
	app := map[string]string{"META-INF/MANIFEST.MF": "Manifest-Version: 1.0\r\nMain-Class: shop\r\n .Main\r\n"}
	classes, err := filepath.Glob(filepath.Join(dir, "shop", "*.class"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range classes {
		b, err := os.ReadFile(c)
		if err != nil {
			t.Fatal(err)
		}
		app["shop/"+filepath.Base(c)] = string(b)
	}
	t.Run("unpacked jar", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(app)
		result := w.stage(req, log)
		w.launch(result, "JAVA_OPTS=-Xmx77m").get("/", "hello from java 7")
	})
	t.Run("jar", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(map[string]string{"app.jar": string(makeZip(t, app)), "lib.jar": string(makeZip(t, nil))})
		result := w.stage(req, log)
		if got := result.ProcessTypes["web"]; !strings.HasSuffix(got, "-jar app.jar") {
			t.Errorf("web is %q", got)
		}
	})
	t.Run("sidecar without memory", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		req, log := w.request(app)
		req.Sidecars = []platform.Sidecar{{Name: "good", ProcessTypes: []string{"web"}, MemoryMB: 64},
			{Name: "config-server", ProcessTypes: []string{"web"}}}
		w.fails(req, log, `The sidecar "config-server" of web has no memory`)
		req.Lifecycle.Buildpacks = []string{"java_buildpack"}
		w.fails(req, log, "Set `memory` of the sidecar")
		req.Sidecars = req.Sidecars[:1]
		w.stage(req, log)
	})
}

// What is not installed is said, with how to get it.
func TestMissingRuntime(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		app  map[string]string
		want string
	}{
		"ruby":   {map[string]string{"Gemfile": "", "config.ru": ""}, "apt-get install ruby-full bundler"},
		"php":    {map[string]string{"index.php": "<?php"}, "apt-get install php-cli"},
		"nodejs": {map[string]string{"package.json": "{}"}, "apt-get install nodejs npm"},
		"python": {map[string]string{"app.py": ""}, "apt-get install python3"},
		"java":   {map[string]string{"Main.java": ""}, "apt-get install default-jre-headless"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A machine with a shell and not much more.
			bin := t.TempDir()
			for _, p := range []string{"bash", "sh", "env", "dirname", "cat", "cp", "mkdir", "chmod", "grep", "sed",
				"sort", "head"} {
				if path, err := exec.LookPath(p); err == nil {
					if err := os.Symlink(path, filepath.Join(bin, p)); err != nil {
						t.Fatal(err)
					}
				}
			}
			w := newWorld(t, func(c *staging.Config) { c.Path = bin })
			req, log := w.request(test.app)
			w.fails(req, log, "supply phase", "is not installed on this machine", test.want)
		})
	}
}

func TestBinary(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	req, log := w.request(map[string]string{"run": "#!/bin/sh\n"})
	w.fails(req, log, "NoAppDetectedError - An app was not successfully detected by any available buildpack",
		"None of the buildpacks detected a compatible application")
	req.Lifecycle.Buildpacks = []string{"binary_buildpack"}
	if result := w.stage(req, log); len(result.ProcessTypes) != 0 {
		t.Errorf("process types %v", result.ProcessTypes)
	}
}

// As in a container, nothing but the home directory can be written to.
func TestUnprivileged(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can change its user")
	}
	needs(t, "python3", "node")
	for name, app := range map[string]map[string]string{
		"static": {"Staticfile": "", "index.html": ""},
		"node":   {"package.json": "{}", "server.js": ""},
		"python": {"app.py": "", "requirements.txt": ""},
		"java":   {"Main.java": "public class Main { public static void main(String[] a) {} }"},
		"go":     {"main.go": "package main\n\nfunc main() {}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *staging.Config) { c.User, c.Group = 2000, 2000 })
			req, log := w.request(app)
			if result := w.stage(req, log); result.ProcessTypes["web"] == "" {
				t.Errorf("nothing to run: %+v", result)
			}
		})
	}
}
