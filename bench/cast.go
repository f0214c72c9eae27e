package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
)

// cast are the clients and users of a measurement, with their requests.
type cast struct {
	tokens    [][]byte // client credentials grants, one per client
	logins    [][]byte // password grants, one per user
	userInfos [][]byte // GET /userinfo, one per user
	health    []byte
}

// newCast creates clients and users, and uses each client's secret once: the
// first verification is slow by design, and is not what is measured.
func newCast(ctx context.Context, s *Server, clients, users int) (*cast, error) {
	c := &cast{health: get(s.API, "/healthz")}
	grant := url.Values{"grant_type": {"client_credentials"}}
	admin, err := s.Token(ctx, basic("admin", adminSecret), grant)
	if err != nil {
		return nil, err
	}
	for i := range clients {
		id, secret := fmt.Sprintf("bench-client-%02d", i), fmt.Sprintf("secret-of-client-%02d", i)
		err := s.Create(ctx, admin, "/oauth/clients", map[string]any{
			"client_id": id, "client_secret": secret, "authorized_grant_types": []string{"client_credentials"},
			"authorities": []string{"notifications.write", "critical_notifications.write", "scim.read"},
		})
		if err != nil {
			return nil, err
		}
		if _, err := s.Token(ctx, basic(id, secret), grant); err != nil {
			return nil, err
		}
		c.tokens = append(c.tokens, post(s.API, "/oauth/token", grant.Encode(), "Authorization: "+basic(id, secret)))
	}
	for i := range users {
		if err := c.addUser(ctx, s, admin, fmt.Sprintf("bench-user-%02d", i)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cast) addUser(ctx context.Context, s *Server, admin, name string) error {
	password := "password-of-" + name
	err := s.Create(ctx, admin, "/Users", map[string]any{
		"userName": name, "password": password, "emails": []map[string]any{{"value": name + "@example.org", "primary": true}},
	})
	if err != nil {
		return err
	}
	form := url.Values{"grant_type": {"password"}, "username": {name}, "password": {password}}
	token, err := s.Token(ctx, basic("cf", ""), form)
	if err != nil {
		return err
	}
	c.logins = append(c.logins, post(s.API, "/oauth/token", form.Encode(), "Authorization: "+basic("cf", "")))
	c.userInfos = append(c.userInfos, get(s.API, "/userinfo", "Authorization: Bearer "+token))
	return nil
}

func basic(id, secret string) string {
	r := http.Request{Header: http.Header{}}
	r.SetBasicAuth(id, secret)
	return r.Header.Get("Authorization")
}
