package auth_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/auth"
	"ingot/internal/auth/authdb"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/web"
)

// FuzzToken sends arbitrary form bodies to the token endpoint. The response is
// always an OAuth error, never a server error, and never a token, because the
// fuzzer knows no secret.
func FuzzToken(f *testing.F) {
	for _, seed := range []string{
		"grant_type=client_credentials&client_id=admin&client_secret=x",
		"grant_type=password&username=admin&password=x&client_id=cf&client_secret=x",
		"grant_type=refresh_token&refresh_token=a.b.c&client_id=pub",
		"grant_type=authorization_code&code=x&client_id=pub&code_verifier=v",
		"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=eyJhbGciOiJub25lIn0.e30.&client_id=pub",
		"grant_type=password&passcode=%00%ff&client_id=pub", "a=%zz", "grant_type=a&grant_type=b", ";;;",
		"scope=%20%20&grant_type=password&client_id=pub",
	} {
		f.Add(seed)
	}
	d := dbtest.Migrated(f, db.SQLite, authdb.Migrations)
	store := authdb.New(d)
	if err := auth.Bootstrap(f.Context(), store, auth.Secrets{AdminPassword: adminPassword,
		AdminClientSecret: adminSecret}, []string{callback}, slog.New(slog.DiscardHandler)); err != nil {
		f.Fatal(err)
	}
	err := store.CreateClient(f.Context(), &auth.Client{
		ID: "pub", Public: true, Scopes: []string{"openid"}, RedirectURIs: []string{callback},
		GrantTypes: []string{auth.GrantPassword, auth.GrantRefreshToken, auth.GrantAuthorizationCode, auth.GrantJWTBearer,
			auth.GrantClientCredentials},
	})
	if err != nil {
		f.Fatal(err)
	}
	// Without the limits every input would soon be answered with 429.
	s, err := auth.New(auth.Options{Store: store, BaseURL: "http://127.0.0.1", PasswordGrant: true, Limits: auth.Limits{
		ClientRate: 1e9, ClientBurst: 1e9, AddressRate: 1e9, AddressBurst: 1e9, AccountRate: 1e9, AccountBurst: 1e9,
	}})
	if err != nil {
		f.Fatal(err)
	}
	if err := s.Start(f.Context()); err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Stop)
	mux := web.NewMux(web.FormatOAuth, slog.New(slog.DiscardHandler), nil)
	s.Routes(mux)
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest(http.MethodPost, "/oauth/token", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code < 400 || w.Code >= 500 || strings.Contains(w.Body.String(), "access_token") ||
			!strings.Contains(w.Body.String(), `"error"`) {
			t.Errorf("body %q: status %d, %s", body, w.Code, w.Body)
		}
	})
}
