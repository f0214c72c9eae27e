package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/background"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
)

// authority is the authorization server as the rest of the system sees it: the
// built-in one, or one somewhere else.
type authority interface {
	background.Service
	// Verifier checks tokens for an API that calls itself by one of audiences.
	Verifier(audiences ...string) *token.Verifier
	// Routes registers its routes, if they are ours to serve.
	Routes(m *web.Mux)
}

var (
	_ authority = (*auth.Server)(nil)
	_ authority = (*externalAuth)(nil)
)

// externalAuth is a UAA-compatible server given by --auth-url. We start also
// when it is not there yet: until it has said who it is, tokens are answered
// with 503.
type externalAuth struct {
	background.Part
	base   string
	client *http.Client
	log    *slog.Logger
	keys   *token.RemoteKeys
	// learned is called once, when the issuer became known.
	learned func()
	issuer  atomic.Pointer[string]
}

const (
	discoveryTimeout  = 2 * time.Second
	firstRediscovery  = 250 * time.Millisecond
	slowestRediscover = 15 * time.Second
)

func newExternalAuth(base string, client *http.Client, log *slog.Logger, learned func()) *externalAuth {
	return &externalAuth{base: base, client: client, log: log, keys: token.NewRemoteKeys(base, client), learned: learned}
}

// Start asks the server who it is, and goes on asking in the background when
// it does not answer.
func (e *externalAuth) Start(ctx context.Context) error {
	return e.Launch(ctx, func(work context.Context, spawn func(func())) error {
		err := e.discover(ctx)
		if err == nil {
			e.learned()
			return nil
		}
		e.log.Warn("the authorization server does not answer yet; tokens cannot be checked until it does", "auth_url", e.base, "error", err)
		spawn(func() { e.keepAsking(work) })
		return nil
	})
}

// Stop ends the asking.
func (e *externalAuth) Stop() { e.Halt(nil) }

func (e *externalAuth) keepAsking(ctx context.Context) {
	for pause := firstRediscovery; ; pause = min(2*pause, slowestRediscover) {
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if e.discover(ctx) == nil {
			e.log.Info("the authorization server answers now", "auth_url", e.base)
			e.learned()
			return
		}
	}
}

// discover reads the issuer from the server's OpenID configuration.
func (e *externalAuth) discover(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, discoveryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base+"/.well-known/openid-configuration", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", "application/json")
	res, err := e.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("its OpenID configuration: status %s", res.Status)
	}
	var found struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&found); err != nil {
		return fmt.Errorf("its OpenID configuration: %w", err)
	}
	if found.Issuer == "" {
		return errors.New("its OpenID configuration names no issuer")
	}
	e.issuer.Store(&found.Issuer)
	return nil
}

// Verifier checks tokens of the server, or none while it is unknown.
func (e *externalAuth) Verifier(audiences ...string) *token.Verifier {
	issuer := e.issuer.Load()
	if issuer == nil {
		return token.NewVerifier(token.Options{Issuer: e.base, Audiences: audiences, Keys: noKeys{}})
	}
	return token.NewVerifier(token.Options{Issuer: *issuer, Audiences: audiences, Keys: e.keys})
}

// Routes registers nothing: they are served elsewhere.
func (e *externalAuth) Routes(*web.Mux) {}

// noKeys are the keys of a server that has not answered yet. Its error is not
// token.ErrUnknownKey, so that the caller is told to try again and not that
// his token is bad.
type noKeys struct{}

func (noKeys) Key(context.Context, string) (any, error) {
	return nil, errors.New("the authorization server has not answered yet")
}
