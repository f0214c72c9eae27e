package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4/jwt"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
)

// revocations is the store's list of revoked tokens, cached in memory because
// every request of every API needs it.
type revocations struct {
	store Store
	now   func() time.Time

	mu     sync.RWMutex
	list   map[revocationKey]time.Time // tokens issued until then are revoked
	newest time.Time                   // the latest time at which a token was issued here
}

type revocationKey struct {
	kind    RevocationKind
	subject string
}

func newRevocations(store Store, now func() time.Time) *revocations {
	return &revocations{store: store, now: now, list: map[revocationKey]time.Time{}}
}

func (r *revocations) load(ctx context.Context) error {
	all, err := r.store.Revocations(ctx, r.now())
	if err != nil {
		return fmt.Errorf("read the revoked tokens: %w", err)
	}
	list := make(map[revocationKey]time.Time, len(all))
	for _, one := range all {
		list[revocationKey{one.Kind, one.Subject}] = one.Before
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	// Keep what this process revoked while the list was read.
	for k, v := range r.list {
		if _, ok := list[k]; !ok && r.now().Sub(v) < time.Minute {
			list[k] = v
		}
	}
	r.list = list
	return nil
}

func (r *revocations) add(ctx context.Context, one Revocation) error {
	if one.Before.IsZero() {
		one.Before = r.now()
	}
	if err := r.store.Revoke(ctx, one); err != nil {
		return fmt.Errorf("revoke: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list[revocationKey{one.Kind, one.Subject}] = one.Before
	return nil
}

// all revokes all tokens issued to a user or client until now. When the clock was set back,
// that includes those issued before.
func (r *revocations) all(ctx context.Context, kind RevocationKind, subject string) error {
	before := r.now()
	r.mu.RLock()
	if r.newest.After(before) {
		before = r.newest.Add(time.Second) // before compares seconds
	}
	r.mu.RUnlock()
	return r.add(ctx, Revocation{Kind: kind, Subject: subject, Before: before, Expires: r.now().Add(maxValidity)})
}

// issueTime returns the time at which something is issued now to a user, who may be empty,
// and a client, which may be empty. It is later than the clock if the clock was set back and
// they have had something revoked since: what is issued now is not revoked.
func (r *revocations) issueTime(user, client string) time.Time {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range []revocationKey{{RevokeUser, user}, {RevokeClient, client}} {
		if at, ok := r.list[k]; ok && k.subject != "" && at.After(now) {
			now = at
		}
	}
	if now.After(r.newest) {
		r.newest = now
	}
	return now
}

// covers reports whether a token is revoked.
func (r *revocations) covers(c *token.Claims) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.list) == 0 {
		return false
	}
	if _, ok := r.list[revocationKey{RevokeToken, c.ID}]; ok {
		return true
	}
	return r.before(RevokeUser, c.UserID, c.IssuedAt) || r.before(RevokeClient, c.ClientID, c.IssuedAt)
}

// before compares in seconds, the precision of iat. A token issued in the second
// of the revocation stays valid, so that a login right after a password change
// works.
func (r *revocations) before(kind RevocationKind, subject string, issued int64) bool {
	at, ok := r.list[revocationKey{kind, subject}]
	return ok && subject != "" && issued < at.Unix()
}

// refresh reports whether a refresh token is revoked with its login, user or
// client.
func (r *revocations) refresh(t *Refresh) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	issued := t.Issued.Unix()
	// A code that is used twice revokes its login by the login's id.
	if _, ok := r.list[revocationKey{RevokeToken, t.Family}]; ok {
		return true
	}
	return r.before(RevokeUser, t.UserID, issued) || r.before(RevokeClient, t.ClientID, issued)
}

// code reports whether a one-time code is revoked with its user or client.
func (r *revocations) code(c *Code) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	proven := c.AuthTime.Unix()
	return r.before(RevokeUser, c.UserID, proven) || r.before(RevokeClient, c.ClientID, proven)
}

