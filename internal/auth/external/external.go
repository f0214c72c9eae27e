package external

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

	"ingot/internal/base/background"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
)

// Server is a UAA-compatible authorization server with a base URL. Until its
// issuer is known, requests with tokens are answered with 503.
type Server struct {
	background.Part
	base   string
	client *http.Client
	log    *slog.Logger
	keys   *token.RemoteKeys
	// learned is called once, when the issuer is known.
	learned func()
	issuer  atomic.Pointer[string]
}

const (
	discoveryTimeout  = 2 * time.Second
	firstRediscovery  = 250 * time.Millisecond
	slowestRediscover = 15 * time.Second
)

// New returns a Server that is asked with client. learned is called once, when
// the issuer is known.
func New(base string, client *http.Client, log *slog.Logger, learned func()) *Server {
	return &Server{base: base, client: client, log: log, keys: token.NewRemoteKeys(base, client), learned: learned}
}

// Start asks the server for its issuer. If it does not answer, Start returns
// nevertheless, and the server is asked again in the background.
func (e *Server) Start(ctx context.Context) error {
	return e.Launch(ctx, func(work context.Context, spawn func(func())) error {
		err := e.discover(ctx)
		if err == nil {
			e.learned()
			return nil
		}
		e.log.Warn("the authorization server does not answer yet; tokens cannot be checked until it does", "auth_url", e.base,
			"error", err)
		spawn(func() { e.keepAsking(work) })
		return nil
	})
}

// Stop stops asking.
func (e *Server) Stop() { e.Halt(nil) }

func (e *Server) keepAsking(ctx context.Context) {
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
func (e *Server) discover(ctx context.Context) error {
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
		return fmt.Errorf("OpenID configuration: status %s", res.Status)
	}
	var found struct {
		Issuer string `json:"issuer"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, 1<<20)).Decode(&found); err != nil {
		return fmt.Errorf("OpenID configuration: %w", err)
	}
	if found.Issuer == "" {
		return errors.New("the OpenID configuration has no issuer")
	}
	e.issuer.Store(&found.Issuer)
	return nil
}

// Verifier returns a verifier for tokens of the server. It fails for all tokens
// while the issuer is not known.
func (e *Server) Verifier(audiences ...string) *token.Verifier {
	issuer := e.issuer.Load()
	if issuer == nil {
		return token.NewVerifier(token.Options{Issuer: e.base, Audiences: audiences, Keys: noKeys{}})
	}
	return token.NewVerifier(token.Options{Issuer: *issuer, Audiences: audiences, Keys: e.keys})
}

// Routes registers nothing: the other server has the routes.
func (e *Server) Routes(*web.Mux) {}

// noKeys are the keys of a server that has not answered yet. Its error is not
// token.ErrUnknownKey, so that clients are told to try again and not that their
// token is invalid.
type noKeys struct{}

func (noKeys) Key(context.Context, string) (any, error) {
	return nil, errors.New("the authorization server has not answered yet")
}
