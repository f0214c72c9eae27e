package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

const (
	loginLinkPath     = "/login/link"
	loginLinkValidity = 10 * time.Minute
)

// LoginLink returns the path of a link that logs the user admin in, once and within ten
// minutes, in a browser on this machine. to is the page to show afterwards, a path. It
// returns ErrNotFound if there is no such user or it may not log in.
func (s *Server) LoginLink(ctx context.Context, to string) (string, error) {
	if err := s.first.await(ctx); err != nil {
		return "", err
	}
	u, err := s.store.UserByName(ctx, "admin", OriginUAA)
	if err != nil {
		return "", err
	}
	if !u.Active {
		return "", ErrNotFound
	}
	text := randomText(43)
	now := s.now()
	err = s.store.SaveCode(ctx, &Code{
		Hash: fingerprint(text), Kind: CodeLoginLink, UserID: u.ID, RedirectURI: localPath(to), AuthTime: now,
		Expires: now.Add(loginLinkValidity), Family: newID(),
	})
	return loginLinkPath + "?code=" + url.QueryEscape(text), err
}

// getLoginLink is GET /login/link. It shows a button and changes nothing: programs that preview
// links must not use them up.
func (s *Server) getLoginLink(w http.ResponseWriter, r *http.Request) error {
	if !fromHere(r) {
		return s.badLink(w, http.StatusForbidden, linkElsewhere)
	}
	return s.pages.show(w, http.StatusOK, "loginlink.html", map[string]string{"Code": r.URL.Query().Get("code")})
}

// postLoginLink is POST /login/link: it uses the link and begins a session.
func (s *Server) postLoginLink(w http.ResponseWriter, r *http.Request) error {
	if !fromHere(r) {
		return s.badLink(w, http.StatusForbidden, linkElsewhere)
	}
	if err := s.pages.protection.Check(r); err != nil {
		return s.badLink(w, http.StatusForbidden, "The form was sent from another site.")
	}
	form, err := postForm(r)
	if err != nil {
		return err
	}
	code, err := s.takeCode(r.Context(), form.Get("code"), CodeLoginLink)
	if errors.Is(err, ErrNotFound) {
		return s.badLink(w, http.StatusGone, linkOver)
	}
	if err != nil {
		return err
	}
	u, err := s.activeUser(r.Context(), code.UserID)
	if fault.Is(err, fault.Unauthenticated) || err == nil && (!code.Used.IsZero() || s.revoked.code(code)) {
		return s.badLink(w, http.StatusGone, linkOver)
	}
	if err != nil {
		return err
	}
	if err := s.startSession(w, r, u); err != nil {
		return err
	}
	s.log.InfoContext(r.Context(), "login with a one-time link", "user", u.UserName)
	http.Redirect(w, r, localPath(code.RedirectURI), http.StatusSeeOther) //nolint:gosec // a path, from the server itself
	return nil
}

// Why a link does not work.
const (
	linkElsewhere = "The link works only in a browser on the machine of the server, at the address that the server " +
		"printed."
	linkOver = "This link was used before, or it is older than ten minutes."
)

// badLink says why a link does not work, and what to do instead.
func (s *Server) badLink(w http.ResponseWriter, status int, problem string) error {
	return s.pages.show(w, status, "loginlink.html", map[string]string{"Problem": problem})
}

// forwardedBy are the headers that proxies add.
var forwardedBy = []string{"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"}

// fromHere reports whether a request comes from this machine: over its loopback interface at
// both ends, from no proxy, and for a name of loopback. The last one refuses pages whose name
// was pointed at loopback.
func fromHere(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !loopback(local.String()) || !loopback(r.RemoteAddr) {
		return false
	}
	for _, name := range forwardedBy {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = strings.Trim(r.Host, "[]"), "80"
		if r.TLS != nil {
			port = "443"
		}
	}
	_, own, err := net.SplitHostPort(local.String())
	if err != nil || port != own {
		return false
	}
	a, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && a.IsLoopback()
}

// loopback reports whether an address with a port is one of loopback.
func loopback(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err == nil && a.Addr().Unmap().IsLoopback()
}
