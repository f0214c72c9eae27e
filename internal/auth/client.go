package auth

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/fault"
)

// Client is an OAuth2 client.
type Client struct {
	ID string
	// Secrets are hashes; at most two, so that a secret can be replaced without
	// downtime.
	Secrets      []string
	Name         string
	Scopes       []string // scopes it may request on behalf of users
	Authorities  []string // scopes of its own tokens
	GrantTypes   []string
	RedirectURIs []string
	AutoApprove  []string // scopes, or ["true"] for all
	ResourceIDs  []string
	// AccessValidity and RefreshValidity are 0 for the server's defaults.
	AccessValidity  time.Duration
	RefreshValidity time.Duration
	// Public clients have no secret and must use PKCE.
	Public  bool
	Created time.Time
	// Modified changes with every update.
	Modified time.Time
	// More keeps unknown fields, as UAA does.
	More map[string]json.RawMessage
}

// The supported grants, by their names in requests and registrations.
const (
	GrantClientCredentials = "client_credentials"
	GrantPassword          = "password"
	GrantRefreshToken      = "refresh_token"
	GrantAuthorizationCode = "authorization_code"
	GrantJWTBearer         = "urn:ietf:params:oauth:grant-type:jwt-bearer"
)

var knownGrants = []string{GrantClientCredentials, GrantPassword, GrantRefreshToken, GrantAuthorizationCode,
	GrantJWTBearer}

// Allows reports whether the client may use grant.
func (c *Client) Allows(grant string) bool { return slices.Contains(c.GrantTypes, grant) }

// words is a list that may be a JSON list or one string separated by commas or
// spaces: existing clients send both.
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*w = splitWords(one)
		return nil
	}
	var flag bool
	if json.Unmarshal(b, &flag) == nil {
		*w = nil
		if flag {
			*w = words{"true"}
		}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(w))
}

func splitWords(s string) []string {
	return strings.FieldsFunc(s, func(c rune) bool { return c == ',' || c == ' ' })
}

// clientBody is the JSON representation of a client.
type clientBody struct {
	ID                   string   `json:"client_id"`
	Secret               *string  `json:"client_secret,omitempty"`
	Name                 string   `json:"name,omitempty"`
	Scopes               words    `json:"scope"`
	ResourceIDs          words    `json:"resource_ids"`
	GrantTypes           words    `json:"authorized_grant_types"`
	RedirectURIs         words    `json:"redirect_uri,omitempty"`
	AutoApprove          words    `json:"autoapprove"`
	Authorities          words    `json:"authorities"`
	AccessTokenValidity  *seconds `json:"access_token_validity,omitempty"`
	RefreshTokenValidity *seconds `json:"refresh_token_validity,omitempty"`
	AllowPublic          bool     `json:"allowpublic,omitempty"`
	LastModified         int64    `json:"lastModified,omitempty"`
}

// seconds is a duration that may be written as a number or a numeric string.
type seconds int64

func (s *seconds) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "" || text == "null" {
		return nil
	}
	var n int64
	if err := json.Unmarshal([]byte(text), &n); err != nil || n < 0 || n > 10*365*24*3600 {
		return fault.New(fault.BadRequest, "a token validity must be a number of seconds between 0 and 315360000, not %s", b).
			WithKind("invalid_client")
	}
	*s = seconds(n)
	return nil
}

var clientMembers = []string{
	"client_id", "client_secret", "name", "scope", "resource_ids", "authorized_grant_types", "redirect_uri",
	"autoapprove", "authorities", "access_token_validity", "refresh_token_validity", "allowpublic", "lastModified",
}

// body returns the JSON representation of the client, without secrets.
func (c *Client) body() map[string]any {
	out := map[string]any{}
	for k, v := range c.More {
		out[k] = v
	}
	set := func(k string, v []string) {
		if v == nil {
			v = []string{}
		}
		out[k] = v
	}
	out["client_id"] = c.ID
	out["name"] = c.Name
	if c.Name == "" {
		out["name"] = c.ID
	}
	set("scope", c.Scopes)
	set("resource_ids", c.ResourceIDs)
	set("authorized_grant_types", c.GrantTypes)
	if len(c.RedirectURIs) > 0 {
		set("redirect_uri", c.RedirectURIs)
	}
	set("autoapprove", c.AutoApprove)
	set("authorities", c.Authorities)
	if c.AccessValidity > 0 {
		out["access_token_validity"] = int64(c.AccessValidity / time.Second)
	}
	if c.RefreshValidity > 0 {
		out["refresh_token_validity"] = int64(c.RefreshValidity / time.Second)
	}
	if c.Public {
		out["allowpublic"] = true
	}
	out["lastModified"] = c.Modified.UnixMilli()
	return out
}

