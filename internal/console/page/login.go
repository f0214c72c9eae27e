package page

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// loginLife is how long a user may take to log in.
const loginLife = 15 * time.Minute

// attempt is a login that has begun. The browser keeps it in a cookie.
type attempt struct {
	State    string `json:"state"`
	Verifier string `json:"verifier"`
	To       string `json:"to"` // the page to show afterwards
}

// Handler is a web.Handler with the session of its request.
type Handler func(w http.ResponseWriter, r *http.Request, s *Session) error

// within calls a handler with the session of the request. Without one, browsers are sent
// to the login.
func (c *Console) within(h Handler) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		w.Header().Set("Cache-Control", "no-store")
		s, err := c.session(r)
		r = r.WithContext(withCuts(r.Context()))
		if err == nil && s != nil {
			err = h(w, r, s)
			if fault.Is(err, fault.Unauthenticated) || fault.Is(err, fault.InvalidToken) {
				// The token was revoked, for example because the password has changed.
				err = c.endSession(r.Context(), s.Hash)
				s = nil
			}
		}
		switch {
		case err != nil:
			return c.failed(w, r, s, err)
		case s != nil:
			return nil
		case r.Method == http.MethodPost || r.Header.Get("Sec-Fetch-Dest") == "empty" || r.Header.Get("Upgrade") != "":
			return c.failed(w, r, nil, fault.New(fault.Unauthenticated, "You are not logged in any more. Reload the page."))
		default:
			http.Redirect(w, r, Path+"/login?to="+url.QueryEscape(r.URL.RequestURI()), http.StatusFound)
			return nil
		}
	}
}

// changing checks that a request that changes something comes from a form of the console.
func (c *Console) changing(h Handler) Handler {
	return func(w http.ResponseWriter, r *http.Request, s *Session) error {
		if err := c.protection.Check(r); err != nil {
			return fault.Wrap(err, fault.Forbidden, "This form was sent from another site.")
		}
		if err := r.ParseForm(); err != nil {
			return fault.Wrap(err, fault.BadRequest, "The form cannot be read: %v", err)
		}
		if !s.checkCSRF(r.PostForm.Get("csrf")) {
			return staleForm()
		}
		return h(w, r, s)
	}
}

