package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLogin logs a user in and checks what the app gets.
func TestLogin(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{"RS256", "ES256"} {
		s := newSite(t, "LOGIN_REQUIRED_SCOPES", "shop.read")
		if algorithm == "ES256" {
			s.key, s.algorithm, s.method = newEC(t, "ec"), algorithm, "client_secret_basic"
		}
		b := browser(t)
		r, text := get(t, b, http.MethodGet, s.base+"/orders?id=7", "X-Forwarded-User", "forged", "x_forwarded_email",
			"forged", "Cookie", "mine=1; other=2", "X-Forwarded-For", "10.1.2.3")
		if r.StatusCode != http.StatusOK || r.Request.URL.String() != s.base+"/orders?id=7" {
			t.Fatalf("%s: %s %d %s", algorithm, r.Request.URL, r.StatusCode, text)
		}
		_, text = get(t, b, http.MethodGet, s.base+"/orders?id=7", "X-Forwarded-User", "forged", "x_forwarded_email",
			"forged", "X-Forwarded-For", "10.1.2.3", "Connection", "X-Forwarded-User")
		var got struct {
			Path    string
			Headers http.Header
		}
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		for name, want := range map[string]string{
			"X-Forwarded-User": "ann", "X-Forwarded-Email": "ann@example.org", "X-Forwarded-Scopes": "openid shop.read",
			"X-Forwarded-User-Id": "user-1",
			"X-Forwarded-For":     "10.1.2.3", "Authorization": "", "Cookie": "",
		} {
			if got.Headers.Get(name) != want {
				t.Errorf("the app gets %s: %q, want %q", name, got.Headers.Get(name), want)
			}
		}
		if got.Path != "/orders?id=7" || strings.Contains(text, "forged") {
			t.Errorf("the app gets %s", text)
		}
	}
}

// TestPassToken gives the app the access token, and keeps its own cookies.
func TestPassToken(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LOGIN_PASS_TOKEN", "true")
	b := browser(t)
	get(t, b, http.MethodGet, s.base+"/")
	here, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	b.Jar.SetCookies(here, []*http.Cookie{{Name: "mine", Value: "1"}})
	_, text := get(t, b, http.MethodGet, s.base+"/")
	if !strings.Contains(text, `"Authorization":["Bearer ey`) || !strings.Contains(text, `"Cookie":["mine=1"]`) {
		t.Errorf("the app gets %s", text)
	}
}

// TestCookieAttributes checks the cookie of a site with https.
func TestCookieAttributes(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LOGIN_REDIRECT_URL", "https://shop.example.org/oauth2/callback")
	w := httptest.NewRecorder()
	if err := s.p.keep(w, httptest.NewRequest(http.MethodGet, "/", nil),
		&session{User: "ann", Started: time.Now().Unix()}); err != nil {
		t.Fatal(err)
	}
	s.p.login(w, httptest.NewRequest(http.MethodGet, "/", nil), "/")
	all := w.Result().Cookies()
	if len(all) != 2 {
		t.Fatalf("%d cookies", len(all))
	}
	for _, c := range all {
		if !strings.HasPrefix(c.Name, "__Host-login-proxy") || !c.Secure || !c.HttpOnly ||
			c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || strings.Contains(c.Value, "ann") {
			t.Errorf("%+v", c)
		}
	}
}

// TestBadTokens has an authorization server whose tokens are wrong.
func TestBadTokens(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(a *authority, c map[string]any){
		"issuer":    func(_ *authority, c map[string]any) { c["iss"] = "https://evil.example.org" },
		"audience":  func(_ *authority, c map[string]any) { c["aud"] = "other" },
		"party":     func(_ *authority, c map[string]any) { c["azp"] = "other" },
		"expired":   func(_ *authority, c map[string]any) { c["exp"] = time.Now().Add(-time.Minute).Unix() },
		"future":    func(_ *authority, c map[string]any) { c["iat"] = time.Now().Add(time.Hour).Unix() },
		"nonce":     func(_ *authority, c map[string]any) { c["nonce"] = "other" },
		"no nonce":  func(_ *authority, c map[string]any) { delete(c, "nonce") },
		"subject":   func(_ *authority, c map[string]any) { delete(c, "sub") },
		"key":       func(a *authority, _ map[string]any) { a.key.id = "unknown" },
		"none":      func(a *authority, _ map[string]any) { a.algorithm = "none" },
		"algorithm": func(a *authority, _ map[string]any) { a.algorithm = "HS256" },
	} {
		s := newSite(t)
		// The keys are known before, so that a change of them matters.
		if r, text := get(t, browser(t), http.MethodGet, s.base+"/"); r.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", r.StatusCode, text)
		}
		s.change = func(c map[string]any) { change(s.authority, c) }
		if r, text := get(t, browser(t), http.MethodGet, s.base+"/"); r.StatusCode != http.StatusBadGateway {
			t.Errorf("%s: %d %s", what, r.StatusCode, text)
		}
		s.change = func(map[string]any) {}
		if what == "audience" || what == "nonce" || what == "no nonce" || what == "key" || what == "none" ||
			what == "algorithm" {
			continue // the audience of access tokens are APIs; the others are no claims of theirs
		}
		s.changeAccess = func(c map[string]any) {
			change(s.authority, c)
			if what == "party" {
				c["client_id"] = "other"
			}
		}
		if r, text := get(t, browser(t), http.MethodGet, s.base+"/"); r.StatusCode != http.StatusBadGateway {
			t.Errorf("%s of the access token: %d %s", what, r.StatusCode, text)
		}
	}
}

