package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// session is what the cookie of a logged-in user contains.
type session struct {
	Subject string   `json:"s"`
	User    string   `json:"u"`
	Email   string   `json:"m,omitempty"`
	Scopes  []string `json:"c,omitempty"`
	// Started is when the user logged in, Expires when the access token does.
	Started int64  `json:"t"`
	Expires int64  `json:"x"`
	Refresh string `json:"r,omitempty"`
	// Access is set only if the app gets it.
	Access string `json:"a,omitempty"`
}

// sessionPurpose and attemptPurpose separate the two kinds of cookies.
const (
	sessionPurpose = "session"
	attemptPurpose = "attempt"
)

// refreshEarly is how long before the access token expires it is replaced.
const refreshEarly = 30 * time.Second

// errNoSession means that the user has to log in.
var errNoSession = errors.New("no session")

// session returns the session of a request. If it had to be renewed, its cookie is set.
func (p *proxy) session(w http.ResponseWriter, r *http.Request) (*session, error) {
	s := new(session)
	sealed := p.cookies.get(r)
	if sealed == "" || p.seal.open(sessionPurpose, sealed, s) != nil {
		return nil, errNoSession
	}
	now := p.server.now()
	end := time.Unix(s.Started, 0).Add(p.lifetime)
	if !now.Before(end) {
		return nil, errNoSession
	}
	if now.Before(time.Unix(s.Expires, 0).Add(-refreshEarly)) {
		return s, nil
	}
	if s.Refresh == "" {
		if now.Before(time.Unix(s.Expires, 0)) {
			return s, nil
		}
		return nil, errNoSession
	}
	fresh, err := p.renewals.do(r.Context(), s.Refresh,
		func(ctx context.Context) (*session, error) { return p.renew(ctx, s) })
	if err != nil {
		return nil, err
	}
	return fresh, p.keep(w, r, fresh)
}

// keep sets the cookie of a session.
func (p *proxy) keep(w http.ResponseWriter, r *http.Request, s *session) error {
	sealed, err := p.seal.seal(sessionPurpose, s)
	if err != nil {
		return err
	}
	return p.cookies.set(w, r, sealed, time.Unix(s.Started, 0).Add(p.lifetime).Sub(p.server.now()))
}

// renew gets new tokens for a session.
func (p *proxy) renew(ctx context.Context, old *session) (*session, error) {
	t, err := p.server.exchange(ctx, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old.Refresh}})
	if refused := (errRefused{}); errors.As(err, &refused) {
		return nil, errNoSession // it was revoked, or has expired
	}
	if err != nil {
		return nil, err
	}
	fresh := &session{Subject: old.Subject, User: old.User, Email: old.Email, Started: old.Started, Refresh: old.Refresh}
	if err := p.fill(ctx, fresh, t, ""); err != nil {
		return nil, err
	}
	if fresh.Subject != old.Subject {
		return nil, errors.New("the new token is of another user")
	}
	return fresh, nil
}

// fill verifies tokens and sets what they say in a session. An ID token is required at
// login, when there is a nonce.
func (p *proxy) fill(ctx context.Context, s *session, t *tokens, nonce string) error {
	now := p.server.now()
	s.Expires = now.Add(time.Duration(t.Expires) * time.Second).Unix()
	if t.Refresh != "" {
		s.Refresh = t.Refresh
	}
	if t.ID == "" && nonce != "" {
		return errors.New("the authorization server returned no ID token: does the client have the scope openid?")
	}
	if t.ID != "" {
		id, err := p.server.verify(ctx, t.ID, expectation{nonce: nonce})
		if err != nil {
			return wrap("the ID token is not accepted", err)
		}
		s.Subject, s.Email = id.Subject, id.Email
		s.User = firstOf(id.UserName, id.Username, id.Email, id.Subject)
	}
	s.Scopes = strings.Fields(t.Scope)
	if isJWT(t.Access) {
		access, err := p.server.verify(ctx, t.Access, expectation{access: true})
		if err != nil {
			return wrap("the access token is not accepted", err)
		}
		if access.Subject != s.Subject {
			return errors.New("the access token is of another user than the ID token")
		}
		s.Scopes, s.Expires = access.Scope, min(s.Expires, int64(access.Expires))
	}
	if p.passToken {
		s.Access = t.Access
	}
	return nil
}

// missing returns the first required scope that a session does not have.
func (p *proxy) missing(s *session) string {
	for _, scope := range p.required {
		if !slices.Contains(s.Scopes, scope) {
			return scope
		}
	}
	return ""
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// wrap adds what happened to an error, and keeps it recognizable.
func wrap(what string, err error) error { return &wrapped{what, err} }

type wrapped struct {
	what string
	err  error
}

func (w *wrapped) Error() string { return w.what + ": " + w.err.Error() }
func (w *wrapped) Unwrap() error { return w.err }

// renewals makes sure that a refresh token is used once, although browsers send many
// requests with the same cookie: many servers revoke a login whose token is used twice.
type renewals struct {
	mu    sync.Mutex
	calls map[[sha256.Size]byte]*renewal
	now   func() time.Time
}

type renewal struct {
	done   chan struct{}
	result *session
	err    error
	at     time.Time
}

const (
	// renewalLife is how long a result is given to requests that still have the old cookie.
	renewalLife    = time.Minute
	renewalTimeout = 15 * time.Second
)

// do calls a function for a refresh token, or returns the result of another such call.
func (r *renewals) do(ctx context.Context, token string,
	call func(context.Context) (*session, error)) (*session, error) {
	id := sha256.Sum256([]byte(token))
	r.mu.Lock()
	now := r.now()
	for other, c := range r.calls {
		if now.Sub(c.at) > renewalLife {
			delete(r.calls, other)
		}
	}
	c, running := r.calls[id]
	if !running {
		c = &renewal{done: make(chan struct{}), at: now}
		r.calls[id] = c
		// It continues if this client disconnects: others wait for it.
		go func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, renewalTimeout)
			defer cancel()
			c.result, c.err = call(ctx)
			if c.err != nil && !errors.Is(c.err, errNoSession) {
				r.mu.Lock()
				delete(r.calls, id) // the next request tries again
				r.mu.Unlock()
			}
			close(c.done)
		}(context.WithoutCancel(ctx))
	}
	r.mu.Unlock()
	select {
	case <-c.done:
		return c.result, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
