package mailbox

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"ingot/internal/base/fault"
	"ingot/internal/base/look"
	"ingot/internal/base/web"
)

var (
	//go:embed pages.html
	source embed.FS

	// pages are parsed when one is shown: most runs of the program are client commands.
	pages = sync.OnceValue(func() *template.Template {
		return template.Must(look.Parse(source, template.FuncMap{"size": humanSize}, "pages.html"))
	})

	pagePolicy = look.Policy("frame-src 'self'", "form-action 'self'")
)

// framePolicy is for the HTML of a message: it has its own origin without
// scripts, forms or requests. Links may open a new window.
const (
	sandbox     = "allow-popups allow-popups-to-escape-sandbox"
	framePolicy = "sandbox " + sandbox +
		"; default-src 'none'; style-src 'unsafe-inline'; img-src data:; font-src data:; base-uri 'none'; form-action " +
		"'none'; frame-ancestors 'self'"
)

// shown is the number of messages on the page; others are found by search.
const shown = 200

// Mount registers the pages and the JSON API below prefix, with the given
// access.
//
//	GET    prefix                     the list (?to= narrows it, ?live=1 refreshes it)
//	GET    prefix/view/{number}       a message; /html, /source its parts
//	POST   prefix/clear               removes all, from the page
//	GET    prefix/messages            the list as JSON (?to=, ?q=, ?limit=)
//	GET    prefix/messages/{number}   a message as JSON, with its parts
//	DELETE prefix/messages            removes all
func (m *Mailbox) Mount(g *web.Group, prefix string, access web.Access) {
	h := &handlers{Mailbox: m, prefix: strings.TrimSuffix(prefix, "/")}
	if h.root = h.prefix; h.root == "" {
		h.root = "/"
	}
	g.Handle(http.MethodGet, h.root, access, h.list)
	g.Handle(http.MethodGet, h.prefix+"/view/{number}", access, h.view)
	g.Handle(http.MethodGet, h.prefix+"/view/{number}/html", access, h.html)
	g.Handle(http.MethodGet, h.prefix+"/view/{number}/source", access, m.Source)
	g.Handle(http.MethodPost, h.prefix+"/clear", access, h.clear)
	g.Handle(http.MethodGet, h.prefix+"/messages", access, m.ListJSON)
	g.Handle(http.MethodGet, h.prefix+"/messages/{number}", access, m.ShowJSON)
	g.Handle(http.MethodDelete, h.prefix+"/messages", access, m.ClearJSON)
}

type handlers struct {
	*Mailbox
	prefix string
	root   string // prefix, or "/"
}

// secure sets the headers of every response.
func secure(w http.ResponseWriter, policy string) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

func render(w http.ResponseWriter, name string, data any) error {
	var page bytes.Buffer
	if err := pages().ExecuteTemplate(&page, name, data); err != nil {
		return fmt.Errorf("the mailbox page %s: %w", name, err)
	}
	secure(w, pagePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes())
	return nil
}

func answerJSON(w http.ResponseWriter, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	secure(w, "default-src 'none'")
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(text, '\n'))
	return nil
}

func (f *handlers) list(w http.ResponseWriter, r *http.Request) error {
	to := r.URL.Query().Get("to")
	entries, total := f.List(Filter{To: to}, shown)
	_, all := f.List(Filter{}, 1)
	live := r.URL.Query().Get("live") == "1"
	if live {
		w.Header().Set("Refresh", "3") // seconds
	}
	return render(w, "list", map[string]any{
		"Prefix": f.prefix, "Root": f.root, "To": to, "Live": live, "Entries": entries, "Total": total, "All": all,
		"Most": f.most,
		"Here": f.root + "?" + url.Values{"to": {to}}.Encode(),
	})
}