// TestForgedSignature changes a token after it was signed, and signs one with another
// key of the same name.
func TestForgedSignature(t *testing.T) {
	t.Parallel()
	mine, other := newEC(t, "k"), newEC(t, "k")
	var k key
	text, _ := json.Marshal(mine.jwk())
	if err := json.Unmarshal(text, &k); err != nil {
		t.Fatal(err)
	}
	if err := k.parse(); err != nil {
		t.Fatal(err)
	}
	good := mine.sign("ES256", map[string]any{"sub": "ann"})
	if c, err := verify(good, []key{k}); err != nil || c.Subject != "ann" {
		t.Fatalf("%+v, %v", c, err)
	}
	parts := strings.Split(good, ".")
	for _, bad := range []string{
		other.sign("ES256", map[string]any{"sub": "ann"}), parts[0] + "." + b64([]byte(`{"sub":"eve"}`)) + "." + parts[2],
		parts[0] + "." + parts[1] + ".",
		b64([]byte(`{"alg":"none","kid":"k"}`)) + "." + parts[1] + ".",
		b64([]byte(`{"alg":"ES256","kid":"k","crit":["x"]}`)) + "." + parts[1] + "." + parts[2],
		"a.b", "..", "a.b.c", good + ".x",
	} {
		if c, err := verify(bad, []key{k}); err == nil {
			t.Errorf("%.60s is accepted: %+v", bad, c)
		}
	}
}

// TestState has callbacks that do not belong to a login of this browser.
func TestState(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	mine, other := browser(t), browser(t)
	mine.CheckRedirect, other.CheckRedirect = stop, stop
	r, _ := get(t, mine, http.MethodGet, s.base+"/x")
	r, _ = get(t, mine, http.MethodGet, r.Header.Get("Location"))
	callback := r.Header.Get("Location")
	for what, address := range map[string]string{
		"another browser": callback, "no state": s.base + "/oauth2/callback?code=x", "another state": s.base +
			"/oauth2/callback?code=x&state=" + randomText(),
	} {
		if r, text := get(t, other, http.MethodGet, address); r.StatusCode != http.StatusBadRequest || len(r.Cookies()) != 0 {
			t.Errorf("%s: %d %s", what, r.StatusCode, text)
		}
	}
	if r, text := get(t, mine, http.MethodGet, callback); r.StatusCode != http.StatusSeeOther ||
		r.Header.Get("Location") != "/x" {
		t.Errorf("%d %s %s", r.StatusCode, r.Header.Get("Location"), text)
	}
	if r, _ := get(t, mine, http.MethodGet, callback); r.StatusCode != http.StatusBadRequest {
		t.Errorf("the same callback again: %d", r.StatusCode)
	}
	r, _ = get(t, other, http.MethodGet, s.base+"/")
	u, err := url.Parse(r.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	r, text := get(t, other, http.MethodGet, s.base+"/oauth2/callback?"+url.Values{"state": {u.Query().Get("state")},
		"error": {"access_denied"}, "error_description": {"<b>no"}}.Encode())
	if r.StatusCode != http.StatusForbidden || !strings.Contains(text, "access_denied") ||
		!strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("a refusal: %d %s", r.StatusCode, text)
	}
}

// TestManyAttempts has a browser with many tabs at the login page.
func TestManyAttempts(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := browser(t)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for range 10 {
		get(t, b, http.MethodGet, s.base+"/")
	}
	here, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(b.Jar.Cookies(here)); n > maxAttempts {
		t.Errorf("%d cookies of attempts", n)
	}
}