// session reports whether a browser session is revoked with its user.
func (r *revocations) session(s *Session) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.before(RevokeUser, s.UserID, s.AuthTime.Unix())
}

// parseRefresh checks a refresh token's signature, issuer and times. The store
// decides whether it is still valid.
func (s *Server) parseRefresh(ctx context.Context, raw string) (*refreshClaims, error) {
	bad := invalidToken()
	parsed, err := jwt.ParseSigned(raw, token.Algorithms)
	if err != nil || len(parsed.Headers) != 1 {
		return nil, bad
	}
	key, err := s.first.Key(ctx, parsed.Headers[0].KeyID)
	if errors.Is(err, token.ErrUnknownKey) {
		return nil, bad
	}
	if err != nil {
		return nil, err
	}
	var c refreshClaims
	if parsed.Claims(key, &c) != nil || c.Issuer != s.issuer || !token.IsRefreshID(c.ID) || s.now().Unix() >= c.ExpiresAt {
		return nil, bad
	}
	return &c, nil
}

// revokeToken revokes one token. The holder of a refresh token, or of an access token of
// the same login, may revoke the login. An access token stays valid until it expires,
// unless an administrator revokes it: `cf logout` presents both tokens of its login, and in
// Cloud Foundry a client that took the access token before can go on using it.
func (s *Server) revokeToken(w http.ResponseWriter, r *http.Request) error {
	ctx, jti := r.Context(), web.Param(r, "jti")
	raw, ok := web.BearerToken(r)
	if !ok {
		return unauthenticated()
	}
	if rc, err := s.parseRefresh(ctx, raw); err == nil {
		if rc.ID != jti {
			return web.Insufficient("uaa.admin", "tokens.revoke")
		}
		return s.revokeRefresh(ctx, w, jti)
	}
	claims, err := s.verifier.Verify(ctx, raw)
	if err != nil {
		return err
	}
	if claims.ID == jti {
		return fault.New(fault.NotFound,
			"An access token cannot revoke itself. It expires at %s; changing the password revokes it, and so does GET "+
				"/oauth/token/revoke/user/ID.",
			claims.Expiry().UTC().Format(time.RFC3339)).WithKind("not_found")
	}
	if claims.ID+"-r" != jti && !claims.HasAny("uaa.admin", "tokens.revoke") {
		return web.Insufficient("uaa.admin", "tokens.revoke")
	}
	if token.IsRefreshID(jti) {
		return s.revokeRefresh(ctx, w, jti)
	}
	if err := s.revoked.add(ctx, Revocation{Kind: RevokeToken, Subject: jti, Expires: s.now().
		Add(maxValidity)}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// revokeRefresh revokes a login: the refresh token and its whole family.
func (s *Server) revokeRefresh(ctx context.Context, w http.ResponseWriter, jti string) error {
	stored, err := s.store.Refresh(ctx, jti)
	if errors.Is(err, ErrNotFound) {
		return fault.New(fault.NotFound, "Token not found.").WithKind("not_found")
	}
	if err != nil {
		return err
	}
	if err := s.store.DeleteFamily(ctx, stored.Family); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

// revokeUser revokes all tokens of a user, who may do that too, as in UAA.
func (s *Server) revokeUser(w http.ResponseWriter, r *http.Request) error {
	if !isSelf(r) && !may(r, "uaa.admin", "tokens.revoke") {
		return web.Insufficient("uaa.admin", "tokens.revoke")
	}
	return s.revokeAll(w, r, RevokeUser)
}

func (s *Server) revokeClient(w http.ResponseWriter, r *http.Request) error {
	return s.revokeAll(w, r, RevokeClient)
}

func (s *Server) revokeAll(w http.ResponseWriter, r *http.Request, kind RevocationKind) error {
	if err := s.revoked.all(r.Context(), kind, web.Param(r, "id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
