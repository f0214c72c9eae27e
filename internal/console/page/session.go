package page

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

// ErrNotFound means that a session does not exist.
var ErrNotFound = errors.New("no such session")

const (
	// sessionLife is how long a session lives, in use or not.
	sessionLife = 12 * time.Hour
	// MaxSessions is how many sessions a user may have. The oldest are removed.
	MaxSessions = 20
	// refreshEarly is how long before its end an access token is replaced.
	refreshEarly = 30 * time.Second
)

// Session is the login of a browser.
type Session struct {
	Hash     string // of the cookie
	UserID   string
	UserName string
	// Access, Refresh and CSRF are stored encrypted.
	Secrets       Secrets
	AccessExpires time.Time
	Scopes        []string
	Expires       time.Time
}

// Secrets are the secrets of a session.
type Secrets struct {
	Access  string `json:"access"`
	Refresh string `json:"refresh"`
	CSRF    string `json:"csrf"`
}

// Store keeps sessions. All servers of a cluster share it.
type Store interface {
	// Create stores a session, and removes the oldest of its user beyond keep and all that
	// have expired.
	Create(ctx context.Context, s *Session, keep int, now time.Time) error
	// Get returns a session, or ErrNotFound.
	Get(ctx context.Context, hash string) (*Session, error)
	// Refresh replaces the tokens of a session.
	Refresh(ctx context.Context, s *Session) error
	// Delete removes a session if it exists.
	Delete(ctx context.Context, hash string) error
}

// Cookies. With TLS their names have the prefix that keeps apps on other names of the
// domain from setting them.
const (
	sessionCookie = "ingot_console"
	loginCookie   = "ingot_console_login"
	hostPrefix    = "__Host-"
)

// Secure reports whether the browser uses TLS. The front removes the header from requests of
// untrusted proxies.
func Secure(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

func cookieName(r *http.Request, name string) string {
	if Secure(r) {
		return hostPrefix + name
	}
	return name
}

func setCookie(w http.ResponseWriter, r *http.Request, name, value string, life time.Duration) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure follows the scheme: plain http is for loopback
		Name: cookieName(r, name), Value: value, Path: "/", MaxAge: int(life / time.Second), HttpOnly: true,
		Secure: Secure(r),
		// Lax: the authorization server sends the browser back with a link.
		SameSite: http.SameSiteLaxMode,
	})
}

func readCookie(r *http.Request, name string) string {
	cookie, err := r.Cookie(cookieName(r, name))
	if err != nil {
		return ""
	}
	return cookie.Value
}

// RandomText returns a secret of 43 characters.
func RandomText() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// session returns the session of a request with a valid access token, or nil.
func (c *Console) session(r *http.Request) (*Session, error) {
	value := readCookie(r, sessionCookie)
	if value == "" {
		return nil, nil
	}
	return c.SessionOf(r, hashOf(value))
}

// SessionOf returns a session with a valid access token, or nil.
func (c *Console) SessionOf(r *http.Request, hash string) (*Session, error) {
	ctx := r.Context()
	s, err := c.Options.Sessions.Get(ctx, hash)
	if errors.Is(err, ErrNotFound) || err == nil && !time.Now().Before(s.Expires) {
		return nil, nil
	}
	if err != nil || s.fresh() {
		return s, err
	}
	unlock, err := c.refreshing.Lock(ctx, hash)
	if err != nil {
		return nil, err
	}
	defer unlock()
	// Another request may have refreshed it meanwhile.
	if s, err = c.Options.Sessions.Get(ctx, hash); errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil || s.fresh() {
		return s, err
	}
	err = c.refresh(r, s)
	if fault.Is(err, fault.Unauthenticated) {
		return nil, c.endSession(ctx, hash)
	}
	return s, err
}

// endSession deletes a session, and ends its streams and shells.
func (c *Console) endSession(ctx context.Context, hash string) error {
	defer c.streams.end(hash)
	return c.Options.Sessions.Delete(ctx, hash)
}

// Has reports whether the user's token has one of the scopes. It decides what is shown; the
// APIs decide what is allowed.
func (s *Session) Has(scopes ...string) bool {
	return slices.ContainsFunc(scopes, func(one string) bool { return slices.Contains(s.Scopes, one) })
}

func (s *Session) fresh() bool { return time.Now().Before(s.AccessExpires.Add(-refreshEarly)) }

// csrfToken returns the session's token in a form that differs in every page, so that the
// size of compressed pages says nothing of it.
func (s *Session) csrfToken() string {
	secret := []byte(s.Secrets.CSRF)
	masked := make([]byte, 2*len(secret))
	_, _ = rand.Read(masked[:len(secret)]) // never fails
	subtle.XORBytes(masked[len(secret):], masked[:len(secret)], secret)
	return base64.RawURLEncoding.EncodeToString(masked)
}

func (s *Session) checkCSRF(text string) bool {
	masked, err := base64.RawURLEncoding.DecodeString(text)
	n := len(s.Secrets.CSRF)
	if err != nil || n == 0 || len(masked) != 2*n {
		return false
	}
	plain := make([]byte, n)
	subtle.XORBytes(plain, masked[:n], masked[n:])
	return subtle.ConstantTimeCompare(plain, []byte(s.Secrets.CSRF)) == 1
}

// Admin reports whether the user administers the platform.
func (s *Session) Admin() bool { return slices.Contains(s.Scopes, "cloud_controller.admin") }

// OffersCSRF reports whether a protocol that the browser offers is the session's token.
func (s *Session) OffersCSRF(r *http.Request) bool {
	for _, line := range r.Header.Values("Sec-WebSocket-Protocol") {
		for one := range strings.SplitSeq(line, ",") {
			if s.checkCSRF(strings.TrimSpace(one)) {
				return true
			}
		}
	}
	return false
}