// TestRefresh lets the access token expire: many requests at once cause one renewal. Then
// the login is revoked.
func TestRefresh(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.life = refreshEarly // due at once
	b := browser(t)
	if r, text := get(t, b, http.MethodGet, s.base+"/"); r.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", r.StatusCode, text)
	}
	s.mu.Lock()
	before := s.refreshes
	s.life = time.Hour
	s.mu.Unlock()
	here, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	old := b.Jar.Cookies(here)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if r, text := get(t, b, http.MethodGet, s.base+"/"); r.StatusCode != http.StatusOK ||
				!strings.Contains(text, `"X-Forwarded-User":["ann"]`) {
				t.Errorf("%d %s", r.StatusCode, text)
			}
		})
	}
	all.Wait()
	if s.refreshes != before+1 {
		t.Errorf("%d renewals, want 1", s.refreshes-before)
	}
	if fmt.Sprint(old) == fmt.Sprint(b.Jar.Cookies(here)) {
		t.Error("the cookie is still the old one")
	}
	get(t, b, http.MethodGet, s.base+"/")
	if s.refreshes != before+1 {
		t.Errorf("%d renewals after another request", s.refreshes-before)
	}
	s.refresh = map[string]bool{} // revoked
	s.p.server.now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if r, _ := get(t, b, http.MethodGet, s.base+"/", "Accept",
		"application/json"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a revoked login: %d", r.StatusCode)
	}
}

// TestLifetime ends a session although its tokens could be renewed.
func TestLifetime(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LOGIN_SESSION_LIFETIME", "30m")
	b := browser(t)
	get(t, b, http.MethodGet, s.base+"/")
	s.p.server.now = func() time.Time { return time.Now().Add(31 * time.Minute) }
	if r, _ := get(t, b, http.MethodGet, s.base+"/", "Accept",
		"application/json"); r.StatusCode != http.StatusUnauthorized || s.refreshes != 0 {
		t.Errorf("%d, %d renewals", r.StatusCode, s.refreshes)
	}
}

// TestDown has an authorization server that is down: at a login, and at a renewal.
func TestDown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.down = true
	if r, text := get(t, browser(t), http.MethodGet, s.base+"/"); r.StatusCode != http.StatusServiceUnavailable ||
		r.Header.Get("Retry-After") == "" {
		t.Errorf("login: %d %s", r.StatusCode, text)
	}
	s.down, s.life = false, refreshEarly
	b := browser(t)
	get(t, b, http.MethodGet, s.base+"/")
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
	s.p.renewals.calls = map[[32]byte]*renewal{}
	if r, text := get(t, b, http.MethodGet, s.base+"/"); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("renewal: %d %s", r.StatusCode, text)
	}
	s.mu.Lock()
	s.down = false
	s.mu.Unlock()
	if r, text := get(t, b, http.MethodGet, s.base+"/"); r.StatusCode != http.StatusOK {
		t.Errorf("it is up again: %d %s", r.StatusCode, text)
	}
}

// TestKeyRotation has a server with a new signing key.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	get(t, browser(t), http.MethodGet, s.base+"/")
	s.mu.Lock()
	s.key, s.algorithm = newEC(t, "next"), "ES256"
	s.mu.Unlock()
	if r, _ := get(t, browser(t), http.MethodGet, s.base+"/"); r.StatusCode != http.StatusBadGateway {
		t.Errorf("keys are requested more often than every %s: %d", keysPause, r.StatusCode)
	}
	s.p.server.now = func() time.Time { return time.Now().Add(keysPause + time.Second) }
	if r, text := get(t, browser(t), http.MethodGet, s.base+"/"); r.StatusCode != http.StatusOK {
		t.Errorf("%d %s", r.StatusCode, text)
	}
}

func TestLogout(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := browser(t)
	get(t, b, http.MethodGet, s.base+"/")
	here, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	if r, _ := get(t, b, http.MethodGet, s.base+"/oauth2/logout", "Sec-Fetch-Site",
		"cross-site"); r.StatusCode != http.StatusForbidden || len(b.Jar.Cookies(here)) == 0 {
		t.Errorf("from another site: %d", r.StatusCode)
	}
	r, text := get(t, b, http.MethodPost, s.base+"/oauth2/logout", "Sec-Fetch-Site", "same-origin")
	if r.StatusCode != http.StatusOK || text != "logged out, back to "+s.base+"/" || len(b.Jar.Cookies(here)) != 0 ||
		s.revoked != 1 || len(s.refresh) != 0 {
		t.Errorf("%d %s, cookies %v, %d revoked", r.StatusCode, text, b.Jar.Cookies(here), s.revoked)
	}
}

