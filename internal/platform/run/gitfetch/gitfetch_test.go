package gitfetch_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/base/safedial"
	"ingot/internal/platform"
	"ingot/internal/platform/run/gitfetch"
	"ingot/internal/platform/run/gitfetch/gitfetchtest"
)

func client(t *testing.T, change func(*gitfetch.Config)) *gitfetch.Client {
	t.Helper()
	c := gitfetch.Config{Guard: safedial.Everywhere, Scratch: t.TempDir()}
	if change != nil {
		change(&c)
	}
	return gitfetch.New(c)
}

// files fetches and returns the paths of the files.
func files(t *testing.T, c *gitfetch.Client, src *platform.GitSource) (commit, paths string, err error) {
	t.Helper()
	got, err := c.Fetch(t.Context(), src, "")
	if err != nil {
		return "", "", err
	}
	defer got.Objects.Close()
	s, err := got.Objects.Snapshot(got.Commit)
	if err != nil {
		return "", "", err
	}
	var all []string
	for _, f := range s.Files {
		all = append(all, f.Path)
	}
	return got.Commit.String(), strings.Join(all, " "), nil
}

// TestFetch fetches branches and tags from git itself.
func TestFetch(t *testing.T) {
	t.Parallel()
	r := gitfetchtest.New(t)
	first := r.Commit("index.html", strings.Repeat("x", 1<<20))
	r.Git("tag", "-a", "-m", "one", "v1")
	r.Git("checkout", "-q", "-b", "other")
	second := r.Commit("lib/a", "y")
	r.Git("checkout", "-q", "main")
	server := httptest.NewServer(r)
	defer server.Close()
	c := client(t, nil)
	for branch, want := range map[string][2]string{
		"": {first, "index.html"}, "main": {first, "index.html"}, "other": {second, "index.html lib lib/a"},
		"v1": {first, "index.html"},
	} {
		commit, paths, err := files(t, c, &platform.GitSource{URL: server.URL + "/shop/.git", Branch: branch})
		if err != nil || commit != want[0] || paths != want[1] {
			t.Errorf("%q: %s %q %v, want %v", branch, commit, paths, err, want)
		}
	}
	got, err := c.Fetch(t.Context(), &platform.GitSource{URL: server.URL + "/shop/.git"}, first)
	if got != nil || err != nil {
		t.Errorf("a known commit: %v %v, want nothing", got, err)
	}
	_, err = c.Fetch(t.Context(), &platform.GitSource{URL: server.URL + "/shop/.git", Branch: "mai"}, "")
	if err == nil || !strings.Contains(err.Error(), "has no branch or tag mai") {
		t.Errorf("a branch that does not exist: %v", err)
	}
	small := client(t, func(c *gitfetch.Config) { c.MaxBytes = 1 << 20 })
	if _, _, err = files(t, small, &platform.GitSource{URL: server.URL + "/shop/.git"}); !fault.Is(err, fault.TooLarge) {
		t.Errorf("a commit over the limit: %v", err)
	}
}

// TestCredentials sends them to the host of the source only.
func TestCredentials(t *testing.T) {
	t.Parallel()
	r := gitfetchtest.New(t)
	r.Commit("a", "b")
	elsewhere := make(chan string, 10)
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		elsewhere <- req.Header.Get("Authorization")
		r.ServeHTTP(w, req)
	}))
	defer other.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		user, password, _ := req.BasicAuth()
		switch {
		case user != "bot" || password != "s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		case strings.HasPrefix(req.URL.Path, "/away/"):
			http.Redirect(w, req, other.URL+strings.TrimPrefix(req.URL.Path, "/away")+"?"+req.URL.RawQuery, http.StatusFound)
		case strings.HasPrefix(req.URL.Path, "/old/"):
			http.Redirect(w, req, strings.Replace(req.URL.Path, "/old/", "/shop/", 1)+"?"+req.URL.RawQuery,
				http.StatusMovedPermanently)
		default:
			r.ServeHTTP(w, req)
		}
	}))
	defer server.Close()
	c := client(t, nil)
	for path, want := range map[string]string{"/shop/.git": "", "/old/.git": "", "/away/shop/.git": ""} {
		src := &platform.GitSource{URL: server.URL + path, Username: "bot", Password: "s3cret"}
		if _, paths, err := files(t, c, src); err != nil || paths != "a" {
			t.Errorf("%s: %q %v, want a%s", path, paths, err, want)
		}
	}
	close(elsewhere)
	n := 0
	for sent := range elsewhere {
		if n++; sent != "" {
			t.Errorf("another host gets %q", sent)
		}
	}
	if n != 3 {
		t.Errorf("the other host got %d requests, want 3", n)
	}
	for password, want := range map[string]string{"": "requires a user name and a token", "hunter2": "refuses the user"} {
		_, err := c.Fetch(t.Context(), &platform.GitSource{URL: server.URL + "/shop/.git", Username: "bot",
			Password: password}, "")
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("password %q: %v, want %s", password, err, want)
		}
	}
}

