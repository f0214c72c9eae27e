package sshd_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/base/testkit"
	"ingot/internal/platform"
	"ingot/internal/platform/edge/sshd"
)

// facts is a platform that knows one instance.
type facts struct {
	user   sshd.User
	target sshd.Target
	err    error
}

func (f facts) Identify(_ context.Context, token string) (sshd.User, error) {
	if token != "the-token" {
		return sshd.User{}, fault.New(fault.InvalidToken, "bad token")
	}
	return f.user, nil
}

func (f facts) Target(_ context.Context, u sshd.User, process string, index int) (sshd.Target, error) {
	if u.GUID != f.user.GUID || process != theProcess || index != 2 {
		return sshd.Target{}, fault.New(fault.NotFound, "no such process")
	}
	return f.target, f.err
}

// authServer answers as the token endpoint does.
func authServer(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, secret, _ := r.BasicAuth()
		answer := func(status int, body string) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}
		switch code := r.FormValue("code"); {
		case r.Method != http.MethodPost || r.URL.Path != "/oauth/token" ||
			r.FormValue("grant_type") != "authorization_code" || r.FormValue("redirect_uri") != "":
			answer(http.StatusBadRequest, `{"error":"invalid_request"}`)
		case id != "ssh-proxy" || secret != "a%2Bb" || r.Header.Get("X-CF-ENCODED-CREDENTIALS") != "true":
			answer(http.StatusUnauthorized, `{"error":"invalid_client"}`)
		case code == "good":
			answer(http.StatusOK, `{"access_token":"the-token","token_type":"bearer"}`)
		case code == "odd token":
			answer(http.StatusOK, `{"access_token":"other"}`)
		case code == "no token":
			answer(http.StatusOK, `{}`)
		case code == "no json":
			answer(http.StatusOK, `<html>`)
		case code == "redirect":
			http.Redirect(w, r, "https://elsewhere.example", http.StatusTemporaryRedirect)
		case code == "down":
			answer(http.StatusServiceUnavailable, `oh dear`)
		case code == "nobody":
			answer(http.StatusUnauthorized, `{"error":"unauthorized"}`)
		default:
			answer(http.StatusBadRequest, `{"error":"invalid_grant"}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL + "/oauth/token"
}

func TestCodeAuthorizer(t *testing.T) {
	t.Parallel()
	url := authServer(t)
	writer := sshd.User{GUID: "u", Name: "anna", Scopes: []string{"openid", "cloud_controller.read",
		"cloud_controller.write"}}
	admin := sshd.User{GUID: "a", Name: "admin", Scopes: []string{"cloud_controller.admin"}}
	reader := sshd.User{GUID: "r", Scopes: []string{"cloud_controller.read"}}
	fine := sshd.Target{
		AppGUID: theApp, Standing: platform.Standing{Roles: []platform.RoleType{platform.SpaceDeveloper}}, SpaceAllows: true,
		AppAllows: true, Started: true, Running: true,
		InstanceID: theInstance, Env: []string{"A=b"},
	}
	without := func(change func(*sshd.Target)) sshd.Target {
		p := fine
		change(&p)
		return p
	}
	const ok, failure = fault.Code(""), fault.Internal
	broken := errors.New("the database is gone")
	for _, x := range []struct {
		name   string
		code   string
		facts  facts
		index  int
		want   fault.Code
		reason string
	}{
		{"Developer", "good", facts{user: writer, target: fine}, 2, ok, ""},
		{"Admin", "good", facts{user: admin, target: without(func(p *sshd.Target) {
			p.Standing = platform.Standing{Authority: platform.Authority{Admin: true}, Suspended: true}
		})}, 2, ok, ""},
		{"WrongCode", "bad", facts{}, 2, fault.Unauthenticated, "one-time code"},
		{"NoCode", "", facts{}, 2, fault.Unauthenticated, "one-time code"},
		{"LongCode", strings.Repeat("x", 2000), facts{}, 2, fault.Unauthenticated, "one-time code"},
		{"UserGone", "nobody", facts{}, 2, fault.Unauthenticated, "one-time code"},
		{"OddToken", "odd token", facts{}, 2, fault.Unauthenticated, "token"},
		{"NoToken", "no token", facts{}, 2, failure, "no token"},
		{"NoJSON", "no json", facts{}, 2, failure, "invalid character"},
		{"Redirect", "redirect", facts{}, 2, failure, "307"},
		{"Down", "down", facts{}, 2, failure, "503"},
		{"NoProcess", "good", facts{user: writer, target: fine}, 3, fault.NotFound, "no such process"},
		{"StoreFails", "good", facts{user: writer, err: broken}, 2, failure, "database"},
		{"Invisible", "good", facts{user: writer,
			target: without(func(p *sshd.Target) { p.Standing.Roles = []platform.RoleType{platform.OrgAuditor} })}, 2,
			fault.NotFound, "cannot see"},
		{"NoScope", "good", facts{user: reader, target: fine}, 2, fault.Forbidden, "scope"},
		{"NoDeveloper", "good", facts{user: writer, target: without(func(p *sshd.Target) {
			p.Standing.Roles = []platform.RoleType{platform.SpaceSupporter, platform.OrgManager}
		})}, 2, fault.Forbidden, "developer"},
		{"Suspended", "good", facts{user: writer, target: without(func(p *sshd.Target) { p.Standing.Suspended = true })}, 2,
			fault.Forbidden, "suspended"},
		{"Space", "good", facts{user: writer, target: without(func(p *sshd.Target) { p.SpaceAllows = false })}, 2,
			fault.FeatureDisabled, "space"},
		{"App", "good", facts{user: writer, target: without(func(p *sshd.Target) { p.AppAllows = false })}, 2,
			fault.FeatureDisabled, "app"},
		{"Stopped", "good", facts{user: writer, target: without(func(p *sshd.Target) { p.Started = false })}, 2,
			fault.Unprocessable, "stopped"},
		{"Starting", "good", facts{user: writer, target: without(func(p *sshd.Target) { p.Running = false })}, 2,
			fault.Unprocessable, "is not running"},
		{"NoInstance", "good", facts{user: writer, target: without(func(p *sshd.Target) { p.InstanceID = "" })}, 2,
			fault.Unprocessable, "is not running"},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			a := sshd.NewCodeAuthorizer(sshd.CodeOptions{TokenURL: url, Secret: "a+b", Platform: x.facts})
			t.Cleanup(a.Close)
			s, err := a.Authorize(t.Context(), x.code, theProcess, x.index, nil)
			if fault.CodeOf(err) != x.want || err != nil && !strings.Contains(err.Error(), x.reason) {
				t.Fatalf("Authorize = %v, want %s %q", err, x.want, x.reason)
			}
			if err != nil {
				if s.InstanceID != "" || s.Env != nil {
					t.Errorf("a refusal with %+v", s)
				}
				if x.code == "good" && x.facts.err == nil && s.UserGUID != x.facts.user.GUID {
					t.Errorf("the audit event would not know who it was: %+v", s)
				}
				return
			}
			if s.UserGUID != x.facts.user.GUID || s.UserName != x.facts.user.Name || s.AppGUID != theApp ||
				s.ProcessGUID != theProcess ||
				s.Index != 2 || s.InstanceID != theInstance || !slices.Equal(s.Env, fine.Env) {
				t.Errorf("session %+v", s)
			}
		})
	}
}

// TestAuthorizationServerIsGone sees that an outage does not count as a guess.
func TestAuthorizationServerIsGone(t *testing.T) {
	t.Parallel()
	url := "http://" + testkit.Refusing(t) + "/oauth/token"
	a := sshd.NewCodeAuthorizer(sshd.CodeOptions{TokenURL: url, Platform: facts{}})
	defer a.Close()
	if _, err := a.Authorize(t.Context(), "good", theProcess, 2, nil); fault.CodeOf(err) != fault.Internal {
		t.Errorf("Authorize = %v", err)
	}
}