// TestAccess checks which paths are allowed without and with a session.
func TestAccess(t *testing.T) {
	t.Parallel()
	s := newSite(t, "LOGIN_REQUIRED_SCOPES", "shop.admin", "LOGIN_TRUSTED_ORIGINS", "https://friend.example.org")
	stranger := browser(t)
	stranger.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for _, x := range []struct {
		method, path string
		headers      []string
		status       int
	}{
		{http.MethodGet, "/healthz", nil, http.StatusOK},
		{http.MethodGet, "/assets/x/y.css", nil, http.StatusOK},
		{http.MethodGet, "/", nil, http.StatusFound},
		{http.MethodGet, "/healthzz", nil, http.StatusFound},
		{http.MethodGet, "/assets/../admin", nil, http.StatusFound},
		{http.MethodGet, "/assets/%2e%2e/admin", nil, http.StatusFound},
		{http.MethodGet, "/assets/..%2fadmin", nil, http.StatusFound},
		{http.MethodGet, "/assets/..%5cadmin", nil, http.StatusFound},
		{http.MethodGet, "/assets//admin", nil, http.StatusFound},
		{http.MethodGet, "/assets/x;/../admin", nil, http.StatusFound},
		{http.MethodPost, "/", nil, http.StatusUnauthorized},
		{http.MethodGet, "/", []string{"Accept", "application/json"}, http.StatusUnauthorized},
		{http.MethodGet, "/", []string{"Cookie", "login-proxy=1.AAAA"}, http.StatusFound},
		{http.MethodGet, "/healthz", []string{"X-Forwarded-User", "forged"}, http.StatusOK},
	} {
		r, text := get(t, stranger, x.method, s.base+x.path, x.headers...)
		if r.StatusCode != x.status || strings.Contains(text, "forged") {
			t.Errorf("%s %s %v: %d %s, want %d", x.method, x.path, x.headers, r.StatusCode, text, x.status)
		}
	}
	b := browser(t)
	if r, text := get(t, b, http.MethodGet, s.base+"/"); r.StatusCode != http.StatusForbidden ||
		!strings.Contains(text, "requires the scope shop.admin") {
		t.Errorf("without the scope: %d %s", r.StatusCode, text)
	}
	s.scopes = "openid shop.admin"
	b = browser(t)
	get(t, b, http.MethodGet, s.base+"/")
	for origin, want := range map[string]int{"": http.StatusOK, s.base: http.StatusOK,
		"https://evil.example.org": http.StatusForbidden, "https://friend.example.org": http.StatusOK} {
		headers := []string{"Origin", origin}
		if origin == "" {
			headers = nil
		}
		if r, text := get(t, b, http.MethodPost, s.base+"/x", headers...); r.StatusCode != want {
			t.Errorf("a form of %q: %d %s, want %d", origin, r.StatusCode, text, want)
		}
	}
}

// TestOpenRedirect checks where a login leads.
func TestOpenRedirect(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/a?b=c": "/a?b=c", "": "/", "//evil.example.org": "/", "https://evil.example.org": "/", "/\\evil.example.org": "/",
		"\\\\evil": "/",
		"/\tx":     "/", "javascript:alert(1)": "/", "/%0d%0aX: y": "/%0d%0aX: y",
		"/" + strings.Repeat("a", 3000): "/", "x": "/",
	} {
		if got := localPath(to); got != want {
			t.Errorf("%q leads to %q, want %q", to, got, want)
		}
	}
	s := newSite(t)
	if r, _ := get(t, browser(t), http.MethodGet,
		s.base+"/oauth2/login?to=%2F%2Fevil.example.org"); r.Request.URL.String() != s.base+"/" {
		t.Errorf("the login leads to %s", r.Request.URL)
	}
}

// TestWebSocket connects with and without a session, and from another site.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	b := browser(t)
	get(t, b, http.MethodGet, s.base+"/")
	here, err := url.Parse(s.base)
	if err != nil {
		t.Fatal(err)
	}
	var cookies []string
	for _, c := range b.Jar.Cookies(here) {
		cookies = append(cookies, c.Name+"="+c.Value)
	}
	dial := func(origin, cookie string) (int, net.Conn, *bufio.Reader) {
		c, err := net.Dial("tcp", here.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		fmt.Fprintf(c, "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: "+
			"%s\r\nCookie: %s\r\n\r\n", here.Host, origin, cookie)
		in := bufio.NewReader(c)
		r, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		return r.StatusCode, c, in
	}
	if status, _, _ := dial(s.base, "x=y"); status != http.StatusUnauthorized {
		t.Errorf("without a session: %d", status)
	}
	if status, _, _ := dial("http://evil.example.org", strings.Join(cookies, "; ")); status != http.StatusForbidden {
		t.Errorf("from another site: %d", status)
	}
	status, c, in := dial(s.base, strings.Join(cookies, "; "))
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", status)
	}
	fmt.Fprintln(c, "ping")
	if line, err := in.ReadString('\n'); line != "ping\n" {
		t.Errorf("%q, %v", line, err)
	}
}
