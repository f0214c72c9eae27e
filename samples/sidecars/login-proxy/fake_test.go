package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// signer is a key of the fake authorization server.
type signer struct {
	id string
	k  crypto.Signer
}

var rsaKey = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newEC(t *testing.T, id string) signer {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return signer{id, k}
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwk returns the public key as a member of a key set.
func (s signer) jwk() map[string]string {
	if k, ok := s.k.Public().(*rsa.PublicKey); ok {
		return map[string]string{"kid": s.id, "kty": "RSA", "alg": "RS256", "use": "sig", "n": b64(k.N.Bytes()),
			"e": b64(big.NewInt(int64(k.E)).Bytes())}
	}
	raw, err := s.k.Public().(*ecdsa.PublicKey).Bytes()
	if err != nil {
		panic(err)
	}
	return map[string]string{"kid": s.id, "kty": "EC", "crv": "P-256", "x": b64(raw[1:33]), "y": b64(raw[33:])}
}

// sign returns a token with claims.
func (s signer) sign(algorithm string, claims map[string]any) string {
	header, _ := json.Marshal(map[string]string{"alg": algorithm, "kid": s.id, "typ": "JWT"})
	body, _ := json.Marshal(claims)
	text := b64(header) + "." + b64(body)
	sum := sha256.Sum256([]byte(text))
	var signature []byte
	switch k := s.k.(type) {
	case *rsa.PrivateKey:
		signature, _ = rsa.SignPKCS1v15(rand.Reader, k, crypto.SHA256, sum[:])
	case *ecdsa.PrivateKey:
		r, v, _ := ecdsa.Sign(rand.Reader, k, sum[:])
		signature = append(r.FillBytes(make([]byte, 32)), v.FillBytes(make([]byte, 32))...)
	}
	return text + "." + b64(signature)
}

// authority is a fake authorization server with one user, who is logged in.
type authority struct {
	*httptest.Server
	t *testing.T

	mu        sync.Mutex
	key       signer
	algorithm string
	secret    string
	method    string // of authentication of clients
	life      time.Duration
	scopes    string
	codes     map[string]url.Values // by code, the request for it
	refresh   map[string]bool       // valid ones
	refreshes int
	revoked   int
	// change changes the claims of ID tokens, changeAccess those of access tokens.
	change, changeAccess func(map[string]any)
	down                 bool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{
		t: t, key: signer{"rsa", rsaKey()}, algorithm: "RS256", secret: "s3cret/+ %", method: "client_secret_post",
		life: time.Hour, scopes: "openid shop.read",
		codes: map[string]url.Values{}, refresh: map[string]bool{}, change: func(map[string]any) {},
		changeAccess: func(map[string]any) {},
	}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

func (a *authority) issuer() string { return a.URL + "/oauth/token" }

func (a *authority) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	switch {
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": a.issuer(), "authorization_endpoint": a.URL + "/oauth/authorize", "token_endpoint": a.URL + "/oauth/token",
			"jwks_uri": a.URL + "/token_keys", "end_session_endpoint": a.URL + "/logout.do",
			"token_endpoint_auth_methods_supported": []string{a.method},
		})
	case r.URL.Path == "/token_keys":
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{"kty": "oct", "kid": "other"},
			a.key.jwk()}})
	case r.URL.Path == "/oauth/authorize":
		q := r.URL.Query()
		if q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("state") == "" ||
			q.Get("nonce") == "" || q.Get("client_id") != "shop" {
			a.t.Errorf("the authorization request is %v", q)
		}
		code := randomText()
		a.codes[code] = q
		http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(),
			http.StatusFound)
	case r.URL.Path == "/oauth/token":
		a.token(w, r)
	case strings.HasPrefix(r.URL.Path, "/oauth/token/revoke/") && r.Method == http.MethodDelete:
		a.revoked++
		delete(a.refresh, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	case r.URL.Path == "/logout.do":
		fmt.Fprintf(w, "logged out, back to %s", r.URL.Query().Get("redirect"))
	default:
		http.NotFound(w, r)
	}
}

