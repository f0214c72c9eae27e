package console

import (
	"compress/gzip"
	"html"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/handbook"
	"ingot/internal/console/pagetest"
)

var (
	reference = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	target    = regexp.MustCompile(`\bid="([^"]*)"`)
)

// crawler reads pages of the documentation, each once.
type crawler struct {
	*pagetest.World
	pages map[string][]string // the names of their elements
	links map[string][]string
}

// read requests a page, and notes its elements and links.
func (c *crawler) read(address string) bool {
	c.Helper()
	if _, known := c.pages[address]; known {
		return true
	}
	status, text := c.Get(address)
	c.pages[address] = nil
	if status != http.StatusOK {
		return false
	}
	for _, m := range target.FindAllStringSubmatch(text, -1) {
		c.pages[address] = append(c.pages[address], html.UnescapeString(m[1]))
	}
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		c.links[address] = append(c.links[address], html.UnescapeString(m[1]))
	}
	return true
}

// TestDocumentationLinks follows every link of the documentation: its page exists, and so does its heading.
// Every document can be reached.
func TestDocumentationLinks(t *testing.T) {
	t.Parallel()
	c := &crawler{pagetest.New(t, New), map[string][]string{}, map[string][]string{}}
	c.Cookie = "" // it needs no login
	wait, done := []string{"/docs"}, map[string]bool{}
	for len(wait) > 0 {
		at := wait[0]
		wait = wait[1:]
		if done[at] {
			continue
		}
		done[at] = true
		c.read(at)
		for _, link := range c.links[at] {
			file, fragment, _ := strings.Cut(link, "#")
			if strings.Contains(link, "://") || strings.HasPrefix(file, "/console") || file == "/docs/search" {
				continue
			}
			if file == "" {
				file = at
			}
			if !strings.HasPrefix(file, "/docs") {
				t.Errorf("%s links to %s", at, link)
				continue
			}
			if !c.read(file) {
				t.Errorf("%s links to %s, which does not exist", at, link)
			}
			if fragment != "" && !slices.Contains(c.pages[file], fragment) {
				t.Errorf("%s links to %s, whose heading does not exist", at, link)
			}
			wait = append(wait, file)
		}
	}
	for _, p := range handbook.All() {
		if c.pages["/docs/"+p.Name] == nil {
			t.Errorf("no link leads to %s", p.Name)
		}
	}
	if !done["/docs/images/console.png"] {
		t.Errorf("/docs/console has no picture: %q", c.links["/docs/console"])
	}
}

// TestDocumentationPages checks what all pages have in common.
func TestDocumentationPages(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	w.Cookie = ""
	for address, want := range map[string]struct {
		status int
		has    []string
	}{
		"/docs": {http.StatusOK, []string{"<h2 id=\"purpose-Start\">", `<a href="/docs/tour">Tour</a>`, "ten minutes."}},
		"/docs/tls": {http.StatusOK, []string{`<h2 id="certificates-from-files">`, `rel="prev"`, `rel="next"`,
			`<a href="#certificates-from-files">`, `class="quiet copy"`, `role="search" action="/docs/search"`}},
		"/docs/tls/":                                 {http.StatusOK, []string{"<h1"}},
		"/docs/tls.md":                               {http.StatusOK, []string{"<h1"}},
		"/docs/tutorials":                            {http.StatusOK, []string{`<a href="/docs/tutorials/node">Node.js</a>`}},
		"/docs/tutorials/node":                       {http.StatusOK, []string{"<h1"}},
		"/docs/search":                               {http.StatusOK, []string{"<h1>Search</h1>"}},
		"/docs/search?q=wildcard+certificate":        {http.StatusOK, []string{`href="/docs/tls#wildcard-certificates"`, "<mark>certificate"}},
		"/docs/search?q=%3Cscript%3Exyzzyx":          {http.StatusOK, []string{`value="&lt;script&gt;xyzzyx"`, "No document has all"}},
		"/docs/search?q=a+b+c+d+e+f+g+h+i":           {http.StatusBadRequest, []string{"at most 8 different words"}},
		"/docs/search?q=" + strings.Repeat("a", 201): {http.StatusBadRequest, []string{"at most 200 characters"}},
		"/docs/none<b>":                              {http.StatusNotFound, []string{"There is no document none&lt;b&gt;", `role="alert"`}},
		"/docs/../go.mod":                            {http.StatusNotFound, nil},
		"/docs/images/none.png":                      {http.StatusNotFound, []string{"There is no picture none.png"}},
	} {
		status, text := w.Get(strings.ReplaceAll(strings.ReplaceAll(address, "<", "%3C"), ">", "%3E"))
		if status != want.status {
			t.Errorf("%s: %d, want %d\n%s", address, status, want.status, text)
		}
		for _, has := range want.has {
			if !strings.Contains(text, has) {
				t.Errorf("%s lacks %s\n%s", address, has, text)
			}
		}
	}
	if _, text := w.Get("/docs"); strings.Contains(text, `<script>`) || strings.Contains(text, "style=") {
		t.Errorf("inline code in %s", text)
	}
}

