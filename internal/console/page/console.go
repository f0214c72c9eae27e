package page

import (
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/keyed"
	"ingot/internal/base/web"
)

// Path is where the console begins, on the origin of the platform API.
const Path = "/console"

// ClientID is the console's client at the authorization server.
const ClientID = "ingot-console"

// CallbackPath is the redirect URI of the client, without the origin.
const CallbackPath = Path + "/callback"

// Options are what the console needs.
type Options struct {
	// Platform serves the platform API and the log cache.
	Platform http.Handler
	// Notifications serves the API of the notification service.
	Notifications http.Handler
	// AuthURL is the authorization server, and AuthClient an HTTP client for it. Empty means
	// that it is part of Platform.
	AuthURL    string
	AuthClient *http.Client
	Secret     string // of ClientID
	Sessions   Store
	// Gateway connects to the ssh gateway of this server, for a client at an address.
	Gateway func(remote net.Addr) (net.Conn, error)
	// Proxies are in front of the server, and are believed when they name a client.
	Proxies web.Proxies
	// Log gets errors that users do not see; nil means nowhere.
	Log *slog.Logger
}

// Console is what all parts of the console share: sessions, calls to the APIs, pages and streams.
type Console struct {
	Options Options
	// Chapters are the documents about pages, by the name of their template: "logs#drains".
	Chapters   map[string]string
	templates  *Templates
	sections   []Section
	parts      []Part
	said       map[string]string
	refreshing keyed.Mutex
	streams    streams
	protection *http.CrossOriginProtection
}

// New returns a console without parts, with the sections of its navigation.
func New(o Options, t *Templates, sections []Section) *Console {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Console{
		Options: o, templates: t, sections: sections,
		said: map[string]string{}, protection: http.NewCrossOriginProtection(),
	}
}

// Part is a part of the console: the pages about one subject.
type Part struct {
	// Pages and Changes are pages and the targets of forms, by their path below Path. Streams are
	// pages whose responses last, Large are targets of forms with several MiB.
	Pages, Streams, Changes, Large map[string]Handler
	// Uploads are targets of forms with files.
	Uploads map[string]UploadHandler
	// Public are pages for everyone, by their whole path. Their session is nil.
	Public map[string]Handler
	// Screens are pages that only show what they load, by their path.
	Screens map[string]Screen
	// Said are the results of changes, by the word in the address.
	Said map[string]string
	// Live returns the live part of a page, or nil if the page is not one of this part.
	Live func(r *http.Request, s *Session, name string) *View
}

// Add adds parts.
func (c *Console) Add(parts ...Part) {
	for _, p := range parts {
		c.parts = append(c.parts, p)
		maps.Copy(c.said, p.Said)
	}
}

// Routes adds the routes of the console.
func (c *Console) Routes(m *web.Mux) {
	g := m.Group("console", web.FormatV3, nil)
	files := web.Public("style sheets and scripts contain no user data")
	g.Handle(http.MethodGet, Path+"/assets/{hash}/{name}", files, c.asset)

	login := web.Public("starts a login, or ends one")
	g.Handle(http.MethodGet, Path+"/login", login, c.login)
	g.Handle(http.MethodGet, CallbackPath, login, c.callback)

	public := web.Public("the documentation of the program, which is the same for everyone")
	streams := g.Within(web.Limits{Body: 1 << 10, Read: 30 * time.Second})
	// For the parts of a mail template, each up to 1 MiB before it is encoded.
	large := g.Within(web.Limits{Body: 12 << 20, Read: time.Minute, Write: time.Minute})
	// The platform decides how large an upload may be.
	uploads := g.Within(web.Limits{Body: maxUpload, Read: time.Hour, Write: time.Hour})
	own := Part{Streams: map[string]Handler{"/live/*": c.live}, Changes: map[string]Handler{"/logout": c.logout},
		Pages: map[string]Handler{"/*": unknown}}
	g.Handle(http.MethodPost, Path+"/*", ofSession, c.within(unknown))
	for _, p := range slices.Concat(c.parts, []Part{own}) {
		c.handle(g, http.MethodGet, p.Pages)
		for pattern, one := range p.Screens {
			c.handle(g, http.MethodGet, map[string]Handler{pattern: c.screen(one)})
		}
		for pattern, h := range p.Public {
			g.Handle(http.MethodGet, pattern, public, c.open(h))
		}
		c.handle(streams, http.MethodGet, p.Streams)
		c.handle(g, http.MethodPost, p.Changes)
		c.handle(large, http.MethodPost, p.Large)
		for pattern, h := range p.Uploads {
			uploads.Handle(http.MethodPost, Path+pattern, ofSession, c.within(c.uploading(h)))
		}
	}
}

// ofSession is the access of all pages behind the login.
var ofSession = web.Own("the session cookie of the console; the APIs decide with the token of its user")

// handle adds pages, or with POST the targets of forms, for users who are logged in.
func (c *Console) handle(g *web.Group, method string, of map[string]Handler) {
	for pattern, h := range of {
		if method == http.MethodPost {
			h = c.changing(h)
		}
		g.Handle(method, Path+pattern, ofSession, c.within(h))
	}
}

// open calls a handler without a session.
func (c *Console) open(h Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := h(w, r, nil); err != nil {
			return c.failed(w, r, nil, err)
		}
		return nil
	}
}

// asset serves an embedded file. Its address changes with its content.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) error {
	return c.templates.serveAsset(w, r, web.Param(r, "hash"), web.Param(r, "name"))
}

// unknown answers requests for pages that do not exist.
func unknown(_ http.ResponseWriter, r *http.Request, _ *Session) error {
	return fault.New(fault.NotFound, "There is no page %s. It may have been removed, or the address has a typing error.",
		r.URL.Path)
}