// message returns the message that the request names.
func (m *Mailbox) message(r *http.Request) (Entry, []byte, error) {
	raw := web.Param(r, "number")
	number, err := strconv.ParseInt(raw, 10, 64)
	gone := func() error {
		return fault.New(fault.NotFound, "The mailbox has no message %q. It keeps the newest %d; older ones are removed.",
			raw, m.most)
	}
	if err != nil || number < 0 {
		return Entry{}, nil, gone()
	}
	e, source, err := m.Message(number)
	if errors.Is(err, fs.ErrNotExist) {
		return e, nil, gone()
	}
	return e, source, err
}

func (f *handlers) view(w http.ResponseWriter, r *http.Request) error {
	e, source, err := f.message(r)
	if err != nil {
		return err
	}
	c := parse(source)
	return render(w, "view", map[string]any{
		"Title": e.Subject + " · Mailbox", "Prefix": f.prefix, "Root": f.root, "Entry": e, "Headers": c.headers,
		"Text": c.text, "HasText": c.hasText, "HasHTML": c.hasHTML, "Sandbox": sandbox,
		"Files": c.files,
	})
}

func (f *handlers) html(w http.ResponseWriter, r *http.Request) error {
	_, source, err := f.message(r)
	if err != nil {
		return err
	}
	c := parse(source)
	secure(w, framePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// Links open in a new window, because the frame cannot navigate the page.
	_, _ = w.Write([]byte("<!doctype html><base target=\"_blank\">" + c.html))
	return nil
}

// Source downloads a message as it would be sent.
func (m *Mailbox) Source(w http.ResponseWriter, r *http.Request) error {
	e, source, err := m.message(r)
	if err != nil {
		return err
	}
	secure(w, "sandbox; default-src 'none'")
	w.Header().Set("Content-Type", "message/rfc822")
	w.Header().Set("Content-Disposition", `attachment; filename="message-`+strconv.FormatInt(e.Number, 10)+`.eml"`)
	_, _ = w.Write(source) //nolint:gosec // a download that no browser shows: attachment, nosniff, sandbox
	return nil
}

func (f *handlers) clear(w http.ResponseWriter, r *http.Request) error {
	// A form of another site must not clear the mailbox.
	if err := f.cross.Check(r); err != nil {
		return fault.Wrap(err, fault.Forbidden, "The mailbox can only be cleared from its own page")
	}
	f.Clear()
	http.Redirect(w, r, f.root, http.StatusSeeOther)
	return nil
}

// ListJSON lists messages as JSON (?to=, ?q=, ?limit=).
func (m *Mailbox) ListJSON(w http.ResponseWriter, r *http.Request) error {
	limit := 100
	if raw := r.URL.Query().Get("limit"); raw != "" {
		n, err := strconv.Atoi(raw)
		if err != nil || n < 1 || n > 10_000 {
			return fault.New(fault.BadQuery, "limit must be a number from 1 to 10000, not %q", raw)
		}
		limit = n
	}
	entries, total := m.List(Filter{To: r.URL.Query().Get("to"), Text: r.URL.Query().Get("q")}, limit)
	return answerJSON(w, map[string]any{"total": total, "messages": entries})
}

// ShowJSON returns a message with its parts as JSON.
func (m *Mailbox) ShowJSON(w http.ResponseWriter, r *http.Request) error {
	e, source, err := m.message(r)
	if err != nil {
		return err
	}
	c := parse(source)
	return answerJSON(w, struct {
		Entry
		Headers []Header `json:"headers"`
		Text    string   `json:"text"`
		HTML    string   `json:"html"`
		Files   []File   `json:"attachments,omitempty"`
	}{e, c.headers, c.text, c.html, c.files})
}

// ClearJSON removes all messages.
func (m *Mailbox) ClearJSON(w http.ResponseWriter, r *http.Request) error {
	if err := m.cross.Check(r); err != nil {
		return fault.Wrap(err, fault.Forbidden, "The mailbox can only be cleared from its own page")
	}
	m.Clear()
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func humanSize(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f kB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
