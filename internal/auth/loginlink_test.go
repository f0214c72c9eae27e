package auth_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/web"
)

// link returns a login link as a path, and its code.
func (f *fixture) link() (path, code string) {
	f.t.Helper()
	path, err := f.server.LoginLink(f.t.Context(), "/console")
	if err != nil {
		f.t.Fatal(err)
	}
	u, err := url.Parse(path)
	if err != nil || len(u.Query().Get("code")) < 40 {
		f.t.Fatalf("the link is %s (%v)", path, err)
	}
	return path, u.Query().Get("code")
}

func (f *fixture) useLink(b *http.Client, code string, edits ...edit) *answer {
	f.t.Helper()
	return f.callWith(b, http.MethodPost, "/login/link", url.Values{"code": {code}},
		append([]edit{asBrowser}, edits...)...)
}

func TestLoginLink(t *testing.T) {
	t.Parallel()
	f := setup(t)
	path, code := f.link()
	b := f.browser()
	// Looking at it uses nothing up.
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodGet} {
		page := f.want(f.callWith(b, method, path, nil, asBrowser), 200)
		if method == http.MethodGet && (!strings.Contains(page.body, code) ||
			!strings.Contains(page.body, "Log in as admin")) {
			t.Errorf("the page is %s", page.body)
		}
		if page.header.Get("Set-Cookie") != "" || page.header.Get("Referrer-Policy") != "no-referrer" ||
			page.header.Get("Cache-Control") != "no-store" {
			t.Errorf("the headers of the page are %v", page.header)
		}
	}
	if got := f.location(f.want(f.useLink(b, code), 303)).String(); got != "/console" {
		t.Errorf("the link leads to %s", got)
	}
	// The session is one of the authorization server: the code flow needs no password.
	a := f.authorize(b, url.Values{"response_type": {"code"}, "client_id": {"ssh-proxy"}}, asBrowser)
	if a.status != http.StatusFound || f.location(a).Query().Get("code") == "" {
		t.Errorf("authorize: %d %s", a.status, f.location(a))
	}
	other := f.browser()
	again := f.want(f.useLink(other, code), 410)
	if !strings.Contains(again.body, "was used before") || !strings.Contains(again.body, "/login?return_to=%2Fconsole") ||
		again.header.Get("Set-Cookie") != "" {
		t.Errorf("the second use: %v %s", again.header, again.body)
	}
	if strings.Contains(f.log.String(), code) {
		t.Error("the code is in the log")
	}
	if _, err := f.store.TakeCode(t.Context(), code, f.clock.Now()); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("the code is stored as it is: %v", err)
	}
}

// TestLoginLinkIsOver tries links that do not work any more, and codes for something else.
func TestLoginLinkIsOver(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, code := f.link()
	f.clock.Advance(10 * time.Minute)
	f.want(f.useLink(f.browser(), code), 410)
	for _, wrong := range []string{"", "x", strings.Repeat("x", 10_000)} {
		f.want(f.useLink(f.browser(), wrong), 410)
	}
	// A passcode is no link, and a link no passcode.
	f.user("dev", "pw")
	dev := f.want(f.password("dev", "pw"), 200).text("access_token")
	passcode := strings.Trim(f.want(f.call(http.MethodGet, "/passcode", nil, bearer(dev),
		header("Accept", "application/json")), 200).body, "\"\n")
	f.want(f.useLink(f.browser(), passcode), 410)
	_, code = f.link()
	if a := f.call(http.MethodPost, "/oauth/token", url.Values{"grant_type": {"password"}, "passcode": {code}},
		basic("cf", "")); a.status != http.StatusUnauthorized {
		t.Errorf("a link as a passcode: %d %s", a.status, a.body)
	}
	// A user who may not log in any more.
	_, code = f.link()
	admin, err := f.store.UserByName(t.Context(), "admin", auth.OriginUAA)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.store.UpdateUser(t.Context(), admin.ID,
		func(u *auth.User) error { u.Active = false; return nil }); err != nil {
		t.Fatal(err)
	}
	f.want(f.useLink(f.browser(), code), 410)
	if _, err := f.server.LoginLink(t.Context(), "/console"); !errors.Is(err, auth.ErrNotFound) {
		t.Errorf("a link for a user who may not log in: %v", err)
	}
}

// TestLoginLinkRace uses a link twenty times at once.
func TestLoginLinkRace(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, code := f.link()
	var won, lost atomic.Int32
	var all sync.WaitGroup
	for range 20 {
		b := f.browser()
		all.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.url+"/login/link",
				strings.NewReader(url.Values{"code": {code}}.Encode()))
			if err != nil {
				t.Error(err)
				return
			}
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			resp, err := b.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			switch resp.StatusCode {
			case http.StatusSeeOther:
				won.Add(1)
			case http.StatusGone:
				lost.Add(1)
			default:
				t.Errorf("status %d", resp.StatusCode)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || lost.Load() != 19 {
		t.Errorf("%d logins and %d refusals", won.Load(), lost.Load())
	}
}

// TestLoginLinkOnlyHere uses a link from elsewhere. It works afterwards: a refusal does not use it
// up.
func TestLoginLinkOnlyHere(t *testing.T) {
	t.Parallel()
	f := setup(t)
	path, code := f.link()
	mux := web.NewMux(web.FormatOAuth, slog.New(slog.DiscardHandler), nil)
	f.server.Routes(mux)
	ask := func(method, local, remote, host string, headers ...string) *httptest.ResponseRecorder {
		t.Helper()
		address, err := net.ResolveTCPAddr("tcp", local)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(address))
		r := httptest.NewRequestWithContext(ctx, method, path, strings.NewReader(url.Values{"code": {code}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.RemoteAddr, r.Host = remote, host
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		return w
	}
	const here, from, host = "127.0.0.1:8080", "127.0.0.1:40000", "127.0.0.1:8080"
	for name, w := range map[string][]string{
		"another machine":                    {here, "192.0.2.1:40000", host},
		"another machine that forges":        {here, "192.0.2.1:40000", host, "X-Forwarded-For", "127.0.0.1"},
		"another interface":                  {"192.0.2.9:8080", from, host},
		"this machine, to its other address": {"192.0.2.9:8080", "192.0.2.9:40000", host},
		"a forged name":                      {here, from, "evil.example:8080"},
		"a name that ends like loopback":     {here, from, "evil.localhost:8080"},
		"another port":                       {here, from, "127.0.0.1:9090"},
		"no port":                            {here, from, "127.0.0.1"},
		"no name":                            {here, from, ""},
		"a proxy":                            {here, from, host, "X-Forwarded-For", "127.0.0.1"},
		"a proxy with another header":        {here, from, host, "Forwarded", "for=127.0.0.1"},
		"a tunnel":                           {here, from, host, "Via", "1.1 tunnel"},
		"an address that is none":            {here, "@", host},
		"another site":                       {here, from, host, "Sec-Fetch-Site", "cross-site"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if name == "another site" && method == http.MethodGet {
				continue // a link, as every link
			}
			got := ask(method, w[0], w[1], w[2], w[3:]...)
			if got.Code != http.StatusForbidden || got.Header().Get("Set-Cookie") != "" ||
				strings.Contains(got.Body.String(), code) {
				t.Errorf("%s from %s: %d %v %s", method, name, got.Code, got.Header(), got.Body)
			}
		}
	}
	if got := ask(http.MethodPost, "[::1]:8080", "[::1]:40000", "localhost:8080"); got.Code != http.StatusSeeOther {
		t.Errorf("from this machine, after all refusals: %d %s", got.Code, got.Body)
	}
}
