package push_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/provider"
	"ingot/internal/notify/push"
)

// inPEM returns a private key as providers give it.
func inPEM(t *testing.T, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return key
})

// issuer is a service that exchanges signed tokens for access tokens.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	body   string // instead of a token
	issued int
	claims []map[string]any
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	s := &issuer{status: http.StatusOK}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	token, err := jwt.ParseSigned(r.FormValue("assertion"), []jose.SignatureAlgorithm{jose.RS256})
	claims := map[string]any{}
	if err == nil {
		err = token.Claims(&rsaKey().PublicKey, &claims)
	}
	if err != nil || r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
		http.Error(w, fmt.Sprint("not a grant: ", err), http.StatusBadRequest)
		return
	}
	s.claims = append(s.claims, claims)
	w.WriteHeader(s.status)
	if s.body != "" {
		_, _ = w.Write([]byte(strings.ReplaceAll(s.body, "ASSERTION", r.FormValue("assertion"))))
		return
	}
	s.issued++
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": fmt.Sprint("issued-", s.issued), "expires_in": 3599})
}

// granted returns a provider that needs access tokens.
func granted(s *relay, g notify.AccessGrant, key string) notify.Provider {
	p := serving(s, "relay", "")
	g.Key, g.KeyID, g.Issuer = "signing", "K1", "shop@example.com"
	p.Access, p.Headers = &g, map[string]string{"Authorization": "Bearer {{access}}"}
	p.Secrets = map[string]string{"signing": key}
	return p
}

// TestAccess exchanges a signed token for access tokens, of which one is used until it ends or is refused.
func TestAccess(t *testing.T) {
	t.Parallel()
	tokens, phones := newIssuer(t), newRelay(t)
	now := time.Now()
	var bearers []string
	refused := ""
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearers = append(bearers, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
		if r.Header.Get("Authorization") == "Bearer "+refused {
			http.Error(w, refused+" has ended", http.StatusUnauthorized)
			return
		}
	}))
	defer front.Close()
	p := granted(phones, notify.AccessGrant{URL: tokens.URL, Scope: "messaging"},
		strings.ReplaceAll(inPEM(t, rsaKey()), "\n", `\n`)) // as in the JSON of a service account
	p.URL = front.URL + "/{{token}}"
	c := newChannel(t, push.Options{Devices: provider.NewChannel(notify.Push, provider.Options{
		Providers: declared{p}, Client: outbound.New(outbound.Options{Private: true}),
		Now: func() time.Time { return now }})})
	send := func() notify.Result {
		t.Helper()
		return deliver(t, c, message(device("relay", "a-token")))
	}
	want := func(r notify.Result, verdict notify.Verdict, reason, bearer string) {
		t.Helper()
		if r.Verdict != verdict || !strings.Contains(r.Reason, reason) ||
			len(bearers) > 0 && bearers[len(bearers)-1] != bearer {
			t.Errorf("%+v with %v, want %d %s with %s", r, bearers, verdict, reason, bearer)
		}
	}
	for range 3 {
		want(send(), notify.Accepted, "", "issued-1")
	}
	claims := tokens.claims[0]
	if claims["iss"] != "shop@example.com" || claims["scope"] != "messaging" || claims["aud"] != tokens.URL ||
		claims["exp"] != claims["iat"].(float64)+3600 {
		t.Errorf("signed was %v", claims)
	}
	now = now.Add(time.Hour)
	want(send(), notify.Accepted, "", "issued-2")
	refused = "issued-2"
	want(send(), notify.Temporary, "401 Unauthorized: … has ended", "issued-2")
	want(send(), notify.Accepted, "", "issued-3")

	now = now.Add(time.Hour)
	tokens.status, tokens.body = http.StatusBadRequest, "invalid_grant ASSERTION"
	before := len(bearers)
	r := send()
	want(r, notify.Temporary, "no access token: 400 Bad Request invalid_grant …", "issued-3")
	if len(bearers) != before || strings.Contains(r.Reason, "eyJ") {
		t.Errorf("called without a token, or it was shown: %+v", r)
	}
	for _, body := range []string{"{}", "[]", `{"access_token":""}`, `{"access_token":"a\r\nX-Injected: 1"}`, "x"} {
		now = now.Add(2 * time.Minute)
		tokens.status, tokens.body = http.StatusOK, body
		want(send(), notify.Temporary, "no access token: the answer has no access_token", "issued-3")
	}
	now, tokens.body = now.Add(2*time.Minute), ""
	want(send(), notify.Accepted, "", "issued-4")
}

// TestSignedAccess signs tokens that are not exchanged, as APNs takes them.
func TestSignedAccess(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	phones := newRelay(t)
	var bearers []string
	front := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		bearers = append(bearers, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}))
	defer front.Close()
	p := granted(phones, notify.AccessGrant{}, inPEM(t, key))
	p.URL = front.URL + "/3/device/{{token}}"
	c := withDevices(t, push.Options{}, p)
	for range 2 {
		if r := deliver(t, c, message(device("relay", "a-token"))); r.Verdict != notify.Accepted {
			t.Fatalf("%+v", r)
		}
	}
	token, err := jwt.ParseSigned(bearers[0], []jose.SignatureAlgorithm{jose.ES256})
	claims := map[string]any{}
	if err == nil {
		err = token.Claims(&key.PublicKey, &claims)
	}
	if err != nil || len(claims) != 2 || claims["iss"] != "shop@example.com" || claims["iat"] == nil ||
		token.Headers[0].KeyID != "K1" || bearers[0] != bearers[1] {
		t.Errorf("%v %v, %v; twice the same: %t", token, claims, err, bearers[0] == bearers[1])
	}
}

// TestWrongAccess has definitions that are refused.
func TestWrongAccess(t *testing.T) {
	t.Parallel()
	small, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	phones := newRelay(t)
	good := inPEM(t, rsaKey())
	for want, change := range map[string]func(p *notify.Provider){
		"":                                 func(*notify.Provider) {},
		`"access" does not say how`:        func(p *notify.Provider) { p.Access = nil },
		"{{access}} is not used":           func(p *notify.Provider) { p.Headers = nil },
		`must have an "issuer"`:            func(p *notify.Provider) { p.Access.Issuer = "" },
		"lines of at most 200, 200 and":    func(p *notify.Provider) { p.Access.Scope = "a\nb" },
		"must begin with https://":         func(p *notify.Provider) { p.Access.URL = "http://example.com/" },
		`"access.key" must be the name`:    func(p *notify.Provider) { p.Access.Key = "A b" },
		`the secret "signing" is used`:     func(p *notify.Provider) { p.Secrets = nil },
		"must be a private key in PEM":     func(p *notify.Provider) { p.Secrets["signing"] = "no key at all" },
		"2048 bits, or the curve P-256":    func(p *notify.Provider) { p.Secrets["signing"] = inPEM(t, small) },
		`{{access}} takes no argument`:     func(p *notify.Provider) { p.URL += `{{access "x"}}` },
		"must have 4 to 4096 characters, ": func(p *notify.Provider) { p.Secrets["other"] = "a\nb\nc" },
	} {
		p := granted(phones, notify.AccessGrant{URL: "https://example.com/token"}, good)
		change(&p)
		_, err := provider.Compile(p)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if err != nil && strings.Contains(err.Error(), base64.StdEncoding.EncodeToString([]byte(good))[:20]) {
			t.Errorf("the error has the key: %v", err)
		}
	}
}