// token issues tokens for a code or a refresh token.
func (a *authority) token(w http.ResponseWriter, r *http.Request) {
	fail := func(text string) {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": text})
	}
	id, secret := r.FormValue("client_id"), r.FormValue("client_secret")
	if a.method == "client_secret_basic" {
		id, secret, _ = r.BasicAuth()
		secret, _ = url.QueryUnescape(secret)
	}
	if id != "shop" || secret != a.secret {
		fail("wrong client")
		return
	}
	nonce := ""
	switch r.FormValue("grant_type") {
	case "authorization_code":
		asked, ok := a.codes[r.FormValue("code")]
		delete(a.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		if !ok || asked.Get("code_challenge") != b64(sum[:]) || asked.Get("redirect_uri") != r.FormValue("redirect_uri") {
			fail("wrong code, verifier or redirect")
			return
		}
		nonce = asked.Get("nonce")
	case "refresh_token":
		a.refreshes++
		if !a.refresh[r.FormValue("refresh_token")] {
			fail("wrong refresh token")
			return
		}
		delete(a.refresh, r.FormValue("refresh_token")) // used once
	}
	now := time.Now()
	id1 := map[string]any{
		"iss": a.issuer(), "sub": "user-1", "aud": []string{"shop"}, "azp": "shop", "exp": now.Add(a.life).Unix(),
		"iat":       now.Unix(),
		"user_name": "ann", "email": "ann@example.org",
	}
	if nonce != "" {
		id1["nonce"] = nonce
	}
	access := maps.Clone(id1)
	access["aud"], access["scope"], access["client_id"] = []string{"shop", "cloud_controller"},
		strings.Fields(a.scopes), "shop"
	a.change(id1)
	a.changeAccess(access)
	refresh := a.key.sign(a.algorithm, map[string]any{"jti": randomText() + "-r"})
	a.refresh[refresh] = true
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": a.key.sign(a.algorithm, access), "id_token": a.key.sign(a.algorithm, id1), "refresh_token": refresh,
		"expires_in": int(a.life / time.Second), "scope": a.scopes,
	})
}

// site is a proxy in front of an app, with an authorization server.
type site struct {
	*authority
	p    *proxy
	base string // the proxy's address
}

const testKey = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

// newSite starts a proxy. The app responds with its request as JSON, and echoes a
// WebSocket.
func newSite(t *testing.T, pairs ...string) *site {
	t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			c, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprint(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
			_, _ = io.Copy(c, buffered)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"path": r.RequestURI, "headers": r.Header, "host": r.Host})
	}))
	t.Cleanup(app.Close)
	a := newAuthority(t)
	front := httptest.NewUnstartedServer(nil)
	base := "http://" + front.Listener.Addr().String()
	env := map[string]string{
		"LOGIN_AUTH_URL": a.URL, "LOGIN_CLIENT_ID": "shop", "LOGIN_CLIENT_SECRET": a.secret, "LOGIN_REDIRECT_URL": base +
			"/oauth2/callback",
		"LOGIN_SESSION_KEY": testKey, "LOGIN_UPSTREAM": strings.TrimPrefix(app.URL, "http://"),
		"LOGIN_PUBLIC_PATHS": "/healthz,/assets/*",
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	p, err := configure(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	front.Config.Handler = p.handler()
	front.Start()
	t.Cleanup(front.Close)
	return &site{a, p, base}
}

// browser returns a client that keeps cookies and follows redirects.
func browser(t *testing.T) *http.Client {
	t.Helper()
	j, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Jar: j, Timeout: 30 * time.Second}
}

// get requests a page as a browser does.
func get(t *testing.T, c *http.Client, method, address string, headers ...string) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header[headers[i]] = []string{headers[i+1]} // as it is written
	}
	answer, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer, string(text)
}
