package e2e

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestNotificationClient creates a client as the documentation tells senders to,
// and gets its token.
func TestNotificationClient(t *testing.T) {
	t.Parallel()
	s := start(t, options{})
	admin := s.adminToken(t)
	authorities := []string{
		"notifications.write", "notifications.manage", "notification_templates.write", "notification_templates.read",
		"critical_notifications.write",
	}
	body := map[string]any{
		"client_id": "my-sender", "client_secret": "my-secret", "authorized_grant_types": "client_credentials",
		"authorities": authorities,
	}
	s.call(t, http.MethodPost, "/oauth/clients", admin, body).want(t, http.StatusCreated)
	if r := s.call(t, http.MethodPost, "/oauth/clients", admin, body); r.Status != http.StatusConflict {
		t.Errorf("the same client again: %s", r)
	}

	ask := func(extra url.Values, h ...header) *reply {
		t.Helper()
		form := url.Values{"grant_type": {"client_credentials"}}
		for name, value := range extra {
			form[name] = value
		}
		return s.call(t, http.MethodPost, "/oauth/token", "", form, h...)
	}
	check := func(r *reply, want []string) {
		t.Helper()
		var got tokens
		r.want(t, http.StatusOK).into(t, &got)
		if got.Type != "bearer" || got.Refresh != "" || !sameWords(strings.Fields(got.Scope), want) {
			t.Errorf("type %q, refresh token %q, scopes %q, want %q", got.Type, got.Refresh, got.Scope, want)
		}
		c := claims(t, got.Access)
		var scopes []string
		for _, word := range c["scope"].([]any) {
			scopes = append(scopes, word.(string))
		}
		if !sameWords(scopes, want) || c["client_id"] != "my-sender" || c["sub"] != "my-sender" {
			t.Errorf("claims %v, want the scopes %q", c, want)
		}
	}
	own := basic("my-sender", "my-secret")
	check(ask(nil, own), authorities)
	check(ask(url.Values{"client_id": {"my-sender"}, "client_secret": {"my-secret"}}), authorities)
	check(ask(url.Values{"scope": {"notifications.write critical_notifications.write"}}, own),
		[]string{"notifications.write", "critical_notifications.write"})

	refused := func(r *reply, status int, kind string) {
		t.Helper()
		got := r.want(t, status).object(t)
		if text, _ := got["error_description"].(string); got["error"] != kind || text == "" {
			t.Errorf("%v, want the error %s and a description", got, kind)
		}
	}
	refused(ask(url.Values{"scope": {"cloud_controller.admin"}}, own), http.StatusBadRequest, "invalid_scope")
	refused(ask(url.Values{"scope": {"no.such.scope"}}, own), http.StatusBadRequest, "invalid_scope")
	bad := ask(nil, basic("my-sender", "guess"))
	refused(bad, http.StatusUnauthorized, "invalid_client")
	if bad.Header.Get("WWW-Authenticate") == "" {
		t.Error("a refusal without WWW-Authenticate")
	}
	refused(ask(nil, basic("nobody", "guess")), http.StatusUnauthorized, "invalid_client")
	refused(ask(nil), http.StatusUnauthorized, "unauthorized")
	refused(s.call(t, http.MethodPost, "/oauth/token", "", url.Values{"grant_type": {"password"}, "username": {"admin"},
		"password": {"x"}}, own),
		http.StatusUnauthorized, "unauthorized_client")

	// It cannot do what its scopes do not allow.
	var got tokens
	ask(nil, own).want(t, http.StatusOK).into(t, &got)
	s.call(t, http.MethodGet, "/Users", got.Access, nil).want(t, http.StatusForbidden)
	s.call(t, http.MethodPost, "/v3/users", got.Access, map[string]string{"guid": "x"}).want(t, http.StatusUnauthorized)
	s.call(t, http.MethodPost, "/oauth/clients", got.Access, body).want(t, http.StatusForbidden)
}