// advert is a valid advertisement.
const advert = "001e# service=git-upload-pack\n0000000eversion 2\n0000"

// TestHostile fetches from servers that misbehave; no error has what they send.
func TestHostile(t *testing.T) {
	t.Parallel()
	const hash = "1111111111111111111111111111111111111111"
	serve := func(kind, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-git-upload-pack-"+kind)
			_, _ = w.Write([]byte(text))
		}
	}
	redirect := func(to string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
		}
	}
	const info = "/info/refs?service=git-upload-pack"
	refs := serve("result", "0032"+hash+" HEAD\n0000")
	page := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }
	const old = "001e# service=git-upload-pack\n0000003f" + hash + " HEAD\x00side-band-64k\n0000"
	endless := "000eversion 2\n" + strings.Repeat("0009evil\n", 200_000)
	for name, c := range map[string]struct {
		get, refs, pack http.HandlerFunc
		want            string
	}{
		"html":             {get: page, want: "not that of a git repository"},
		"404":              {get: http.NotFound, want: "no such repository"},
		"503":              {get: status(http.StatusServiceUnavailable), want: "cannot answer"},
		"418":              {get: status(http.StatusTeapot), want: "status 418"},
		"not HTTP":         {get: notHTTP, want: "cannot be read"},
		"version 0":        {get: serve("advertisement", old), want: "version 2"},
		"sha256":           {get: serve("advertisement", "000eversion 2\n0018object-format=sha256\n0000"), want: "sha1"},
		"endless refs":     {get: serve("advertisement", endless), want: "more than"},
		"bad length":       {get: serve("advertisement", "zzzz"), want: "protocol"},
		"ends early":       {get: serve("advertisement", "00ffversion 2\n"), want: "protocol"},
		"nothing":          {get: serve("advertisement", ""), want: "not that of a git repository"},
		"loop":             {get: redirect(info), want: "redirects more than"},
		"to a file":        {get: redirect("file:///etc/passwd" + info), want: "something else"},
		"to a page":        {get: redirect("/login"), want: "something else"},
		"with credentials": {get: redirect("http://a:b@127.0.0.1:1" + info), want: "something else"},
		"to metadata":      {get: redirect("http://169.254.169.254" + info), want: "private network"},
		"no refs":          {refs: serve("result", "0000"), want: "is empty"},
		"error line":       {refs: serve("result", "0010ERR evil xx\n0000"), want: "protocol"},
		"post redirect":    {refs: redirect("/x"), want: "status 302"},
		"no pack":          {pack: serve("result", "0000"), want: "protocol"},
		"error band":       {pack: serve("result", "000dpackfile\n0009\x03evil0000"), want: "protocol"},
		"no PACK":          {pack: serve("result", "000dpackfile\n0015\x01evilevilevil40000"+"0000"), want: "not a git pack"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := make([]byte, 30)
				_, _ = r.Body.Read(body)
				switch h := c.get; {
				case r.Method == http.MethodGet && h != nil:
					h(w, r)
				case r.Method == http.MethodGet:
					serve("advertisement", advert)(w, r)
				case strings.Contains(string(body), "ls-refs") && c.refs != nil:
					c.refs(w, r)
				case strings.Contains(string(body), "ls-refs"):
					refs(w, r)
				default:
					c.pack(w, r)
				}
			}))
			defer server.Close()
			u, _ := url.Parse(server.URL)
			guard, err := safedial.ParseGuard(u.Hostname() + "/32")
			if err != nil {
				t.Fatal(err)
			}
			_, err = client(t, func(c *gitfetch.Config) { c.Guard = guard }).Fetch(t.Context(),
				&platform.GitSource{URL: server.URL + "/shop"}, "")
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "evil") {
				t.Errorf("%v, want %s", err, c.want)
			}
		})
	}
}

// TestAddresses are refused before a connection.
func TestAddresses(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	for _, c := range []struct{ guard, address, want string }{
		{"", "http://127.0.0.1:1/a", "private network"},
		{"", "https://127.0.0.1:1/a", "private network"},
		{"", "https://localhost:1/a", "private network"},
		{"", "https://[::1]:1/a", "private network"},
		{"", "https://169.254.169.254/a", "private network"},
		{"", "http://93.184.215.14/a", "without TLS"},
		{"10.0.0.0/8", "http://93.184.215.14/a", "without TLS"},
		{"all", "http://127.0.0.1:1/a", "cannot be reached"},
		{"all", server.URL, "certificate"},
	} {
		guard, err := safedial.ParseGuard(c.guard)
		if err != nil {
			t.Fatal(err)
		}
		_, err = client(t, func(o *gitfetch.Config) { o.Guard = guard }).Fetch(t.Context(),
			&platform.GitSource{URL: c.address}, "")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want %s", c.address, c.guard, err, c.want)
		}
	}
}

// status answers with a status and nothing else.
func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// notHTTP answers with something else than HTTP.
func notHTTP(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = conn.Write([]byte("garbage\r\n\r\n"))
	_ = conn.Close()
}
