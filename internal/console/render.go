package console

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
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/look"
	"ingot/internal/base/version"
	"ingot/internal/base/web"
)

//go:embed pages/*.html assets/*
var files embed.FS

// pages are the templates, and the files that they refer to.
type pages struct {
	t      *template.Template
	assets map[string]asset
}

type asset struct {
	hash       string
	plain, zip []byte
}

func mustLoad() *pages {
	p, err := loadPages()
	if err != nil {
		panic(err) // the files are embedded
	}
	return p
}

func loadPages() (*pages, error) {
	p := &pages{assets: map[string]asset{}}
	names, err := fs.Glob(files, "assets/*")
	if err != nil {
		return nil, err
	}
	// What all pages of Ingot share comes first.
	content := map[string]string{"console.css": look.CSS, "console.js": look.Times, "mark.svg": look.Mark}
	for _, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		content[path.Base(name)] += string(b)
	}
	for name, text := range content {
		b := []byte(text)
		sum := sha256.Sum256(b)
		p.assets[name] = asset{hash: hex.EncodeToString(sum[:6]), plain: b, zip: zipped(b)}
	}
	p.t, err = template.New("").Funcs(p.functions()).ParseFS(files, "pages/*.html")
	return p, err
}

// policy is the content security policy: no inline code, no other origin, nothing that a page
// does not need. Logging out leads to the authorization server.
func (c *Console) policy() string {
	forms := "'self'"
	if u, err := url.Parse(c.options.AuthURL); err == nil && u.Host != "" {
		forms += " " + u.Scheme + "://" + u.Host
	}
	return "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; frame-src 'self'; " +
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
func (p *pages) link(name string) string {
	return Path + "/assets/" + p.assets[name].hash + "/" + name
}

func (p *pages) serveAsset(w http.ResponseWriter, r *http.Request, hash, name string) error {
	a, ok := p.assets[name]
	if !ok || a.hash != hash {
		return fault.New(fault.NotFound, "There is no such file")
	}
	h := w.Header()
	h.Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	writeZipped(w, r, http.StatusOK, a.plain, a.zip)
	return nil
}

// writeZipped writes a body, compressed if the client can read that.
func writeZipped(w http.ResponseWriter, r *http.Request, status int, plain, zip []byte) {
	w.Header().Add("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		if zip == nil {
			zip = zipped(plain)
		}
		w.Header().Set("Content-Encoding", "gzip")
		plain = zip
	}
	w.WriteHeader(status)
	_, _ = w.Write(plain) // a client that is gone
}

// page is what every page needs.
type page struct {
	Title   string
	Section string // of the navigation
	User    string
	CSRF    string
	Nav     []section
	Version string
	Live    string // the path of its live fragment
	Said    string // the result of the last action
	Problem string // why the last action failed
	Crumbs  []crumb
	Cuts    []cut // lists of which only a part is shown
	Data    any
}

// section is a part of the console in the navigation.
type section struct {
	Key, Name, Link string
	scopes          []string // any of them is needed; none means everyone
}

var sections = []section{
	{"home", "Home", Path, nil},
	{"apps", "Apps", Path + "/apps", nil},
	{"services", "Services", Path + "/services", nil},
	{"notifications", "Notifications", Path + "/notifications", notificationScopes},
	{"members", "Members", Path + "/members", nil},
	{"audit", "Audit", Path + "/audit", nil},
	{"users", "Users", Path + "/users", userScopes},
	{"clients", "Clients", Path + "/clients", clientScopes},
	{"system", "System", Path + "/system", systemScopes},
}

// sectionsOf returns the sections that a user may open.
func sectionsOf(s *Session) []section {
	var of []section
	for _, one := range sections {
		if len(one.scopes) == 0 || s.has(one.scopes...) {
			of = append(of, one)
		}
	}
	return of
}

type crumb struct{ Name, Link string }

// said are the results of actions, by the word in the address.
var said = map[string]string{
	"start": "The app is starting.", "stop": "The app was stopped.", "restart": "The app is restarting.",
	"scale": "The process was scaled.", "instance": "The instance is restarting.",
	"environment": "Saved. It takes effect after a restart of the app.", "mapped": "The route was mapped.", "unmapped": "The route was unmapped.",
	"task": "The task was started.", "canceled": "It is being canceled.", "continue": "The deployment continues.", "rollback": "The revision is being deployed.", "droplet": "The droplet is being deployed.",
	"service": "The service instance is being created.", "updated": "The update has begun.", "deleting": "The service instance is being deleted.",
	"bound": "Bound. Restart the app to use it.", "unbound": "It is being deleted. Restart an app that was bound.", "key": "The key is being created.",
	"role": "The role was assigned.", "norole": "The role was removed.", "removed": "The user was removed from the organization.",
	"client": "The client was changed.", "noclient": "The client was deleted. Its tokens do not work any more.",
	"activated": "The user can log in.", "deactivated": "The user cannot log in, and all sessions have ended.", "unlocked": "The user was unlocked.",
	"group":  "The groups were changed. They take effect at the user's next login.",
	"shared": "The service instance is shared.", "unshared": "The service instance is not shared with the space any more.",
	"template": "The template was saved.", "template-test": "The template was saved, and a test is on its way to you.", "template-deleted": "The template was deleted. What used it uses the default template now.",
	"assigned": "The template was assigned.", "kind": "The kind was registered.", "kind-test": "A test is on its way to you.", "retry": "It is being sent again.",
	"campaigns": "The senders and campaign types were changed.",
	"cleared":   "The mailbox was cleared.", "suppressed": "Nothing is sent to this address any more.", "unsuppressed": "Mail is sent to this address again.", "preferences": "Your preferences were saved.",
}

// show writes a page.
func (c *Console) show(w http.ResponseWriter, r *http.Request, s *Session, status int, name string, p page) error {
	p.Version = version.Version
	p.Cuts = cutsOf(r.Context())
	p.Said = said[r.URL.Query().Get("said")]
	if s != nil {
		p.User, p.CSRF, p.Nav = s.UserName, s.csrfToken(), sectionsOf(s)
	}
	b, err := c.pages.render(name, p)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", c.policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	writeZipped(w, r, status, b, nil)
	return nil
}

func (p *pages) render(name string, data any) ([]byte, error) {
	var b bytes.Buffer
	err := p.t.ExecuteTemplate(&b, name, data)
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
		e = web.Explain(r.Context(), c.options.Log, err)
	}
	status := web.StatusOf(e.Code)
	return c.show(w, r, s, status, "error.html", page{Title: http.StatusText(status), Data: map[string]any{"Status": status, "Text": e.Message, "LoggedIn": s != nil}})
}