// inherit fills what a request to change c leaves out, or empty, with what c has: as
// with UAA, an update changes what it names.
func (b *clientBody) inherit(c *Client, more map[string]json.RawMessage) {
	for _, one := range []struct {
		dest *words
		have []string
	}{
		{&b.Scopes, c.Scopes}, {&b.ResourceIDs, c.ResourceIDs}, {&b.GrantTypes, c.GrantTypes},
		{&b.RedirectURIs, c.RedirectURIs},
		{&b.Authorities, c.Authorities},
	} {
		if len(*one.dest) == 0 {
			*one.dest = one.have
		}
	}
	// An empty list, unlike none, withdraws all approvals.
	if _, ok := more["autoapprove"]; !ok {
		b.AutoApprove = c.AutoApprove
	}
	if b.Name == "" {
		b.Name = c.Name
	}
	if _, ok := more["allowpublic"]; !ok {
		b.AllowPublic = c.Public
	}
	keep := func(dest **seconds, have time.Duration) {
		if *dest == nil && have > 0 {
			n := seconds(have / time.Second)
			*dest = &n
		}
	}
	keep(&b.AccessTokenValidity, c.AccessValidity)
	keep(&b.RefreshTokenValidity, c.RefreshValidity)
	for k, v := range c.More {
		if _, ok := more[k]; !ok {
			more[k] = v
		}
	}
}

// apply copies the fields of a request to c, except the secret.
func (b *clientBody) apply(c *Client, more map[string]json.RawMessage) {
	c.Name = b.Name
	c.Scopes, c.ResourceIDs, c.GrantTypes = unique(b.Scopes), unique(b.ResourceIDs), unique(b.GrantTypes)
	c.RedirectURIs, c.AutoApprove, c.Authorities = unique(b.RedirectURIs), unique(b.AutoApprove), unique(b.Authorities)
	c.AccessValidity, c.RefreshValidity = 0, 0
	if b.AccessTokenValidity != nil {
		c.AccessValidity = time.Duration(*b.AccessTokenValidity) * time.Second
	}
	if b.RefreshTokenValidity != nil {
		c.RefreshValidity = time.Duration(*b.RefreshTokenValidity) * time.Second
	}
	c.Public = b.AllowPublic
	c.More = map[string]json.RawMessage{}
	for k, v := range more {
		if !slices.Contains(clientMembers, k) {
			c.More[k] = v
		}
	}
	// UAA's defaults: a client without scopes or authorities can do nothing.
	if len(c.Scopes) == 0 {
		c.Scopes = []string{"uaa.none"}
	}
	if len(c.Authorities) == 0 {
		c.Authorities = []string{"uaa.none"}
	}
	if c.Allows(GrantAuthorizationCode) && !c.Allows(GrantRefreshToken) {
		c.GrantTypes = append(c.GrantTypes, GrantRefreshToken)
	}
}

func invalidClient(format string, args ...any) error {
	return fault.New(fault.BadRequest, format, args...).WithKind("invalid_client")
}

// validate checks the rules that hold for every client.
func (c *Client) validate() error {
	if c.ID == "" || len(c.ID) > 255 || strings.ContainsAny(c.ID, "/*\x00 \t\r\n") {
		return invalidClient("client_id must be 1 to 255 characters without spaces, slashes or stars")
	}
	if len(c.GrantTypes) == 0 {
		return invalidClient("An authorized grant type must be provided. Must be one of: %s", strings.Join(knownGrants, ", "))
	}
	for _, g := range c.GrantTypes {
		if !slices.Contains(knownGrants, g) {
			return invalidClient("%s is not an allowed grant type. Must be one of: %s", g, strings.Join(knownGrants, ", "))
		}
	}
	if c.Allows(GrantAuthorizationCode) && len(c.RedirectURIs) == 0 {
		return invalidClient("authorization_code grant type requires at least one redirect URL")
	}
	for _, u := range c.RedirectURIs {
		if err := validRedirect(u); err != nil {
			return invalidClient("redirect_uri %q: %v", u, err)
		}
	}
	for _, s := range slices.Concat(c.Scopes, c.Authorities) {
		if !validScope(s) {
			return invalidClient("%q is not a scope name", s)
		}
	}
	return nil
}

// validRedirect rejects what RFC 9700 rejects: patterns, fragments, and schemes
// that a browser would execute.
func validRedirect(s string) error {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return fmt.Errorf("not a URL")
	case strings.Contains(s, "*"):
		return fmt.Errorf("wildcards are not allowed: list each address")
	case u.Fragment != "" || strings.Contains(s, "#"):
		return fmt.Errorf("a fragment is not allowed")
	case u.Scheme == "" || u.Scheme == "javascript" || u.Scheme == "data" || u.Scheme == "vbscript":
		return fmt.Errorf("the scheme is not allowed")
	case (u.Scheme == "http" || u.Scheme == "https") && u.Host == "":
		return fmt.Errorf("the host is missing")
	}
	return nil
}

func unique(in []string) []string {
	out := make([]string, 0, len(in))
	for _, s := range in {
		if s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return out
}
