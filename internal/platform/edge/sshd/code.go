package sshd

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// User is the owner of a one-time code.
type User struct {
	GUID   string
	Name   string
	Scopes []string
}

// Target is the instance that a user wants to log in to, with everything that decides
// whether that is allowed.
type Target struct {
	AppGUID string
	// Standing is the user's standing in the space of the app.
	Standing platform.Standing
	// SpaceAllows and AppAllows report whether ssh is enabled.
	SpaceAllows bool
	AppAllows   bool
	Started     bool // the app should run
	// Running means that the instance runs; InstanceID is the engine's id of it, empty if
	// there is none.
	Running    bool
	InstanceID string
	// Env is added to the environment of the instance.
	Env []string
}

// Platform provides the facts for authorization.
type Platform interface {
	// Identify checks an access token and returns its user. The error for an invalid token
	// is fault.InvalidToken or Unauthenticated.
	Identify(ctx context.Context, accessToken string) (User, error)
	// Target looks up an instance. The error for an unknown process is fault.NotFound; an
	// unknown instance is a Target without InstanceID.
	Target(ctx context.Context, u User, processGUID string, index int) (Target, error)
}

// CodeOptions configure a CodeAuthorizer.
type CodeOptions struct {
	// TokenURL is the token endpoint of the authorization server.
	TokenURL string
	// ClientID and Secret are those of the client that codes are issued for; empty means
	// ssh-proxy with an empty secret.
	ClientID string
	Secret   string
	// HTTP is the client to use; nil means one with a timeout and with TLS.
	HTTP *http.Client
	// TLS is for connections; nil means the system's certificates.
	TLS      *tls.Config
	Platform Platform
}

// CodeAuthorizer exchanges one-time codes at the authorization server for the token of
// their owner, and applies the rules of the platform.
type CodeAuthorizer struct{ o CodeOptions }

var _ Authorizer = (*CodeAuthorizer)(nil)

const (
	defaultClient = "ssh-proxy"
	maxCode       = 1024
	maxAnswer     = 1 << 20
)

// NewCodeAuthorizer returns an Authorizer for one-time codes.
func NewCodeAuthorizer(o CodeOptions) *CodeAuthorizer {
	if o.ClientID == "" {
		o.ClientID = defaultClient
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{
			Timeout: 10 * time.Second,
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				DialContext:         (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
				TLSClientConfig:     o.TLS,
				TLSHandshakeTimeout: 5 * time.Second,
				IdleConnTimeout:     time.Minute,
			},
			// A code must not be sent to another server.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return &CodeAuthorizer{o}
}

// Close closes idle connections to the authorization server.
func (a *CodeAuthorizer) Close() { a.o.HTTP.CloseIdleConnections() }

// Authorize implements Authorizer.
func (a *CodeAuthorizer) Authorize(ctx context.Context, code, processGUID string, index int,
	_ net.Addr) (Session, error) {
	s := Session{ProcessGUID: processGUID, Index: index}
	u, _, err := a.Login(ctx, code)
	if err != nil {
		return s, err
	}
	s.UserGUID, s.UserName = u.GUID, u.Name
	t, err := a.o.Platform.Target(ctx, u, processGUID, index)
	if err != nil {
		return s, err
	}
	s.AppGUID = t.AppGUID
	if err := mayEnter(u, t); err != nil {
		return s, err
	}
	s.InstanceID, s.Env = t.InstanceID, t.Env
	return s, nil
}

// Login returns the owner of a code, and the token that the code was exchanged for.
func (a *CodeAuthorizer) Login(ctx context.Context, code string) (User, string, error) {
	raw, err := a.exchange(ctx, code)
	if err != nil {
		return User{}, "", err
	}
	u, err := a.o.Platform.Identify(ctx, raw)
	if fault.Is(err, fault.InvalidToken) {
		err = fault.Wrap(err, fault.Unauthenticated, "the token of the code is not valid here")
	}
	return u, raw, err
}

// mayEnter decides: space developers and administrators, if ssh is enabled, into running
// instances.
func mayEnter(u User, t Target) error {
	switch {
	case !t.Standing.Grants(platform.ReadSpace):
		return fault.New(fault.NotFound, "the user cannot see this app")
	case !t.Standing.Admin && !slices.Contains(u.Scopes, platform.ScopeWrite):
		return fault.New(fault.Forbidden, "the token has not the scope %s", platform.ScopeWrite)
	case !t.Standing.Grants(platform.OpenShell):
		return fault.New(fault.Forbidden, "the user is no developer of the space")
	case t.Standing.Check(platform.OpenShell) != nil:
		return fault.New(fault.Forbidden, "the organization is suspended")
	}
	switch {
	case !t.SpaceAllows:
		return fault.New(fault.FeatureDisabled, "ssh is disabled for the space; cf allow-space-ssh allows it")
	case !t.AppAllows:
		return fault.New(fault.FeatureDisabled, "ssh is disabled for the app; cf enable-ssh enables it")
	case !t.Started:
		return fault.New(fault.Unprocessable, "the app is stopped; cf start starts it")
	case t.InstanceID == "" || !t.Running:
		return fault.New(fault.Unprocessable, "the instance is not running; check it with \"cf app\"")
	}
	return nil
}

// exchange exchanges a code for an access token.
func (a *CodeAuthorizer) exchange(ctx context.Context, code string) (string, error) {
	if code == "" || len(code) > maxCode {
		return "", fault.New(fault.Unauthenticated, "the password is no one-time code")
	}
	form := url.Values{"grant_type": {"authorization_code"}, "response_type": {"token"}, "code": {code}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.o.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	// RFC 6749, 2.3.1: both are form-encoded before they go into the header; UAA reads them
	// unencoded unless configured otherwise.
	req.SetBasicAuth(url.QueryEscape(a.o.ClientID), url.QueryEscape(a.o.Secret))
	req.Header.Set("X-CF-ENCODED-CREDENTIALS", "true")
	resp, err := a.o.HTTP.Do(req)
	if err != nil {
		return "", fmt.Errorf("exchanging a one-time code: %w", err)
	}
	defer resp.Body.Close()
	var answer struct {
		AccessToken string `json:"access_token"`
		Error       string `json:"error"`
	}
	err = json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&answer)
	switch {
	// A wrong code is invalid_grant; invalid_client means a wrong configuration of this
	// server and does not count as a guess. A user who may not have a token gets
	// "unauthorized".
	case resp.StatusCode >= 400 && resp.StatusCode < 500 && (answer.Error == "invalid_grant" ||
		answer.Error == "unauthorized"):
		return "", fault.New(fault.Unauthenticated,
			"the one-time code is not valid: it expired, was used before, or never was one")
	case answer.Error == "invalid_client":
		return "", fmt.Errorf("exchanging a one-time code: the authorization server rejects the credentials of the client %s",
			a.o.ClientID)
	case resp.StatusCode != http.StatusOK:
		return "", fmt.Errorf("exchanging a one-time code: status %d %s", resp.StatusCode, answer.Error)
	case err != nil:
		return "", fmt.Errorf("exchanging a one-time code: %w", err)
	case answer.AccessToken == "":
		return "", errors.New("exchanging a one-time code: the response has no token")
	}
	return answer.AccessToken, nil
}
