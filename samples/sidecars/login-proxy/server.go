package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// authServer is the authorization server, seen as a client.
type authServer struct {
	// public is its address for browsers, internal the one for this instance.
	public, internal string
	issuer           string // expected; empty accepts those that fit public
	clientID, secret string
	client           http.Client
	now              func() time.Time

	mu        sync.Mutex
	endpoints *endpoints
	keys      []key
	keysAt    time.Time
}

// endpoints are those of OpenID Connect's discovery.
type endpoints struct {
	Issuer        string `json:"issuer"`
	Authorization string `json:"authorization_endpoint"`
	Token         string `json:"token_endpoint"`
	Keys          string `json:"jwks_uri"`
	EndSession    string `json:"end_session_endpoint"`
	// Methods are the ways in which a client can authenticate.
	Methods []string `json:"token_endpoint_auth_methods_supported"`
}

const (
	// largest is the size of the largest response that is read.
	largest = 1 << 20
	// keysLife is how long keys are used without asking again.
	keysLife = time.Hour
	// keysPause is the shortest time between two requests for keys, so that made-up tokens
	// do not cause many.
	keysPause = 10 * time.Second
)

// errUnavailable means that the authorization server does not answer properly now.
var errUnavailable = errors.New("the authorization server is not available")

// get requests JSON.
func (a *authServer) get(ctx context.Context, address string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := a.client.Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnavailable, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, largest))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%w: GET %s: %w", errUnavailable, address, err)
	}
	return nil
}

// discover returns the endpoints. They are requested once.
func (a *authServer) discover(ctx context.Context) (*endpoints, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.endpoints != nil {
		return a.endpoints, nil
	}
	e := new(endpoints)
	if err := a.get(ctx, a.internal+"/.well-known/openid-configuration", e); err != nil {
		return nil, err
	}
	if a.issuer != "" && e.Issuer != a.issuer || a.issuer == "" && e.Issuer != a.public && e.Issuer != a.public+
		"/oauth/token" {
		want := a.issuer
		if want == "" {
			want = a.public + "/oauth/token"
		}
		return nil, fmt.Errorf("%w: its issuer is %q, and %q is expected: set LOGIN_ISSUER if that is right", errUnavailable,
			e.Issuer, want)
	}
	move := func(address *string, from, to string) {
		if rest, ok := strings.CutPrefix(*address, from); ok {
			*address = to + rest
		}
	}
	move(&e.Authorization, a.internal, a.public)
	move(&e.EndSession, a.internal, a.public)
	move(&e.Token, a.public, a.internal)
	move(&e.Keys, a.public, a.internal)
	for _, address := range []string{e.Authorization, e.Token, e.Keys} {
		if u, err := url.Parse(address); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("%w: its discovery document has the address %q", errUnavailable, address)
		}
	}
	a.endpoints = e
	return e, nil
}

// verify verifies a token. Keys are requested again when it has an unknown one.
func (a *authServer) verify(ctx context.Context, token string, want expectation) (*claims, error) {
	e, err := a.discover(ctx)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.now()
	c, err := verify(token, a.keys)
	if now.Sub(a.keysAt) > keysLife || errors.Is(err, errUnknownKey) && now.Sub(a.keysAt) > keysPause {
		var set struct {
			Keys []key `json:"keys"`
		}
		if err := a.get(ctx, e.Keys, &set); err != nil {
			return nil, err
		}
		for i := range set.Keys {
			if err := set.Keys[i].parse(); err != nil {
				return nil, err
			}
		}
		a.keys, a.keysAt = set.Keys, now
		c, err = verify(token, a.keys)
	}
	if err != nil {
		return nil, err
	}
	want.issuer, want.client, want.now = e.Issuer, a.clientID, now
	if err := c.check(want); err != nil {
		return nil, err
	}
	return c, nil
}

// tokens is the answer of the token endpoint.
type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	ID      string `json:"id_token"`
	Expires int64  `json:"expires_in"`
	Scope   string `json:"scope"`

	Error       string `json:"error"`
	Description string `json:"error_description"`
}

// errRefused means that the authorization server did not accept a code or a refresh
// token.
type errRefused struct{ reason string }

func (e errRefused) Error() string { return "the authorization server refused: " + e.reason }

// exchange requests tokens.
func (a *authServer) exchange(ctx context.Context, form url.Values) (*tokens, error) {
	e, err := a.discover(ctx)
	if err != nil {
		return nil, err
	}
	// In the form, if the server accepts that: servers do not agree on how a header encodes
	// a secret with special characters.
	inHeader := a.secret != "" && len(e.Methods) > 0 && !slices.Contains(e.Methods, "client_secret_post")
	if !inHeader {
		form.Set("client_id", a.clientID)
		if a.secret != "" {
			form.Set("client_secret", a.secret)
		}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, e.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	if inHeader {
		r.SetBasicAuth(url.QueryEscape(a.clientID), url.QueryEscape(a.secret))
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Accept", "application/json")
	answer, err := a.client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	defer answer.Body.Close()
	t := new(tokens)
	text, err := io.ReadAll(io.LimitReader(answer.Body, largest))
	if err == nil {
		err = json.Unmarshal(text, t)
	}
	switch {
	case answer.StatusCode == http.StatusBadRequest || answer.StatusCode == http.StatusUnauthorized:
		return nil, errRefused{fmt.Sprintf("%.100s (%.300s)", t.Error, t.Description)}
	case err != nil || answer.StatusCode != http.StatusOK || t.Access == "":
		return nil, fmt.Errorf("%w: it answered %s to a request for tokens", errUnavailable, answer.Status)
	}
	return t, nil
}

// revoke revokes a login's refresh token, if the server supports it. The address is
// UAA's.
func (a *authServer) revoke(ctx context.Context, refresh string) {
	var c claims
	parts := strings.Split(refresh, ".")
	if len(parts) != 3 || decodePart(parts[1], &c) != nil || c.ID == "" {
		return
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodDelete, a.internal+"/oauth/token/revoke/"+
		url.PathEscape(c.ID), nil)
	if err != nil {
		return
	}
	r.Header.Set("Authorization", "Bearer "+refresh)
	if answer, err := a.client.Do(r); err == nil {
		answer.Body.Close()
	}
}
