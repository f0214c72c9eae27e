package auth

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/look"
	"ingot/internal/base/version"
	"ingot/internal/base/web"
)

//go:embed pages/*.html
var pageFiles embed.FS

type pages struct {
	t          *template.Template
	protection *http.CrossOriginProtection
}

func loadPages() (*pages, error) {
	t, err := look.Parse(pageFiles, nil, "pages/*.html")
	return &pages{t: t, protection: http.NewCrossOriginProtection()}, err
}

// show writes a page that no other site can frame, script or cache.
func (p *pages) show(w http.ResponseWriter, status int, name string, data any) error {
	var b bytes.Buffer
	if err := p.t.ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", look.Policy())
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
	return nil
}

// sessionCookie is the login session of a browser.
const (
	sessionCookie   = "ingot_session"
	sessionValidity = 8 * time.Hour
)

// wantsJSON reports whether the caller is a program.
func wantsJSON(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "application/json") && !strings.Contains(accept, "text/html")
}

// getLogin is GET /login: the login prompts for programs, the login page for
// browsers.
func (s *Server) getLogin(w http.ResponseWriter, r *http.Request) error {
	if wantsJSON(r) {
		about := s.about(r)
		about["idpDefinitions"] = map[string]string{}
		return web.Answer(w, http.StatusOK, about, nil)
	}
	return s.loginPage(w, r, http.StatusOK, "")
}

// getInfo is GET /info: it describes the server.
func (s *Server) getInfo(w http.ResponseWriter, r *http.Request) error {
	return web.Answer(w, http.StatusOK, s.about(r), nil)
}

// about describes the server as UAA does.
func (s *Server) about(r *http.Request) map[string]any {
	base := s.requestBase(r)
	return map[string]any{
		// cf compares the version with 4.26.0 before it sends an origin.
		"app":       map[string]string{"version": uaaVersion},
		"commit_id": version.Version,
		"entityID":  s.base,
		"prompts": map[string][]string{
			"username": {"text", "Email"},
			"password": {"password", "Password"},
			"passcode": {"password", "Temporary Authentication Code ( Get one at " + base + "/passcode )"},
		},
		"links":     map[string]string{"uaa": base, "login": base},
		"zone_name": ZoneID,
		"timestamp": s.now().UTC().Format(time.RFC3339),
	}
}

// uaaVersion is the version of UAA whose behaviour clients may expect.
const uaaVersion = "77.20.0"

func (s *Server) loginPage(w http.ResponseWriter, r *http.Request, status int, problem string) error {
	return s.pages.show(w, status, "login.html", map[string]string{
		"Problem": problem, "ReturnTo": localPath(r.FormValue("return_to")), "UserName": r.PostFormValue("username"),
	})
}

// localPath accepts only paths on this server: the page must not become an open
// redirect.
func localPath(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(s, "/") ||
		strings.HasPrefix(s, "//") || strings.ContainsAny(s, "\\\r\n\t") {
		return ""
	}
	return s
}

// postLogin is POST /login.do, the form of the page.
func (s *Server) postLogin(w http.ResponseWriter, r *http.Request) error {
	if err := s.pages.protection.Check(r); err != nil {
		return fault.Wrap(err, fault.Forbidden, "The login form was sent from another site").WithKind("access_denied")
	}
	form, err := postForm(r)
	if err != nil {
		return err
	}
	u, err := s.authenticateUser(r.Context(), form.Get("username"), form.Get("password"), "", s.from(r))
	var e *fault.Error
	if errors.As(err, &e) && (e.Code == fault.Unauthenticated || e.Code == fault.RateLimited) {
		problem := "Unable to verify email or password. Please try again."
		if e.Message == lockedText || e.Code == fault.RateLimited {
			problem = e.Message
		}
		return s.loginPage(w, r, http.StatusUnauthorized, problem)
	}
	if err != nil {
		return err
	}
	if err := s.startSession(w, r, u); err != nil {
		return err
	}
	to := localPath(form.Get("return_to"))
	if to == "" {
		to = "/passcode"
	}
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // localPath keeps addresses of this server only
	return nil
}