// Origin returns the scheme and host under which the browser reached the console.
func Origin(r *http.Request) string {
	if Secure(r) {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

// login is GET /console/login: it sends the browser to the authorization server.
func (c *Console) login(w http.ResponseWriter, r *http.Request) error {
	a := attempt{State: RandomText(), Verifier: RandomText(), To: localPath(r.URL.Query().Get("to"))}
	b, err := json.Marshal(a)
	if err != nil {
		return err
	}
	setCookie(w, r, loginCookie, base64.RawURLEncoding.EncodeToString(b), loginLife)
	sum := sha256.Sum256([]byte(a.Verifier))
	q := url.Values{
		"response_type": {"code"}, "client_id": {ClientID}, "redirect_uri": {Origin(r) + CallbackPath}, "state": {a.State},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"},
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, c.Options.AuthURL+"/oauth/authorize?"+q.Encode(), http.StatusFound)
	return nil
}

// localPath returns a path of the console, or its first page: the login must not become an
// open redirect.
func localPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.Scheme != "" || u.Host != "" || strings.ContainsAny(to, "\\\r\n\t") || to != Path &&
		!strings.HasPrefix(to, Path+"/") && !strings.HasPrefix(to, Path+"?") {
		return Path
	}
	return to
}

// callback is GET /console/callback: the browser comes back with a code.
func (c *Console) callback(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cache-Control", "no-store")
	q := r.URL.Query()
	var a attempt
	b, err := base64.RawURLEncoding.DecodeString(readCookie(r, loginCookie))
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil || a.State == "" || a.State != q.Get("state") {
		return c.failed(w, r, nil, fault.New(fault.BadRequest,
			"This login was not started by this browser, or it took too long. Log in again."))
	}
	setCookie(w, r, loginCookie, "", -time.Second)
	if problem := q.Get("error"); problem != "" {
		return c.failed(w, r, nil, fault.New(fault.Forbidden, "The authorization server refused the login: %.200s (%.100s).",
			q.Get("error_description"), problem))
	}
	const longest = 1024
	if code := q.Get("code"); code == "" || len(code) > longest {
		return c.failed(w, r, nil, fault.New(fault.BadRequest, "The authorization server sent no code. Log in again."))
	}
	s := &Session{Expires: time.Now().Add(sessionLife)}
	err = c.exchange(r, s, url.Values{
		"grant_type": {"authorization_code"}, "code": {q.Get("code")}, "redirect_uri": {Origin(r) + CallbackPath},
		"code_verifier": {a.Verifier},
	})
	if err != nil {
		return c.failed(w, r, nil, err)
	}
	value := RandomText()
	s.Hash, s.Secrets.CSRF = hashOf(value), RandomText()
	if err := c.Options.Sessions.Create(r.Context(), s, MaxSessions, time.Now()); err != nil {
		return c.failed(w, r, nil, err)
	}
	setCookie(w, r, sessionCookie, value, sessionLife)
	http.Redirect(w, r, localPath(a.To), http.StatusSeeOther)
	return nil
}

// logout is POST /console/logout.
func (c *Console) logout(w http.ResponseWriter, r *http.Request, s *Session) error {
	if err := c.endSession(r.Context(), s.Hash); err != nil {
		return err
	}
	setCookie(w, r, sessionCookie, "", -time.Second)
	q := url.Values{"client_id": {ClientID}, "redirect": {Origin(r) + Path}}
	if c.Options.AuthURL == "" {
		q.Set("redirect", Path)
	}
	http.Redirect(w, r, c.Options.AuthURL+"/logout.do?"+q.Encode(), http.StatusSeeOther)
	return nil
}

// refresh gets new tokens for a session and stores them.
func (c *Console) refresh(r *http.Request, s *Session) error {
	err := c.exchange(r, s, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {s.Secrets.Refresh}})
	if err != nil {
		return err
	}
	return c.Options.Sessions.Refresh(r.Context(), s)
}

// exchange gets tokens and sets what they say in s.
func (c *Console) exchange(r *http.Request, s *Session, form url.Values) error {
	req, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "/oauth/token", strings.NewReader(form.Encode()))
	if err != nil {
		return err
	}
	req.SetBasicAuth(ClientID, c.Options.Secret)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.RequestURI, req.RemoteAddr, req.Host, req.TLS = req.URL.Path, c.Browser(r), r.Host, r.TLS
	w := newRecorder()
	c.authServer().ServeHTTP(w, req)
	status, body := w.status, w.body.Bytes()
	var answer struct {
		Access      string `json:"access_token"`
		Refresh     string `json:"refresh_token"`
		ExpiresIn   int64  `json:"expires_in"`
		Description string `json:"error_description"`
	}
	err = json.Unmarshal(body, &answer)
	switch {
	case status == http.StatusBadRequest || status == http.StatusUnauthorized:
		return fault.New(fault.Unauthenticated, "The authorization server refused the login: %.200s", answer.Description)
	case status != http.StatusOK || err != nil || answer.Access == "":
		return fault.New(fault.Unavailable, "The authorization server answered with status %d. Try again in a moment.",
			status)
	}
	claims, err := claimsOf(answer.Access)
	if err != nil {
		return err
	}
	s.UserID, s.UserName, s.Scopes = claims.UserID, claims.UserName, claims.Scope
	s.Secrets.Access, s.AccessExpires = answer.Access, time.Now().Add(time.Duration(answer.ExpiresIn)*time.Second)
	if answer.Refresh != "" {
		s.Secrets.Refresh = answer.Refresh
	}
	return nil
}

type claims struct {
	UserID   string   `json:"user_id"`
	UserName string   `json:"user_name"`
	Scope    []string `json:"scope"`
}

// claimsOf reads a token that came from the authorization server. The APIs verify it; here
// it only says what to show.
func claimsOf(token string) (*claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("the access token is not a JWT")
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, fmt.Errorf("the access token is not a JWT: %w", err)
	}
	var c claims
	if err := json.Unmarshal(b, &c); err != nil {
		return nil, fmt.Errorf("the access token is not a JWT: %w", err)
	}
	return &c, nil
}
