package main

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func site(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if to, link := strings.CutPrefix(text, "->"); link {
			if err := os.Symlink(to, path); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func handler(t *testing.T, files map[string]string) *server {
	t.Helper()
	dir := site(t, files)
	auth := ""
	if files["Staticfile.auth"] != "" {
		auth = filepath.Join(dir, "Staticfile.auth")
	}
	c, err := readConfig(filepath.Join(dir, "Staticfile"), auth)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newServer(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.root.Close() })
	return s
}

var pages = map[string]string{
	"index.html": "home", "a.txt": "text", "sub/index.html": "sub", "empty/x.css": "body{}", "404.html": "lost",
	".git/config": "secret", ".env": "secret", "sub/.hidden": "secret", ".well-known/x.txt": "known", "Staticfile": "",
	"Procfile": "web: x",
	"out":      "->/etc/hostname", "in.txt": "->a.txt", "up": "->..",
}

func merged(more map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range []map[string]string{pages, more} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

func TestServer(t *testing.T) {
	t.Parallel()
	type want struct {
		status int
		body   string
		header string // "Name: value"
	}
	type request struct {
		path   string
		method string
		header string
		want   want
	}
	for name, test := range map[string]struct {
		staticfile string
		auth       string
		requests   []request
	}{
		"plain": {"", "", []request{
			{"/", "", "", want{200, "home", "Content-Type: text/html; charset=utf-8"}},
			{"/index.html", "", "", want{200, "home", "X-Content-Type-Options: nosniff"}},
			{"/a.txt", "", "", want{200, "text", ""}},
			{"/a.txt", "HEAD", "", want{200, "", "Content-Length: 4"}},
			{"/a.txt", "", "Range: bytes=1-2", want{206, "ex", ""}},
			{"/a.txt", "POST", "", want{405, "", "Allow: GET, HEAD"}},
			{"/a.txt/", "", "", want{404, "", ""}},
			{"/sub", "", "", want{301, "", "Location: sub/"}},
			{"/sub/", "", "", want{200, "sub", ""}},
			{"/empty/", "", "", want{403, "", ""}},
			{"/nothing", "", "", want{404, "Not Found", ""}},
			{"/.env", "", "", want{404, "", ""}},
			{"/.git/config", "", "", want{404, "", ""}},
			{"/sub/.hidden", "", "", want{404, "", ""}},
			{"/.well-known/x.txt", "", "", want{200, "known", ""}},
			{"/Staticfile", "", "", want{404, "", ""}},
			{"/Procfile", "", "", want{404, "", ""}},
			{"/in.txt", "", "", want{200, "text", ""}},
			{"/out", "", "", want{404, "", ""}},
			{"/up/", "", "", want{404, "", ""}},
			{"/../../etc/passwd", "", "", want{404, "", ""}},
			{"/%2e%2e/%2e%2e/etc/passwd", "", "", want{404, "", ""}},
			{"/a%00.txt", "", "", want{404, "", ""}},
		}},
		"pages": {"status_codes:\n  404: /404.html\n", "", []request{
			{"/nothing", "", "", want{404, "lost", ""}},
		}},
		"pushstate": {"pushstate: enabled\n", "", []request{
			{"/some/page", "", "", want{200, "home", ""}},
			{"/empty/", "", "", want{200, "home", ""}},
			{"/nothing.js", "", "", want{404, "", ""}},
			{"/a.txt", "", "", want{200, "text", ""}},
		}},
		"directory": {"directory: visible\n", "", []request{
			{"/empty/", "", "", want{200, `<a href="./x.css">x.css</a>`, ""}},
			{"/", "", "", want{200, "home", ""}},
		}},
		"dot files": {"host_dot_files: true\n", "", []request{
			{"/.env", "", "", want{200, "secret", ""}},
			{"/.git/config", "", "", want{404, "", ""}},
		}},
		"root": {"root: sub\n", "", []request{
			{"/", "", "", want{200, "sub", ""}},
			{"/a.txt", "", "", want{404, "", ""}},
		}},
		"https": {"force_https: true\nhttp_strict_transport_security: " +
			"true\nhttp_strict_transport_security_include_subdomains: true\n", "", []request{
			{"/a.txt?x=1", "", "X-Forwarded-Proto: http", want{301, "", "Location: https://example.com/a.txt?x=1"}},
			{"/a.txt", "", "X-Forwarded-Proto: https",
				want{200, "text", "Strict-Transport-Security: max-age=31536000; includeSubDomains"}},
			{"/a.txt", "", "", want{200, "text", ""}},
		}},
		"auth": {"", "bob:$apr1$DuUQEQp8$ZccZCHQElNSjrgerwSFC0\nann:{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=\n", []request{
			{"/a.txt", "", "", want{401, "", `WWW-Authenticate: Basic realm="Restricted", charset="UTF-8"`}},
			{"/a.txt", "", "Authorization: Basic YW5uOmhlbGxv", want{200, "text", ""}}, // ann:hello
			{"/a.txt", "", "Authorization: Basic YW5uOmhlbGxv", want{200, "text", ""}},
			{"/a.txt", "", "Authorization: Basic YW5uOmhlbGxp", want{401, "", ""}},
			{"/a.txt", "", "Authorization: Basic ZXZlOmhlbGxv", want{401, "", ""}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := merged(map[string]string{"Staticfile": test.staticfile})
			if test.auth != "" {
				files["Staticfile.auth"] = test.auth
			}
			s := handler(t, files)
			for _, q := range test.requests {
				method := q.method
				if method == "" {
					method = http.MethodGet
				}
				r := httptest.NewRequest(method, q.path, nil)
				if k, v, ok := strings.Cut(q.header, ": "); ok {
					r.Header.Set(k, v)
				}
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				k, v, _ := strings.Cut(q.want.header, ": ")
				if w.Code != q.want.status || !strings.Contains(w.Body.String(), q.want.body) || w.Header().Get(k) != v && k != "" {
					t.Errorf("%s %s %s: %d %q %v, want %+v", method, q.path, q.header, w.Code, w.Body, w.Header(), q.want)
				}
				if strings.Contains(w.Body.String(), "secret") && name != "dot files" {
					t.Errorf("%s: a secret is served", q.path)
				}
			}
		})
	}
}

func TestCompression(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("hello ", 1000)
	s := handler(t, map[string]string{"a.css": text, "a.png": text, "Staticfile": ""})
	get := func(path string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w
	}
	w := get("/a.css", "Accept-Encoding", "br, gzip")
	z, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(z); err != nil || string(b) != text || w.Header().Get("Content-Encoding") != "gzip" ||
		w.Header().Get("Vary") == "" {
		t.Errorf("gzip answer: error %v, header %v, want the text with Content-Encoding gzip and Vary", err, w.Header())
	}
	if again := get("/a.css", "Accept-Encoding", "gzip", "If-None-Match",
		w.Header().Get("ETag")); again.Code != http.StatusNotModified {
		t.Errorf("again: %d", again.Code)
	}
	for _, w := range []*httptest.ResponseRecorder{get("/a.css"), get("/a.css", "Accept-Encoding", "gzip;q=0"),
		get("/a.png", "Accept-Encoding", "gzip")} {
		if w.Header().Get("Content-Encoding") != "" || w.Body.String() != text {
			t.Errorf("header is %v, want the plain text without Content-Encoding", w.Header())
		}
	}
}

func TestPasswords(t *testing.T) {
	t.Parallel()
	for hash, password := range map[string]string{
		"$apr1$r31.....$HqJZimcKQFAMYayBlzkrA/":                        "myPassword",
		"{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE=":                            "myPassword",
		"$2y$05$c4WoMPo3SXsafkva.HHa6uXQZWr7oboPiC2bT/r7q1BB8I2s0BRqC": "myPassword",
	} {
		if !passwordMatches(hash, password) || passwordMatches(hash, password+"x") || passwordMatches(hash, "") {
			t.Errorf("hash %s does not match %q alone", hash, password)
		}
	}
	if passwordMatches("plain", "plain") {
		t.Error("an unknown hash matches")
	}
}

func TestConfigProblems(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ staticfile, auth, want string }{
		"root":     {"root: ../x\n", "", "outside of the application"},
		"flag":     {"pushstate: perhaps\n", "", "neither enabled nor disabled"},
		"code":     {"status_codes: {200: /x}\n", "", "no status of an error"},
		"auth":     {"", "bob\n", "is not NAME:HASH"},
		"hash":     {"", "bob:plain\n", "htpasswd -B"},
		"no users": {"", "# none\n", "no users"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := site(t, map[string]string{"Staticfile": test.staticfile, "auth": test.auth})
			auth := ""
			if test.auth != "" {
				auth = filepath.Join(dir, "auth")
			}
			if _, err := readConfig(filepath.Join(dir, "Staticfile"), auth); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
	c, err := readConfig(filepath.Join(site(t, map[string]string{"Staticfile": "ssi: enabled\nlocation_include: x\n"}),
		"Staticfile"), "")
	if err != nil || strings.Count(c.summary(), "WARNING") != 2 {
		t.Errorf("summary is %q, %v, want 2 warnings", c.summary(), err)
	}
}

func TestServeEnds(t *testing.T) {
	t.Parallel()
	s := handler(t, map[string]string{"index.html": "home"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l, s) }()
	res, err := (&http.Client{}).Get("http://" + l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