func (s *Server) startSession(w http.ResponseWriter, r *http.Request, u *User) error {
	text := randomText(43)
	now := s.revoked.issueTime(u.ID, "")
	err := s.store.SaveSession(r.Context(), &Session{Hash: fingerprint(text), UserID: u.ID, AuthTime: now,
		Expires: now.Add(sessionValidity)})
	if err != nil {
		return err
	}
	http.SetCookie(w, s.cookie(r, text, int(sessionValidity/time.Second)))
	return nil
}

func (s *Server) cookie(r *http.Request, value string, maxAge int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // Secure follows the scheme: plain http is for loopback
		Name: sessionCookie, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true,
		// Lax: the code flow of another site arrives here by a link.
		SameSite: http.SameSiteLaxMode,
		// A server whose public URL is https never sets a cookie for http, even
		// if its proxy connects over http. Other servers serve plain http, by
		// default on loopback only.
		Secure: strings.HasPrefix(s.base, "https://") || requestScheme(r) == "https",
	}
}

// session returns nil if the cookie is missing or its session has expired.
func (s *Server) session(r *http.Request) (*Session, error) {
	c, err := r.Cookie(sessionCookie)
	if err != nil || c.Value == "" {
		return nil, nil //nolint:nilerr // no cookie is no failure
	}
	session, err := s.store.Session(r.Context(), fingerprint(c.Value))
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !s.now().Before(session.Expires) || s.revoked.session(session) {
		return nil, nil
	}
	return session, nil
}

// logout is GET /logout.do. It sends the browser back to a client only to an
// address registered for it.
func (s *Server) logout(w http.ResponseWriter, r *http.Request) error {
	if c, err := r.Cookie(sessionCookie); err == nil && c.Value != "" {
		if err := s.store.DeleteSession(r.Context(), fingerprint(c.Value)); err != nil {
			return err
		}
	}
	http.SetCookie(w, s.cookie(r, "", -1))
	to := "/login"
	if asked := r.URL.Query().Get("redirect"); asked != "" {
		c, err := s.store.Client(r.Context(), r.URL.Query().Get("client_id"))
		if err == nil && slices.Contains(c.RedirectURIs, asked) {
			to = asked
		} else if local := localPath(asked); local != "" {
			to = local
		}
	}
	http.Redirect(w, r, to, http.StatusFound) //nolint:gosec // registered for the client, or on this server
	return nil
}

// passcode is GET /passcode: a one-time code for `cf login --sso`.
func (s *Server) passcode(w http.ResponseWriter, r *http.Request) error {
	who, err := s.whoIs(r)
	if err != nil {
		return err
	}
	if who == nil {
		if wantsJSON(r) {
			return unauthenticated()
		}
		http.Redirect(w, r, "/login?return_to=%2Fpasscode", http.StatusFound)
		return nil
	}
	if who.scopes != nil && !slices.Contains(who.scopes, "uaa.user") {
		return web.Insufficient("uaa.user")
	}
	text := randomText(10)
	err = s.store.SaveCode(r.Context(), &Code{
		Hash: fingerprint(text), Kind: CodePasscode, UserID: who.user.ID, Scopes: who.scopes, AuthTime: who.authTime,
		Expires: s.now().Add(codeValidity), Family: newID(),
	})
	if err != nil {
		return err
	}
	if wantsJSON(r) {
		w.Header().Set("Cache-Control", "no-store")
		return web.Answer(w, http.StatusOK, text, nil)
	}
	return s.pages.show(w, http.StatusOK, "passcode.html", map[string]any{
		"Passcode": text, "UserName": who.user.UserName, "Minutes": int(codeValidity / time.Minute),
	})
}

// requestBase returns the URL under which the caller reached this server.
func (s *Server) requestBase(r *http.Request) string {
	// A proxy that terminates TLS need not set a header for the public host.
	if host, ok := strings.CutPrefix(s.base, "https://"); ok && strings.EqualFold(r.Host, host) {
		return s.base
	}
	return requestScheme(r) + "://" + r.Host
}

// requestScheme returns the scheme of the request, and trusts a header that says
// https: a client that forges it only gets links and a cookie that do not work.
func requestScheme(r *http.Request) string {
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		return "https"
	}
	return "http"
}
