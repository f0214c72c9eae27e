package auth

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/background"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
)

// Options configure the authorization server.
type Options struct {
	Store Store
	// BaseURL is the public URL of the server; the issuer is derived from it.
	BaseURL string
	Log     *slog.Logger
	// Shared is set if other server processes use the same store.
	Shared bool
	// PasswordGrant allows users' passwords at the token endpoint, which
	// `cf login` needs and RFC 9700 advises against.
	PasswordGrant bool
	// RefreshGrace is how long a rotated refresh token still works; 0 means
	// two minutes.
	RefreshGrace time.Duration
	// Registry registers the metrics, if it is not nil.
	Registry prometheus.Registerer
	Limits   Limits
	// Servers returns how many servers share the store: each has its part of the limits, and
	// failed logins are counted in the store. nil means this one alone.
	Servers func() int
	// Lead reports whether this server, of those that share the store, removes what has
	// expired; nil means yes.
	Lead func(ctx context.Context) bool
	// Proxies are the trusted proxies in front of the server. The client address
	// in their headers is used to limit logins.
	Proxies web.Proxies
	// First waits until Bootstrap has ended, on a first start; requests wait with it. nil means that it has.
	First func(context.Context) error
	Now   func() time.Time
}

// Server is the authorization server.
type Server struct {
	store         Store
	base, issuer  string
	log           *slog.Logger
	passwordGrant bool
	grace         time.Duration
	now           func() time.Time

	keys     *keyring
	first    *first
	hash     *hasher
	guard    *secretGuard
	revoked  *revocations
	limits   *limiter
	proxies  web.Proxies
	pages    *pages
	verifier *token.Verifier
	// decoy is checked when the user does not exist, so that the response takes
	// as long as for an existing user.
	decoy  string
	lead   func(ctx context.Context) bool
	part   background.Part
	parts  *background.Group
	minted *prometheus.CounterVec
}

// New returns a server, which is ready after Start.
func New(o Options) (*Server, error) {
	if o.Store == nil || o.BaseURL == "" {
		return nil, errors.New("auth: a store and a base URL are needed")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.RefreshGrace == 0 {
		o.RefreshGrace = 2 * time.Minute
	}
	if o.Lead == nil {
		o.Lead = func(context.Context) bool { return true }
	}
	pages, err := loadPages()
	if err != nil {
		return nil, err
	}
	s := &Server{
		store: o.Store, base: o.BaseURL, issuer: o.BaseURL + "/oauth/token", log: o.Log,
		passwordGrant: o.PasswordGrant, grace: o.RefreshGrace, now: o.Now,
		keys: newKeyring(o.Store, o.Now, o.Shared), hash: newHasher(2), decoy: hashOfNone(), proxies: o.Proxies,
		revoked: newRevocations(o.Store, o.Now), limits: newLimiter(o.Limits, o.Now), pages: pages, lead: o.Lead,
		minted: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ingot_auth_tokens_issued_total", Help: "Access tokens issued, by grant.",
		}, []string{"grant"}),
	}
	s.first = &first{wait: o.First, keys: s.keys}
	s.guard = newSecretGuard(o.Limits, o.Now, s.hash)
	if o.Servers != nil {
		s.guard.rows, s.guard.servers, s.limits.servers = &failureRows{o.Store}, o.Servers, o.Servers
	}
	if o.Registry != nil {
		o.Registry.MustRegister(s.minted)
	}
	s.verifier = token.NewVerifier(token.Options{Issuer: s.issuer, Keys: s.first, Revoked: s.revoked.covers, Now: o.Now})
	parts := []background.Service{background.Every(10*time.Minute, s.purge)}
	if o.Shared {
		parts = append(parts, background.Every(sharedInterval, s.refreshShared))
	}
	s.parts = background.NewGroup(parts...)
	return s, nil
}

// sharedInterval is how often a server looks for changes of other servers.
const sharedInterval = 2 * time.Second

