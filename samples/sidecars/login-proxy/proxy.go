package main

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"
	"strings"
	"time"

	"ingot/samples/internal/sample"
)

// The headers that tell the app about the user.
var userHeaders = []string{"X-Forwarded-User", "X-Forwarded-Email", "X-Forwarded-Scopes", "X-Forwarded-User-Id"}

// proxy lets logged-in users through to the app.
type proxy struct {
	listen, upstream string
	redirect         *url.URL // of the callback
	afterLogout      string
	scopes, required []string
	public           []string // paths; those that end with * are prefixes
	passToken        bool
	lifetime         time.Duration
	response         time.Duration
	connections      int
	server           *authServer
	seal             sealer
	cookies          jar
	protection       *http.CrossOriginProtection
	renewals         renewals
}

type sessionKey struct{}

// handler returns the handler of all requests.
func (p *proxy) handler() http.Handler {
	pass := sample.NewProxy(&url.URL{Scheme: "http", Host: p.upstream}, sample.NewTransport(p.response), p.prepare)
	base := path.Dir(p.redirect.Path)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case p.redirect.Path:
			p.callback(w, r)
		case path.Join(base, "login"):
			p.login(w, r, localPath(r.URL.Query().Get("to")))
		case path.Join(base, "logout"):
			p.logout(w, r)
		default:
			if p.isPublic(r.URL) {
				pass.ServeHTTP(w, r)
			} else if s := p.authenticate(w, r); s != nil {
				pass.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), sessionKey{}, s)))
			}
		}
	})
}

// prepare changes a request for the app.
func (p *proxy) prepare(r *httputil.ProxyRequest) {
	h := r.Out.Header
	sample.StripHeaders(h, userHeaders...)
	// The platform's router has set them; the proxy is behind it.
	for _, name := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "Forwarded"} {
		if v := r.In.Header.Values(name); v != nil {
			h[name] = v
		}
	}
	// The app has no use for the proxy's own cookies.
	kept := []string{}
	for _, c := range r.In.Cookies() {
		if !strings.HasPrefix(c.Name, p.cookies.name) {
			kept = append(kept, c.Name+"="+c.Value)
		}
	}
	if h.Get("Cookie") != "" && len(kept) < len(r.In.Cookies()) {
		h.Del("Cookie")
		if len(kept) > 0 {
			h.Set("Cookie", strings.Join(kept, "; "))
		}
	}
	s, ok := r.In.Context().Value(sessionKey{}).(*session)
	if !ok {
		return
	}
	for i, value := range []string{s.User, s.Email, strings.Join(s.Scopes, " "), s.Subject} {
		if value != "" {
			h.Set(userHeaders[i], value)
		}
	}
	if p.passToken {
		h.Set("Authorization", "Bearer "+s.Access)
	}
}

// isPublic reports whether a path needs no login. A path that an app may understand
// differently is never public.
func (p *proxy) isPublic(u *url.URL) bool {
	clean := path.Clean(u.Path)
	if strings.HasSuffix(u.Path, "/") && clean != "/" {
		clean += "/"
	}
	if clean != u.Path || u.RawPath != "" || strings.ContainsAny(u.Path, "\\;%") {
		return false
	}
	for _, allowed := range p.public {
		if prefix, ok := strings.CutSuffix(allowed, "*"); u.Path == allowed || ok && strings.HasPrefix(u.Path, prefix) {
			return true
		}
	}
	return false
}

