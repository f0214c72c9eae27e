package system

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// visitor is a browser without scripts.
type visitor struct {
	t *testing.T
	*http.Client
}

func newVisitor(t *testing.T, transport http.RoundTripper) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	if transport == nil {
		transport = &http.Transport{DisableKeepAlives: true}
	}
	return &visitor{t, &http.Client{Jar: jar, Transport: transport}}
}

// visit requests a page and follows redirects. It returns the last response and its text.
func (v *visitor) visit(method, address string, form url.Values) (*http.Response, string) {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, address, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := v.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp, string(text)
}

// logIn opens the console of a server and logs in at its authorization server.
func (v *visitor) logIn(console, user, password string) {
	v.t.Helper()
	resp, text := v.visit(http.MethodGet, console, nil)
	at := resp.Request.URL
	if at.Path != "/login" || !strings.Contains(text, `action="/login.do"`) {
		v.t.Fatalf("%s leads to %s: %d %s", console, at, resp.StatusCode, text)
	}
	form := url.Values{"username": {user}, "password": {password}, "return_to": {at.Query().Get("return_to")}}
	resp, text = v.visit(http.MethodPost, at.Scheme+"://"+at.Host+"/login.do", form)
	v.atConsole(resp, text, console, user)
}

// atConsole checks that a response is the first page of a console.
func (v *visitor) atConsole(resp *http.Response, text, console, user string) {
	v.t.Helper()
	if resp.StatusCode != http.StatusOK || resp.Request.URL.String() != console ||
		!strings.Contains(text, "<summary>"+user+"</summary>") {
		v.t.Fatalf("after the login: %d at %s: %s", resp.StatusCode, resp.Request.URL, text)
	}
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// logOut uses the button of a page, and checks that the session has ended.
func (v *visitor) logOut(console string) {
	v.t.Helper()
	_, text := v.visit(http.MethodGet, console, nil)
	field := csrfField.FindStringSubmatch(text)
	if field == nil {
		v.t.Fatalf("no form in %s", text)
	}
	v.visit(http.MethodPost, console+"/logout", url.Values{"csrf": {field[1]}})
	if resp, _ := v.visit(http.MethodGet, console, nil); resp.Request.URL.Path != "/login" {
		v.t.Errorf("after the logout: %s", resp.Request.URL)
	}
}

// TestLoginLink opens the console with the link of a server on loopback.
func TestLoginLink(t *testing.T) {
	t.Parallel()
	s := startSystem(t, testConfig(t))
	link, err := s.LoginLink(t.Context())
	if err != nil || !strings.HasPrefix(link, s.Endpoints().API+"/login/link?code=") {
		t.Fatalf("the link is %q (%v)", link, err)
	}
	v := newVisitor(t, nil)
	resp, text := v.visit(http.MethodGet, link, nil)
	if resp.StatusCode != http.StatusOK || !strings.Contains(text, "Log in as admin") {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	form := url.Values{"code": {resp.Request.URL.Query().Get("code")}}
	address := s.Endpoints().API + "/login/link"
	resp, text = v.visit(http.MethodPost, address, form)
	v.atConsole(resp, text, s.Endpoints().API+"/console", "admin")
	if resp, _ := newVisitor(t, nil).visit(http.MethodPost, address, form); resp.StatusCode != http.StatusGone {
		t.Errorf("the second use: %d", resp.StatusCode)
	}
	v.logOut(s.Endpoints().API + "/console")
}

// TestNoLoginLink starts servers that other machines can reach.
func TestNoLoginLink(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"all interfaces": func(c *Config) { c.Listen = "0.0.0.0:0" },
		"a public URL":   func(c *Config) { c.PublicURL = "https://api.example.test" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := testConfig(t)
			change(&c)
			if link, err := startSystem(t, c).LoginLink(t.Context()); link != "" || err != nil {
				t.Errorf("the link is %q (%v)", link, err)
			}
		})
	}
}

// TestConsoleWithAnotherAuthorizationServer logs in at one Ingot to the console of another.
func TestConsoleWithAnotherAuthorizationServer(t *testing.T) {
	t.Parallel()
	uaa := startSystem(t, testConfig(t))
	c := testConfig(t)
	c.AuthURL = uaa.Endpoints().API
	s := startSystem(t, c)
	base := s.Endpoints().API
	if link, err := s.LoginLink(t.Context()); link != "" || err != nil {
		t.Errorf("the link is %q (%v)", link, err)
	}
	if a := call(t, http.MethodPost, base+"/login/link", "", url.Values{"code": {"x"}}); a.status != http.StatusNotFound {
		t.Errorf("a link at a server without users: %d %s", a.status, a.body)
	}
	// As docs/console.md says.
	admin := adminToken(t, uaa)
	client := uaa.Endpoints().API + "/oauth/clients/ingot-console"
	have := call(t, http.MethodGet, client, admin, nil).json(t)
	have["redirect_uri"] = []string{base + "/console/callback", base + "/console"}
	if a := call(t, http.MethodPut, client, admin, have); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if a := call(t, http.MethodPut, client+"/secret", admin,
		map[string]string{"secret": readSecret(t, s, "ingot-console")}); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	v := newVisitor(t, nil)
	v.logIn(base+"/console", "admin", readSecret(t, uaa, adminPasswordFile))
	resp, text := v.visit(http.MethodGet, base+"/console/users", nil)
	if resp.StatusCode != http.StatusOK || !strings.Contains(text, "admin") {
		t.Errorf("the users of the other server: %d %s", resp.StatusCode, text)
	}
	if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' "+
		uaa.Endpoints().API) {
		t.Errorf("the policy is %s", policy)
	}
	v.logOut(base + "/console")
}

// TestConsoleWithTLS uses the console of a server with TLS.
func TestConsoleWithTLS(t *testing.T) {
	t.Parallel()
	s := startTLS(t, nil)
	if link, err := s.LoginLink(t.Context()); link != "" || err != nil {
		t.Errorf("the link is %q (%v)", link, err)
	}
	v := newVisitor(t, s.client.Transport)
	console := "https://api.example.test:" + s.port() + "/console"
	v.logIn(console, "admin", readSecret(t, s.System, adminPasswordFile))
	// The session is for https only.
	at := &url.URL{Scheme: "https", Host: "api.example.test:" + s.port(), Path: "/console"}
	isHost := func(c *http.Cookie) bool { return strings.HasPrefix(c.Name, "__Host-") }
	if sent := v.Jar.Cookies(at); !slices.ContainsFunc(sent, isHost) {
		t.Errorf("the browser has the cookies %v", sent)
	}
	at.Scheme = "http"
	if sent := v.Jar.Cookies(at); len(sent) > 0 {
		t.Errorf("without TLS the browser sends %v", sent)
	}
	// A jar keeps only name and value, so the rest is looked at where a cookie is set.
	v.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	v.Jar = nil
	resp, _ := v.visit(http.MethodGet, console+"/login", nil)
	cookies := resp.Cookies()
	if len(cookies) != 1 || !cookies[0].Secure || !cookies[0].HttpOnly || !strings.HasPrefix(cookies[0].Name, "__Host-") {
		t.Errorf("the cookies are %v", cookies)
	}
}