// TestDocumentationIsCached checks the headers of a page, and that a client which has it gets no body.
func TestDocumentationIsCached(t *testing.T) {
	t.Parallel()
	w := pagetest.New(t, New)
	ask := func(headers map[string]string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.Server.URL+"/docs/tls", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		for name, value := range headers {
			req.Header.Set(name, value)
		}
		resp, err := (&http.Transport{DisableKeepAlives: true, DisableCompression: true}).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body := io.Reader(resp.Body)
		if resp.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(resp.Body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(text)
	}
	plain, text := ask(nil)
	zipped, same := ask(map[string]string{"Accept-Encoding": "gzip"})
	if text != same || !strings.Contains(text, "</html>") || zipped.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("the compressed page differs: %d and %d bytes", len(text), len(same))
	}
	policy := plain.Header.Get("Content-Security-Policy")
	for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'"} {
		if !strings.Contains(policy, want) {
			t.Errorf("the policy is %s", policy)
		}
	}
	tag := plain.Header.Get("ETag")
	resp, body := ask(map[string]string{"If-None-Match": tag})
	if tag == "" || resp.StatusCode != http.StatusNotModified || body != "" {
		t.Errorf("with the tag %s: %s %q", tag, resp.Status, body)
	}
}

var chapterLink = regexp.MustCompile(`<a class="chapter" href="/docs/([^"]*)">Docs</a>`)

// TestChapters checks that each page of the navigation, and those of an app, lead to a document, and that all
// documents which pages lead to exist.
func TestChapters(t *testing.T) {
	t.Parallel()
	exists := func(chapter string) bool {
		name, fragment, _ := strings.Cut(chapter, "#")
		p := handbook.Find(name)
		if p == nil || fragment == "" {
			return p != nil
		}
		_, headings := p.HTML()
		return slices.ContainsFunc(headings, func(h handbook.Heading) bool { return h.Anchor == fragment })
	}
	for template, chapter := range chapters {
		if !exists(chapter) {
			t.Errorf("the chapter %s of %s does not exist: change it in chapters", chapter, template)
		}
	}
	w := appWorld(t, "RUNNING", 600, time.Now(), "STAGED")
	w.Session.Scopes = append(w.Session.Scopes, "scim.read", "clients.read", "notifications.manage")
	w.Login()
	pages := []string{"/console/apps/a", "/console/apps/a/deployments", "/console/nonsense", "/console/search"}
	for _, s := range sections {
		pages = append(pages, s.Link)
	}
	for _, address := range pages {
		_, text := w.Get(address)
		if m := chapterLink.FindStringSubmatch(text); len(m) != 2 || !exists(html.UnescapeString(m[1])) {
			t.Errorf("%s leads to no document: %q\n%s", address, m, text)
		}
	}
}
