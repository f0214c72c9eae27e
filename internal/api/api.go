package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"ingot/internal/token"
	"ingot/internal/web"
)

// Version is the v3 API version we speak. Clients switch features on by it:
// from 3.211.0 on they expect embed=process_instances.
const Version = "3.210.0"

// Audience is what tokens call this API.
const Audience = "cloud_controller"

// Options configure the API.
type Options struct {
	Store     Store
	Directory Directory
	Verifier  *token.Verifier
	Log       *slog.Logger
	// AuthURL says where a client finds the authorization server; nil means
	// on the origin it already talks to.
	AuthURL func(*http.Request) string
	Now     func() time.Time
}

// API answers the v3 API.
type API struct {
	store     Store
	directory Directory
	verifier  *token.Verifier
	log       *slog.Logger
	authURL   func(*http.Request) string
	now       func() time.Time
}

// Store keeps what the platform must not forget. Every method is one
// transaction. Errors carry fault.NotFound or fault.Conflict where said;
// any other error is the store's own failure.
type Store interface {
	// CreateUser fails with fault.Conflict when the guid is taken.
	CreateUser(ctx context.Context, u *User) error
	// User fails with fault.NotFound.
	User(ctx context.Context, guid string) (*User, error)
	// DeleteUser removes the user and stores job, both or neither. It fails
	// with fault.NotFound.
	DeleteUser(ctx context.Context, guid string, job *Job) error
	// Job fails with fault.NotFound.
	Job(ctx context.Context, guid string) (*Job, error)
}

// Directory knows the names of users. It is the authorization server, seen
// through its public API.
type Directory interface {
	// UsersByID returns those of ids that are known; the others are absent.
	UsersByID(ctx context.Context, ids []string) (map[string]DirectoryUser, error)
}

// DirectoryUser is what the directory says about a user.
type DirectoryUser struct {
	UserName string
	Origin   string
}

// New returns the API. Its routes are registered with Routes.
func New(o Options) *API {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.AuthURL == nil {
		o.AuthURL = baseURL
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &API{store: o.Store, directory: o.Directory, verifier: o.Verifier, log: o.Log, authURL: o.AuthURL, now: o.Now}
}

// Routes registers every route of the API with its authorization decision.
func (a *API) Routes(m *web.Mux) {
	g := m.Group("platform", web.FormatV3, a.verifier)
	const discovery = "clients read it before they can log in"

	g.Handle(http.MethodGet, "/", web.Public(discovery), a.root)
	g.Handle(http.MethodGet, "/v3", web.Public(discovery), a.v3)
	g.Handle(http.MethodGet, "/v3/info", web.Public(discovery), a.info)

	g.Handle(http.MethodPost, "/v3/users", web.Scope(scopeAdmin), a.createUser)
	g.Handle(http.MethodGet, "/v3/users/{guid}", web.Scope(readers...), a.getUser)
	g.Handle(http.MethodDelete, "/v3/users/{guid}", web.Scope(scopeAdmin), a.deleteUser)

	g.Handle(http.MethodGet, "/v3/jobs/{guid}", web.Scope(readers...), a.getJob)
}
