package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"io/fs"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"ingot/internal/base/fault"
	"ingot/internal/base/look"
	"ingot/internal/base/version"
	"ingot/internal/base/web"
)

// Files are the embedded files of a part: templates in pages, style sheets and scripts in assets.
type Files struct {
	FS        embed.FS
	Functions template.FuncMap // that only its templates use
}

//go:embed pages/*.html assets/*
var files embed.FS

// Templates are the templates of all parts, and the files that they refer to.
type Templates struct {
	t      *template.Template
	assets map[string]asset
}

type asset struct {
	hash  string
	plain []byte
	zip   func() []byte // plain, compressed when it is asked for
}

// Load reads the files of parts. It panics if they cannot be read: they are embedded.
func Load(parts ...Files) *Templates {
	t := &Templates{assets: map[string]asset{}}
	parts = append([]Files{{FS: files, Functions: t.functions()}}, parts...)
	// What all pages of Ingot share comes first.
	content := map[string]string{"console.css": look.CSS, "console.js": look.Times, "mark.svg": look.Mark}
	t.t = template.New("")
	for _, p := range parts {
		for _, name := range must(fs.Glob(p.FS, "assets/*")) {
			content[path.Base(name)] += string(must(p.FS.ReadFile(name)))
		}
		must(t.t.Funcs(p.Functions).ParseFS(p.FS, "pages/*.html"))
	}
	for name, text := range content {
		b := []byte(text)
		sum := sha256.Sum256(b)
		t.assets[name] = asset{hash: hex.EncodeToString(sum[:6]), plain: b,
			zip: sync.OnceValue(func() []byte { return zipped(b) })}
	}
	return t
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// policy is the content security policy: no inline code, no other origin, nothing that a page
// does not need. Logging out leads to the authorization server.
func (c *Console) policy() string {
	forms := "'self'"
	if u, err := url.Parse(c.Options.AuthURL); err == nil && u.Host != "" {
		forms += " " + u.Scheme + "://" + u.Host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
		"frame-src 'self'; " +
		"form-action " + forms + "; frame-ancestors 'none'; base-uri 'none'"
}

func zipped(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(b) // to memory
	_ = w.Close()
	return out.Bytes()
}

// link returns the address of an asset.
func (t *Templates) link(name string) string {
	return Path + "/assets/" + t.assets[name].hash + "/" + name
}

func (t *Templates) serveAsset(w http.ResponseWriter, r *http.Request, hash, name string) error {
	a, ok := t.assets[name]
	if !ok || a.hash != hash {
		return fault.New(fault.NotFound, "There is no such file")
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	WriteZipped(w, r, http.StatusOK, a.plain, a.zip())
	return nil
}

// WriteZipped writes a body, compressed if the client can read that.
func WriteZipped(w http.ResponseWriter, r *http.Request, status int, plain, zip []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if takesZip(r) {
		if zip == nil {
			zip = zipped(plain)
		}
		w.Header().Set("Content-Encoding", "gzip")
		plain = zip
	}
	w.WriteHeader(status)
	_, _ = w.Write(plain) // a client that is gone
}

// takesZip reports whether a client reads compressed bodies.
func takesZip(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") }

// Page is what every page needs.
type Page struct {
	Title   string
	Section string // of the navigation
	User    string
	CSRF    string
	Nav     []Section
	Version string
	Live    string // the path of its live fragment
	Said    string // the result of the last action
	Problem string // why the last action failed
	Crumbs  []Crumb
	Cuts    []cut  // lists that are shown only in part
	Chapter string // the address of the documentation about it
	Data    any
}

// Section is a part of the console in the navigation.
type Section struct {
	Key, Name, Link string
	Scopes          []string // any of them is needed; none means everyone
}

// sectionsOf returns the sections that a user may open.
func (c *Console) sectionsOf(s *Session) []Section {
	return slices.DeleteFunc(slices.Clone(c.sections), func(one Section) bool {
		return len(one.Scopes) > 0 && !s.Has(one.Scopes...)
	})
}

// Crumb is a link of the breadcrumb.
type Crumb struct{ Name, Link string }

// Show writes a page.
func (c *Console) Show(w http.ResponseWriter, r *http.Request, s *Session, status int, name string, p Page) error {
	p.Version = version.Version
	p.Cuts = cutsOf(r.Context())
	p.Said = c.said[r.URL.Query().Get("said")]
	if s != nil {
		p.User, p.CSRF, p.Nav = s.UserName, s.csrfToken(), c.sectionsOf(s)
	}
	p.Chapter = c.chapter(name)
	b, err := c.Render(name, p)
	if err != nil {
		return err
	}
	c.setHeaders(w.Header())
	WriteZipped(w, r, status, b, nil)
	return nil
}

// setHeaders sets the headers of a page.
func (c *Console) setHeaders(h http.Header) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", c.policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// Render returns a template with data.
func (c *Console) Render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := c.templates.t.ExecuteTemplate(&b, name, data)
	return b.Bytes(), err
}

// failed shows an error. One without a text for users is logged, and the page has its id. That
// of a browser which is gone is left to the caller.
func (c *Console) failed(w http.ResponseWriter, r *http.Request, s *Session, err error) error {
	var e *fault.Error
	if errors.Is(err, context.Canceled) {
		return err
	}
	if !errors.As(err, &e) || e.Code == fault.Internal {
		e = web.Explain(r.Context(), c.Options.Log, err)
	}
	status := web.StatusOf(e.Code)
	return c.Show(w, r, s, status, "error.html", Page{Title: http.StatusText(status),
		Data: map[string]any{"Status": status, "Text": e.Message, "LoggedIn": s != nil}})
}

// Tab is a link between pages of one subject.
type Tab struct {
	Name, Link string
	Current    bool
}
