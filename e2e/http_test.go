package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// newClient follows no redirects, so that tests see them.
func newClient() *http.Client {
	return &http.Client{
		Timeout:       patience,
		Transport:     &http.Transport{MaxIdleConnsPerHost: 16},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reply is a complete response.
type reply struct {
	Status int
	Header http.Header
	Body   []byte
}

func (r *reply) String() string { return fmt.Sprintf("%d %s", r.Status, bytes.TrimSpace(r.Body)) }

// into decodes the body.
func (r *reply) into(t testing.TB, v any) {
	t.Helper()
	if err := json.Unmarshal(r.Body, v); err != nil {
		t.Fatalf("body cannot be decoded: %v: %s", err, r)
	}
}

// object decodes the body as a JSON object.
func (r *reply) object(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	r.into(t, &v)
	return v
}

// id returns the member "id", or "".
func (r *reply) id() string {
	var v struct{ ID string }
	_ = json.Unmarshal(r.Body, &v) // on an error it stays empty
	return v.ID
}

// want fails the test unless the response has the status.
func (r *reply) want(t testing.TB, status int) *reply {
	t.Helper()
	if r.Status != status {
		t.Fatalf("status %d, want %d: %s", r.Status, status, r.Body)
	}
	return r
}

// header is a request header for try and call.
type header struct{ name, value string }

// try sends a request. body is a url.Values, sent as a form, or anything else,
// sent as JSON. A truncated response is an error.
func (s *Server) try(method, address, token string, body any, headers ...header) (*reply, error) {
	var reader io.Reader
	kind := ""
	switch b := body.(type) {
	case nil:
	case url.Values:
		reader, kind = strings.NewReader(b.Encode()), "application/x-www-form-urlencoded"
	default:
		text, err := json.Marshal(b)
		if err != nil {
			return nil, err
		}
		reader, kind = bytes.NewReader(text), "application/json"
	}
	req, err := http.NewRequest(method, address, reader)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	for _, h := range headers {
		req.Header.Set(h.name, h.value)
		if h.name == "Host" {
			req.Host = h.value
		}
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	return &reply{res.StatusCode, res.Header, text}, nil
}

// call is like try, but fails the test if there is no response. A path is relative
// to the API.
func (s *Server) call(t testing.TB, method, address, token string, body any, headers ...header) *reply {
	t.Helper()
	if strings.HasPrefix(address, "/") {
		address = s.API + address
	}
	r, err := s.try(method, address, token, body, headers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// tokens is a response of the token endpoint.
type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
	Type    string `json:"token_type"`
	Scope   string `json:"scope"`
}

// basic returns the Authorization header of a client with its secret.
func basic(id, secret string) header {
	return header{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))}
}

// askToken requests a token as a client.
func (s *Server) askToken(t testing.TB, id, secret string, form url.Values) *reply {
	t.Helper()
	return s.call(t, http.MethodPost, "/oauth/token", "", form, basic(id, secret))
}

// clientToken returns a client's own token.
func (s *Server) clientToken(t testing.TB, id, secret string) string {
	t.Helper()
	var got tokens
	s.askToken(t, id, secret, url.Values{"grant_type": {"client_credentials"}}).want(t, http.StatusOK).into(t, &got)
	return got.Access
}

// adminToken returns a token of the client admin.
func (s *Server) adminToken(t testing.TB) string {
	t.Helper()
	return s.clientToken(t, "admin", s.secret(t, "admin-client-secret"))
}

// login requests a user's tokens as cf does.
func (s *Server) login(t testing.TB, user, password string) *reply {
	t.Helper()
	return s.askToken(t, "cf", "", url.Values{"grant_type": {"password"}, "username": {user}, "password": {password}})
}

// userTokens logs a user in.
func (s *Server) userTokens(t testing.TB, user, password string) tokens {
	t.Helper()
	var got tokens
	s.login(t, user, password).want(t, http.StatusOK).into(t, &got)
	return got
}

// refresh uses a refresh token as cf does.
func (s *Server) refresh(t testing.TB, token string) *reply {
	t.Helper()
	return s.askToken(t, "cf", "", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}})
}

// createUser creates a user and returns the id.
func (s *Server) createUser(t testing.TB, admin, name, password string) string {
	t.Helper()
	r := s.call(t, http.MethodPost, "/Users", admin, userBody(name, password)).want(t, http.StatusCreated)
	return r.object(t)["id"].(string)
}

func userBody(name, password string) map[string]any {
	return map[string]any{
		"userName": name, "password": password, "name": map[string]string{"givenName": "Given " + name,
			"familyName": "Family " + name},
		"emails": []map[string]any{{"value": name + "@example.org", "primary": true}},
	}
}

// kids lists the ids of the signing keys.
func (s *Server) kids(t testing.TB) []string {
	t.Helper()
	var got struct {
		Keys []struct {
			Kid string `json:"kid"`
		} `json:"keys"`
	}
	s.call(t, http.MethodGet, "/token_keys", "", nil).want(t, http.StatusOK).into(t, &got)
	var kids []string
	for _, k := range got.Keys {
		kids = append(kids, k.Kid)
	}
	return kids
}

// jwtPart decodes a part of a token without verifying it: 0 is its header, 1 its
// claims.
func jwtPart(t testing.TB, token string, part int) map[string]any {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("%q is not a JWT", token)
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[part])
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func claims(t testing.TB, token string) map[string]any {
	t.Helper()
	return jwtPart(t, token, 1)
}

// sameWords compares lists without regard to order.
func sameWords(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// all reads every page of a list of the authorization server.
func (s *Server) all(t testing.TB, path, token, key string) map[string]map[string]any {
	t.Helper()
	found := map[string]map[string]any{}
	for at := 1; ; {
		var page struct {
			Resources []map[string]any `json:"resources"`
			Total     int              `json:"totalResults"`
		}
		s.call(t, http.MethodGet, fmt.Sprintf("%s?count=500&startIndex=%d", path, at), token, nil).want(t, http.StatusOK).
			into(t, &page)
		for _, r := range page.Resources {
			id := r[key].(string)
			if found[id] != nil {
				t.Errorf("%s lists %s twice", path, id)
			}
			found[id] = r
		}
		at += len(page.Resources)
		if at > page.Total {
			if len(found) != page.Total {
				t.Errorf("%s lists %d of %d: %v", path, len(found), page.Total, slices.Sorted(maps.Keys(found)))
			}
			return found
		}
		if len(page.Resources) == 0 {
			t.Fatalf("%s ends before its total of %d", path, page.Total)
		}
	}
}