// authenticate returns the session of a request that may pass to the app. It responds to
// others itself.
func (p *proxy) authenticate(w http.ResponseWriter, r *http.Request) *session {
	s, err := p.session(w, r)
	switch {
	case errors.Is(err, errNoSession):
		p.unauthenticated(w, r)
		return nil
	case err != nil:
		p.fail(w, err)
		return nil
	}
	// Apps of one domain are the same site for cookies, so SameSite alone does not keep a
	// neighbour's page from sending requests.
	if err := p.sameOrigin(r); err != nil {
		refuse(w, http.StatusForbidden,
			"This request was sent from another site. If that is right, name it in LOGIN_TRUSTED_ORIGINS.")
		return nil
	}
	if scope := p.missing(s); scope != "" {
		refuse(w, http.StatusForbidden,
			fmt.Sprintf("You are logged in as %s, and this app requires the scope %s, which you do not have. Ask an "+
				"administrator for it, or log out at %s and log in as another user.",
				s.User, scope, path.Join(path.Dir(p.redirect.Path), "logout")))
		return nil
	}
	return s
}

// sameOrigin checks requests that change something, and WebSockets.
func (p *proxy) sameOrigin(r *http.Request) error {
	if r.Header.Get("Upgrade") == "" {
		return p.protection.Check(r)
	}
	// The check is for requests that change something, and a WebSocket may.
	like := r.Clone(r.Context())
	like.Method = http.MethodPost
	return p.protection.Check(like)
}

// unauthenticated sends browsers to the login, and refuses programs.
func (p *proxy) unauthenticated(w http.ResponseWriter, r *http.Request) {
	page := r.Method == http.MethodGet || r.Method == http.MethodHead
	if !page || !strings.Contains(r.Header.Get("Accept"), "text/html") || r.Header.Get("Upgrade") != "" {
		refuse(w, http.StatusUnauthorized, "Log in first: open "+path.Join(path.Dir(p.redirect.Path), "login")+
			" in a browser.")
		return
	}
	p.login(w, r, localPath(r.URL.RequestURI()))
}

// attempt is a login that has begun.
type attempt struct {
	State    string `json:"s"`
	Verifier string `json:"v"`
	Nonce    string `json:"n"`
	To       string `json:"t"`
	Expires  int64  `json:"x"`
}

const (
	attemptLife = 10 * time.Minute
	// maxAttempts is how many tabs of one browser can be at the login page.
	maxAttempts = 4
)

func randomText() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return base64.RawURLEncoding.EncodeToString(b)
}

// attemptCookie returns the name of the cookie of an attempt.
func (p *proxy) attemptCookie(state string) string {
	sum := sha256.Sum256([]byte(state))
	return p.cookies.name + "-attempt-" + base64.RawURLEncoding.EncodeToString(sum[:6])
}

// login sends the browser to the authorization server.
func (p *proxy) login(w http.ResponseWriter, r *http.Request, to string) {
	e, err := p.server.discover(r.Context())
	if err != nil {
		p.fail(w, err)
		return
	}
	a := attempt{State: randomText(), Verifier: randomText(), Nonce: randomText(), To: to, Expires: p.server.now().
		Add(attemptLife).Unix()}
	sealed, err := p.seal.seal(attemptPurpose, a)
	if err != nil {
		p.fail(w, err)
		return
	}
	open := 0
	for _, c := range r.Cookies() {
		if strings.HasPrefix(c.Name, p.cookies.name+"-attempt-") {
			if open++; open >= maxAttempts {
				http.SetCookie(w, p.cookies.cookie(c.Name, "", -1))
			}
		}
	}
	http.SetCookie(w, p.cookies.cookie(p.attemptCookie(a.State), sealed, int(attemptLife/time.Second)))
	sum := sha256.Sum256([]byte(a.Verifier))
	u, err := url.Parse(e.Authorization)
	if err != nil {
		p.fail(w, err)
		return
	}
	q := u.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": p.server.clientID, "redirect_uri": p.redirect.String(),
		"scope": strings.Join(p.scopes, " "),
		"state": a.State, "nonce": a.Nonce, "code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]),
		"code_challenge_method": "S256",
	} {
		q.Set(name, value)
	}
	u.RawQuery = q.Encode()
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, u.String(), http.StatusFound)
}