// Start loads keys and revocations and begins the background work.
func (s *Server) Start(ctx context.Context) error {
	return s.part.Launch(ctx, func(context.Context, func(func())) error {
		if s.first.wait == nil {
			if err := s.keys.load(ctx); err != nil {
				return err
			}
		}
		if err := s.revoked.load(ctx); err != nil {
			return err
		}
		return s.parts.Start(ctx)
	})
}

// Stop stops the background work.
func (s *Server) Stop() { s.part.Halt(s.parts.Stop) }

// Verifier returns a verifier of the server's tokens for an API that accepts any
// of the given audiences.
func (s *Server) Verifier(audiences ...string) *token.Verifier { return s.verifier.With(audiences...) }

func (s *Server) purge(ctx context.Context) {
	err := s.revoked.load(ctx)
	if s.lead(ctx) {
		err = errors.Join(s.store.Purge(ctx, s.now()), err)
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "purge failed", "error", err)
	}
}

// refreshShared loads changes that other server processes made.
func (s *Server) refreshShared(ctx context.Context) {
	err := s.first.await(ctx)
	if err == nil {
		err = errors.Join(s.revoked.load(ctx), s.keys.load(ctx))
	}
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "reload keys and revocations failed", "error", err)
	}
}

// Routes registers every endpoint with its authorization decision.
func (s *Server) Routes(m *web.Mux) {
	g := m.Group("auth", web.FormatOAuth, s.verifier).Refusing(s.first.awaitRequest)
	const (
		anyone = "part of the login protocol"
		client = "client credentials, checked by the handler"
		cookie = "the login session's cookie or a token, checked by the handler"
	)

	g.Handle(http.MethodPost, "/oauth/token", web.Own(client), s.postToken)
	g.Handle(http.MethodGet, "/oauth/authorize", web.Own(cookie), s.getAuthorize)
	g.Handle(http.MethodPost, "/oauth/authorize", web.Own(cookie), s.getAuthorize)
	g.Handle(http.MethodDelete, "/oauth/token/revoke/{jti}",
		web.Own("a token of the same login, or uaa.admin or tokens.revoke; refresh tokens count here"), s.revokeToken)
	g.Handle(http.MethodGet, "/oauth/token/revoke/user/{id}", web.Token("the user, or uaa.admin or tokens.revoke"),
		s.revokeUser)
	g.Handle(http.MethodGet, "/oauth/token/revoke/client/{id}", web.Scope("uaa.admin", "tokens.revoke"), s.revokeClient)

	g.Handle(http.MethodGet, "/token_keys", web.Public("public keys"), s.getKeys)
	g.Handle(http.MethodGet, "/token_key", web.Public("public key"), s.getKey)
	g.Handle(http.MethodPost, "/token_keys/rotate", web.Scope("uaa.admin"), s.rotateKeys)
	g.Handle(http.MethodPost, "/check_token", web.Own(client), s.checkToken)
	g.Handle(http.MethodPost, "/introspect", web.Own(client), s.introspect)
	g.Handle(http.MethodGet, "/userinfo", web.Scope("openid"), s.userInfo)
	g.Handle(http.MethodPost, "/userinfo", web.Scope("openid"), s.userInfo)
	g.Handle(http.MethodGet, "/.well-known/openid-configuration", web.Public("discovery"), s.discovery)

	g.Handle(http.MethodGet, "/info", web.Public("describes the server and its login prompts"), s.getInfo)
	g.Handle(http.MethodGet, "/login", web.Public(anyone), s.getLogin)
	g.Handle(http.MethodPost, "/login.do", web.Public(anyone), s.postLogin)
	g.Handle(http.MethodGet, loginLinkPath, web.Public("shows a button"), s.getLoginLink)
	g.Handle(http.MethodPost, loginLinkPath, web.Own("the one-time code of the link, only from this machine"),
		s.postLoginLink)
	g.Handle(http.MethodGet, "/logout.do", web.Public("deletes the session of the cookie"), s.logout)
	g.Handle(http.MethodGet, "/passcode", web.Own(cookie), s.passcode)

	g.Handle(http.MethodGet, "/oauth/clients", web.Scope("clients.read", "clients.admin", "uaa.admin"), s.listClients)
	g.Handle(http.MethodPost, "/oauth/clients", web.Scope("clients.write", "clients.admin", "uaa.admin"), s.createClient)
	g.Handle(http.MethodGet, "/oauth/clients/{id}", web.Scope("clients.read", "clients.admin", "uaa.admin"), s.getClient)
	g.Handle(http.MethodPut, "/oauth/clients/{id}", web.Scope("clients.write", "clients.admin", "uaa.admin"),
		s.updateClient)
	g.Handle(http.MethodDelete, "/oauth/clients/{id}", web.Scope("clients.write", "clients.admin", "uaa.admin"),
		s.deleteClient)
	g.Handle(http.MethodPut, "/oauth/clients/{id}/secret", web.Scope("clients.secret", "clients.admin", "uaa.admin"),
		s.changeSecret)

	g.Handle(http.MethodGet, "/Users", web.Scope("scim.read", "uaa.admin"), s.listUsers)
	g.Handle(http.MethodPost, "/Users", web.Scope("scim.create", "scim.write", "uaa.admin"), s.createUser)
	g.Handle(http.MethodGet, "/Users/{id}", web.Token("scim.read, uaa.admin, or the user itself"), s.getUser)
	g.Handle(http.MethodPut, "/Users/{id}", web.Token("scim.write, uaa.admin, or the user for its own name"), s.updateUser)
	g.Handle(http.MethodPatch, "/Users/{id}", web.Token("scim.write, uaa.admin, or the user for its own name"),
		s.patchUser)
	g.Handle(http.MethodDelete, "/Users/{id}", web.Scope("scim.write", "uaa.admin"), s.deleteUser)
	g.Handle(http.MethodPut, "/Users/{id}/password", web.Token("the user with the old password, or uaa.admin"),
		s.changePassword)
	g.Handle(http.MethodGet, "/Users/{id}/status", web.Scope("scim.read", "uaa.admin"), s.userStatus)
	g.Handle(http.MethodPatch, "/Users/{id}/status", web.Scope("scim.write", "uaa.admin"), s.setUserStatus)

	g.Handle(http.MethodGet, "/Groups", web.Scope("scim.read", "uaa.admin"), s.listGroups)
	g.Handle(http.MethodPost, "/Groups", web.Scope("scim.write", "uaa.admin"), s.createGroup)
	g.Handle(http.MethodGet, "/Groups/External", web.Scope("scim.read", "uaa.admin"), s.listExternalGroups)
	g.Handle(http.MethodPost, "/Groups/External", web.Scope("scim.write", "uaa.admin"), s.mapExternalGroup)
	g.Handle(http.MethodGet, "/Groups/{id}", web.Scope("scim.read", "uaa.admin"), s.getGroup)
	g.Handle(http.MethodPut, "/Groups/{id}", web.Scope("scim.write", "uaa.admin"), s.updateGroup)
	g.Handle(http.MethodPatch, "/Groups/{id}", web.Scope("scim.write", "uaa.admin"), s.patchGroup)
	g.Handle(http.MethodDelete, "/Groups/{id}", web.Scope("scim.write", "uaa.admin"), s.deleteGroup)
	g.Handle(http.MethodGet, "/Groups/{id}/members", web.Scope("scim.read", "uaa.admin"), s.listMembers)
	g.Handle(http.MethodPost, "/Groups/{id}/members", web.Scope("scim.write", "uaa.admin"), s.addMember)
	g.Handle(http.MethodGet, "/Groups/{id}/members/{member}", web.Scope("scim.read", "uaa.admin"), s.getMember)
	g.Handle(http.MethodDelete, "/Groups/{id}/members/{member}", web.Scope("scim.write", "uaa.admin"), s.removeMember)
}
