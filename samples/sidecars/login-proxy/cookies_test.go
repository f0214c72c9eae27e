package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestSeal checks what cookies are accepted.
func TestSeal(t *testing.T) {
	t.Parallel()
	old, err := newSealer([]string{strings.Repeat("ab", 32)})
	if err != nil {
		t.Fatal(err)
	}
	both, err := newSealer([]string{testKey, strings.Repeat("ab", 32)})
	if err != nil {
		t.Fatal(err)
	}
	text, err := old.seal("a", map[string]string{"x": "y"})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]string
	if err := both.open("a", text, &got); err != nil || got["x"] != "y" {
		t.Errorf("%v, %v", got, err)
	}
	fresh, err := both.seal("a", got)
	if err != nil {
		t.Fatal(err)
	}
	changed := []byte(text)
	changed[20] ^= 1
	for what, err := range map[string]error{
		"another purpose": both.open("b", text, &got), "another key": old.open("a", fresh, &got),
		"changed": both.open("a", string(changed), &got),
		"short":   both.open("a", "AAAA", &got), "empty": both.open("a", "", &got), "no base64": both.open("a", "?", &got),
	} {
		if err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
	for _, bad := range []string{"x", "abcd", strings.Repeat("a", 31)} {
		if _, err := newSealer([]string{bad}); err == nil {
			t.Errorf("the key %q is accepted", bad)
		}
	}
}

// TestLongCookies splits a cookie, and removes parts that are not needed any more.
func TestLongCookies(t *testing.T) {
	t.Parallel()
	j := jar{name: "c"}
	b := map[string]string{}
	request := func() *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		for name, value := range b {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		return r
	}
	for _, size := range []int{10, 3 * cookiePart, cookiePart, 2*cookiePart + 1, 0} {
		value := strings.Repeat("v", size)
		w := httptest.NewRecorder()
		if err := j.set(w, request(), value, time.Hour); err != nil {
			t.Fatal(err)
		}
		for _, c := range w.Result().Cookies() {
			if c.MaxAge < 0 {
				delete(b, c.Name)
			} else {
				b[c.Name] = c.Value
			}
			if len(c.Name)+len(c.Value) > 4000 {
				t.Errorf("a cookie of %d bytes", len(c.Value))
			}
		}
		if got := j.get(request()); got != value || len(b) != max(1, (size+cookiePart-1)/cookiePart) {
			t.Errorf("size %d: got %d bytes, %d parts", size, len(got), len(b))
		}
	}
	if err := j.set(httptest.NewRecorder(), request(), strings.Repeat("v", maxParts*cookiePart+1),
		time.Hour); err == nil || !strings.Contains(err.Error(), "LOGIN_SCOPES") {
		t.Errorf("too long: %v", err)
	}
	for _, bad := range []string{"x", "0.x", "7.x", "2.x", "-1.x"} {
		b = map[string]string{"c": bad}
		if got := j.get(request()); got != "" {
			t.Errorf("%s: %q", bad, got)
		}
	}
}

// TestInternalAddress reaches the server by another address than browsers do.
func TestInternalAddress(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	s := &authServer{public: "https://uaa.example.org", internal: a.URL, issuer: a.issuer(), now: time.Now}
	e, err := s.discover(t.Context())
	if err != nil || e.Authorization != "https://uaa.example.org/oauth/authorize" ||
		e.EndSession != "https://uaa.example.org/logout.do" || e.Token != a.URL+"/oauth/token" {
		t.Errorf("%+v, %v", e, err)
	}
	s = &authServer{public: "https://uaa.example.org", internal: a.URL, now: time.Now}
	if _, err := s.discover(t.Context()); err == nil ||
		!strings.Contains(err.Error(), "set LOGIN_ISSUER if that is right") {
		t.Error(err)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	inside := map[string]string{
		"LOGIN_AUTH_URL": "https://uaa.example.org/", "LOGIN_CLIENT_ID": "shop",
		"LOGIN_REDIRECT_URL": "https://shop.example.org/oauth2/callback", "LOGIN_SESSION_KEY": testKey,
		"LOGIN_AUTH_INTERNAL_URL": "cf_api", "VCAP_APPLICATION": `{"cf_api": "http://10.0.0.1:8080"}`,
	}
	if p, err := configure(func(name string) string { return inside[name] }); err != nil ||
		p.server.internal != "http://10.0.0.1:8080" || p.server.public != "https://uaa.example.org" {
		t.Errorf("the address for instances: %v", err)
	}
	for want, pair := range map[string][2]string{
		"LOGIN_AUTH_URL is not set":                      {"LOGIN_AUTH_URL", ""},
		"must be of the form https://HOST":               {"LOGIN_AUTH_URL", "uaa"},
		"VCAP_APPLICATION has no such address":           {"LOGIN_AUTH_INTERNAL_URL", "cf_api"},
		"LOGIN_CLIENT_ID is not set":                     {"LOGIN_CLIENT_ID", ""},
		"LOGIN_REDIRECT_URL is not set":                  {"LOGIN_REDIRECT_URL", ""},
		"must be of the form https://APP":                {"LOGIN_REDIRECT_URL", "https://x"},
		"without https, others on the network":           {"LOGIN_REDIRECT_URL", "http://shop.example.org/oauth2/callback"},
		"LOGIN_SESSION_KEY is not set":                   {"LOGIN_SESSION_KEY", ""},
		"LOGIN_SESSION_KEY: must be 32 random bytes":     {"LOGIN_SESSION_KEY", "short"},
		"LOGIN_SCOPES is [\"profile\"], and must":        {"LOGIN_SCOPES", "profile"},
		"LOGIN_PUBLIC_PATHS has \"x\"":                   {"LOGIN_PUBLIC_PATHS", "x"},
		"LOGIN_PUBLIC_PATHS has \"/a*b\"":                {"LOGIN_PUBLIC_PATHS", "/a*b"},
		"LOGIN_TRUSTED_ORIGINS":                          {"LOGIN_TRUSTED_ORIGINS", "x"},
		"LOGIN_AUTH_CA is \"/nowhere\", which cannot be": {"LOGIN_AUTH_CA", "/nowhere"},
		"LOGIN_PASS_TOKEN is \"yes\"":                    {"LOGIN_PASS_TOKEN", "yes"},
	} {
		env := map[string]string{
			"LOGIN_AUTH_URL": "https://uaa.example.org", "LOGIN_CLIENT_ID": "shop",
			"LOGIN_REDIRECT_URL": "https://shop.example.org/oauth2/callback", "LOGIN_SESSION_KEY": testKey,
		}
		if _, err := configure(func(name string) string { return env[name] }); err != nil {
			t.Fatal(err)
		}
		env[pair[0]] = pair[1]
		if _, err := configure(func(name string) string { return env[name] }); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", pair, err, want)
		}
	}
}
