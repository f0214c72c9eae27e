package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Not parallel: it sets variables.
func TestNginxConf(t *testing.T) {
	t.Setenv("PORT", "61234")
	t.Setenv("GREETING", `say "hello"; now`)
	dir, modules := t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	run := func() error {
		return nginxConf([]string{"-modules", filepath.Join(dir, "modules") + ":" + modules, "-temp", "/tmp/x",
			filepath.Join(dir, "nginx.conf")})
	}
	if err := os.WriteFile(filepath.Join(modules, "ngx_x.so"), nil, 0o644); err != nil {
		t.Fatal(err)
	}

	// Directives that the file has are not added again, at the level where they
	// apply.
	write("nginx.conf", `
# daemon on; is only a comment { here
{{module "ngx_x"}}
error_log stderr;
events { worker_connections 64; }
http {
  log_format main "a { b; }";
  include sites/*.conf;
  map $x $y { default "${x}{"; }
  server { listen 1; location / { access_log off; } include deep.conf; }
}
`)
	write("sites/a.conf", `server { listen {{port}}; return 200 '{{env "GREETING"}}'; } client_body_temp_path /mine; `)
	write("deep.conf", `set $p {{port}};`)
	if err := run(); err != nil {
		t.Fatal(err)
	}
	got := read("nginx.conf")
	for _, want := range []string{
		"daemon off;\n", "pid /tmp/x/nginx.pid;\n", "load_module " + filepath.Join(modules, "ngx_x.so") + ";",
		"http { access_log /dev/stdout; proxy_temp_path /tmp/x/proxy; fastcgi_temp_path /tmp/x/fastcgi; uwsgi_temp_path " +
			"/tmp/x/uwsgi; scgi_temp_path /tmp/x/scgi;\n  log_format",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	if strings.Count(got, "error_log") != 1 || strings.Contains(got, "client_body_temp_path") {
		t.Errorf("said twice:\n%s", got)
	}
	if got := read("sites/a.conf"); !strings.Contains(got, "listen 61234;") ||
		!strings.Contains(got, `'say "hello"; now'`) {
		t.Errorf("included: %s", got)
	}
	if got := read("deep.conf"); got != "set $p 61234;" {
		t.Errorf("included in a server: %s", got)
	}

	for text, want := range map[string]string{
		"http { server { listen 8080; } }":             "no {{port}}",
		"http { server { listen {{port}}; }":           "", // left to nginx to report
		"http { server { listen {{.Port}}; } }":        "",
		"{{module \"nope\"}} listen {{port}};":         "there is no module nope.so",
		"{{module \"../../etc/x\"}} listen {{port}};":  "is no name of a module",
		"listen {{prot}};":                             `function "prot" not defined`,
		"listen {{port}}; resolver {{nameservers}};":   "",
		"http { server { listen {{port}}; set $a \"; ": "",
	} {
		write("nginx.conf", text)
		err := run()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
