package token_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
)

type keys map[string]any

func (k keys) Key(_ context.Context, kid string) (any, error) {
	if key, ok := k[kid]; ok {
		return key, nil
	}
	return nil, fmt.Errorf("%w %q", token.ErrUnknownKey, kid)
}

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func newKey(t testing.TB) *rsa.PrivateKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, claims any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := jwt.Signed(s).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func good() map[string]any {
	return map[string]any{
		"jti": "1", "iss": "http://uaa/oauth/token", "aud": []string{"cloud_controller"}, "cid": "cf",
		"scope": []string{"cloud_controller.read"},
		"iat":   now.Unix(), "exp": now.Add(time.Hour).Unix(),
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	key, other := newKey(t), newKey(t)
	revoked := false
	v := token.NewVerifier(token.Options{
		Issuer: "http://uaa/oauth/token", Audiences: []string{"cloud_controller"}, Keys: keys{"k": &key.PublicKey},
		Now: func() time.Time { return now }, Revoked: func(c *token.Claims) bool { return revoked && c.ID == "1" },
	})
	with := func(k string, val any) map[string]any {
		c := good()
		c[k] = val
		if val == nil {
			delete(c, k)
		}
		return c
	}
	tests := map[string]struct {
		raw string
		ok  bool
	}{
		"good":            {sign(t, jose.RS256, key, "k", good()), true},
		"RS512":           {sign(t, jose.RS512, key, "k", good()), true},
		"audience string": {sign(t, jose.RS256, key, "k", with("aud", "cloud_controller")), true},
		"skew":            {sign(t, jose.RS256, key, "k", with("exp", now.Add(-29*time.Second).Unix())), true},
		"expired":         {sign(t, jose.RS256, key, "k", with("exp", now.Add(-30*time.Second).Unix())), false},
		"no expiry":       {sign(t, jose.RS256, key, "k", with("exp", nil)), false},
		"clock set back":  {sign(t, jose.RS256, key, "k", with("iat", now.Add(time.Hour).Unix())), true},
		"future":          {sign(t, jose.RS256, key, "k", with("iat", now.Add(3*time.Hour).Unix())), false},
		"not yet":         {sign(t, jose.RS256, key, "k", with("nbf", now.Add(time.Minute).Unix())), false},
		"issuer":          {sign(t, jose.RS256, key, "k", with("iss", "http://evil/oauth/token")), false},
		"no issuer":       {sign(t, jose.RS256, key, "k", with("iss", nil)), false},
		"audience":        {sign(t, jose.RS256, key, "k", with("aud", []string{"other"})), false},
		"no audience":     {sign(t, jose.RS256, key, "k", with("aud", nil)), false},
		"refresh token":   {sign(t, jose.RS256, key, "k", with("jti", "1-r")), false},
		"wrong key":       {sign(t, jose.RS256, other, "k", good()), false},
		"unknown kid":     {sign(t, jose.RS256, key, "x", good()), false},
		"no kid":          {sign(t, jose.RS256, key, "", good()), false},
		"HS256":           {sign(t, jose.HS256, []byte(strings.Repeat("k", 32)), "k", good()), false},
		"PS256":           {sign(t, jose.PS256, key, "k", good()), false},
		"none":            {"eyJhbGciOiJub25lIiwia2lkIjoiayJ9.e30.", false},
		"empty":           {"", false},
		"garbage":         {"a.b.c", false},
		"long":            {strings.Repeat("a", 20<<10), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 { // the second time from memory
				c, err := v.Verify(t.Context(), tc.raw)
				if tc.ok && (err != nil || c.ClientID != "cf" || !c.HasAny("x", "cloud_controller.read") || c.HasAny("x")) {
					t.Errorf("claims are %+v, %v, want client cf with cloud_controller.read", c, err)
				}
				if !tc.ok && (!fault.Is(err, fault.InvalidToken) || c != nil) {
					t.Errorf("accepted: %+v, %v", c, err)
				}
			}
		})
	}
	t.Run("revoked after it was remembered", func(t *testing.T) {
		raw := sign(t, jose.RS256, key, "k", good())
		if _, err := v.Verify(t.Context(), raw); err != nil {
			t.Fatal(err)
		}
		revoked = true
		defer func() { revoked = false }()
		if _, err := v.Verify(t.Context(), raw); !fault.Is(err, fault.InvalidToken) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRemoteKeys(t *testing.T) {
	t.Parallel()
	first, second := newKey(t), newKey(t)
	var list atomic.Pointer[[]jose.JSONWebKey]
	list.Store(&[]jose.JSONWebKey{{Key: &first.PublicKey, KeyID: "1", Algorithm: "RS256"}})
	var asked atomic.Int32
	uaa := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path != "/token_keys" || list.Load() == nil {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": *list.Load()})
	}))
	t.Cleanup(uaa.Close)
	at := now
	r := token.NewRemoteKeys(uaa.URL+"/", uaa.Client())
	token.SetClock(r, func() time.Time { return at })
	get := func(kid string) error {
		_, err := r.Key(t.Context(), kid)
		return err
	}
	if err := get("1"); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		_ = get("1")
		_ = get("forged")
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("asked %d times", n)
	}
	list.Store(&[]jose.JSONWebKey{{Key: &second.PublicKey, KeyID: "2", Algorithm: "RS256"},
		{Key: &first.PublicKey, KeyID: "1", Algorithm: "RS256"}})
	at = at.Add(3 * time.Second)
	if err := get("2"); err != nil {
		t.Errorf("a rotated key was not noticed: %v", err)
	}
	list.Store(nil)
	at = at.Add(time.Hour)
	if err := get("1"); err != nil {
		t.Errorf("with the server away known keys must stay good: %v", err)
	}
	if err := get("3"); err == nil {
		t.Error("an unknown key was found")
	}
}

// FuzzVerify feeds text to the parser: nothing unsigned is ever accepted.
func FuzzVerify(f *testing.F) {
	key := newKey(f)
	raw := sign(f, jose.RS256, key, "k", good())
	parts := strings.Split(raw, ".")
	for _, s := range []string{"", "..", "a.b.c", parts[0] + "..", parts[0] + "." + parts[1] + ".",
		"eyJhbGciOiJub25lIn0.e30.", `{"payload":"e30","signatures":[]}`, raw[:len(raw)-2]} {
		f.Add(s)
	}
	v := token.NewVerifier(token.Options{Issuer: "http://uaa/oauth/token", Keys: keys{"k": &key.PublicKey},
		Now: func() time.Time { return now }})
	f.Fuzz(func(t *testing.T, s string) {
		if c, err := v.Verify(context.Background(), s); err == nil && s != raw {
			t.Errorf("accepted %q as %+v", s, c)
		}
	})
}
