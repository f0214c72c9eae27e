package console

import (
	"log/slog"
	"net"
	"net/http"
	"time"

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

// Console serves the pages.
type Console struct {
	options    Options
	pages      *pages
	refreshing keyed.Mutex
	streams    streams
	sparks     sparks
	protection *http.CrossOriginProtection
	now        func() time.Time
}

// embedded are the pages of the binary.
var embedded = mustLoad()

// New returns a console.
func New(o Options) *Console {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Console{options: o, pages: embedded, protection: http.NewCrossOriginProtection(), now: time.Now}
}

// Routes adds the routes of the console.
func (c *Console) Routes(m *web.Mux) {
	g := area{m.Group("console", web.FormatV3, nil)}
	files := web.Public("style sheets and scripts contain no user data")
	g.Handle(http.MethodGet, Path+"/assets/{hash}/{name}", files, c.asset)

	login := web.Public("starts a login, or ends one")
	g.Handle(http.MethodGet, Path+"/login", login, c.login)
	g.Handle(http.MethodGet, CallbackPath, login, c.callback)

	g.pages(c, map[string]handler{"": c.home, "/search": c.search, "/system": c.system})
	g.changes(c, map[string]handler{"/logout": c.logout})
	streams := area{g.Within(web.Limits{Body: 1 << 10, Read: 30 * time.Second})}
	streams.pages(c, map[string]handler{"/live/*": c.live})
	c.appRoutes(g, streams)
	c.serviceRoutes(g)
	c.memberRoutes(g)
	c.clientRoutes(g)
	c.userRoutes(g)
	c.auditRoutes(g, streams)
	c.notificationRoutes(g)
}

// area is a part of the console: pages and changes with a session.
type area struct{ *web.Group }

// pages adds pages, by their path below Path.
func (a area) pages(c *Console, of map[string]handler) {
	for pattern, h := range of {
		a.Handle(http.MethodGet, Path+pattern, ofSession, c.within(h))
	}
}

// changes adds the targets of forms.
func (a area) changes(c *Console, of map[string]handler) {
	for pattern, h := range of {
		a.Handle(http.MethodPost, Path+pattern, ofSession, c.within(c.changing(h)))
	}
}

// ofSession is the access of all pages behind the login.
var ofSession = web.Own("the session cookie of the console; the APIs decide with the token of its user")

// asset serves an embedded file. Its address changes with its content.
func (c *Console) asset(w http.ResponseWriter, r *http.Request) error {
	return c.pages.serveAsset(w, r, web.Param(r, "hash"), web.Param(r, "name"))
}