// localPath returns a path of this app, or its first page: the login must not become an
// open redirect.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(to, "/") ||
		strings.HasPrefix(to, "//") ||
		strings.ContainsFunc(to, func(c rune) bool { return c < ' ' || c == '\\' || c == 0x7f }) || len(to) > 2000 {
		return "/"
	}
	return to
}

// callback is where the browser comes back with a code.
func (p *proxy) callback(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	q := r.URL.Query()
	name := p.attemptCookie(q.Get("state"))
	var a attempt
	c, err := r.Cookie(name)
	if err != nil || p.seal.open(attemptPurpose, c.Value, &a) != nil || p.server.now().Unix() > a.Expires ||
		subtle.ConstantTimeCompare([]byte(a.State), []byte(q.Get("state"))) != 1 {
		refuse(w, http.StatusBadRequest,
			"This login was not started by this browser, or it took too long. Open the app again.")
		return
	}
	http.SetCookie(w, p.cookies.cookie(name, "", -1))
	if problem := q.Get("error"); problem != "" {
		refuse(w, http.StatusForbidden, fmt.Sprintf("The authorization server refused the login: %.200s (%.100s).",
			q.Get("error_description"), problem))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), renewalTimeout)
	defer cancel()
	t, err := p.server.exchange(ctx, url.Values{
		"grant_type": {"authorization_code"}, "code": {q.Get("code")}, "redirect_uri": {p.redirect.String()},
		"code_verifier": {a.Verifier},
	})
	s := &session{Started: p.server.now().Unix()}
	if err == nil {
		err = p.fill(ctx, s, t, a.Nonce)
	}
	if err == nil {
		err = p.keep(w, r, s)
	}
	if err != nil {
		p.fail(w, err)
		return
	}
	slog.Info("login", "user", s.User, "id", s.Subject)
	http.Redirect(w, r, localPath(a.To), http.StatusSeeOther)
}

// logout ends the session here and at the authorization server.
func (p *proxy) logout(w http.ResponseWriter, r *http.Request) {
	// An image on another site must not log users out.
	if site := r.Header.Get("Sec-Fetch-Site"); site == "cross-site" || site == "same-site" ||
		p.protection.Check(r) != nil {
		refuse(w, http.StatusForbidden, "This request was sent from another site.")
		return
	}
	var s session
	if p.seal.open(sessionPurpose, p.cookies.get(r), &s) == nil && s.Refresh != "" {
		ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second)
		p.server.revoke(ctx, s.Refresh)
		cancel()
	}
	p.cookies.clear(w, r, 0)
	w.Header().Set("Cache-Control", "no-store")
	to := p.afterLogout
	if e, err := p.server.discover(r.Context()); err == nil && e.EndSession != "" {
		if u, err := url.Parse(e.EndSession); err == nil {
			q := u.Query()
			q.Set("client_id", p.server.clientID)
			q.Set("redirect", p.afterLogout) // the name in UAA
			q.Set("post_logout_redirect_uri", p.afterLogout)
			u.RawQuery = q.Encode()
			to = u.String()
		}
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // from the settings and the authorization server
}

// fail responds to a failure that is not the user's.
func (p *proxy) fail(w http.ResponseWriter, err error) {
	switch refused := (errRefused{}); {
	case errors.Is(err, context.Canceled):
		return // the browser has gone
	case errors.As(err, &refused):
		slog.Warn("login refused", "error", err)
		refuse(w, http.StatusForbidden, "The authorization server refused the login. Open the app again to repeat it.")
	case errors.Is(err, errUnavailable), errors.Is(err, context.DeadlineExceeded):
		slog.Error("the authorization server cannot be used", "error", err)
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, "The authorization server is not available. Try again in a moment.")
	default:
		slog.Error("login failed", "error", err)
		refuse(w, http.StatusBadGateway, "The login failed. The log of the app says why.")
	}
}

// refuse responds with a message. Plain text, so that nothing in it is code.
func refuse(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.Error(w, text, status)
}
