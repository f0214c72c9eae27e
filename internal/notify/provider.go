package notify

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/pattern"
)

// Provider is a service that delivers messages of a channel by HTTP, as its definition says.
type Provider struct {
	// Owner is the client that declared it. It is empty for those of administrators, which deliver for the clients that
	// have none for the channel.
	Owner   string
	Name    string
	Channel ChannelID
	ProviderDefinition
	// Secrets are what the definition names as {{secret "name"}}. They are stored sealed.
	Secrets          map[string]string
	Created, Updated time.Time
}

// ProviderDefinition says how a provider is called. Its texts may have placeholders.
type ProviderDefinition struct {
	Method  string            `json:"method,omitempty"` // POST if empty
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers,omitempty"`
	// JSON or Form is the body, or none of them. The placeholders of JSON are in its texts.
	JSON json.RawMessage   `json:"json,omitempty"`
	Form map[string]string `json:"form,omitempty"`
	// Success is the answer to a message that was accepted; nil means any with a status of 2xx.
	Success *AnswerRule `json:"success,omitempty"`
	// Permanent and Temporary are answers that are not as their status says.
	Permanent []AnswerRule `json:"permanent,omitempty"`
	Temporary []AnswerRule `json:"temporary,omitempty"`
	// Access says how the token is made that {{access}} stands for; nil if the provider has none that ends.
	Access *AccessGrant `json:"access,omitempty"`
	// Rate limits the calls in a second; 0 means no limit.
	Rate float64 `json:"rate_per_second,omitempty"`
	// Weight is its share of the messages, relative to the owner's others; 0 makes it a reserve.
	Weight int `json:"weight"`
	// MaxSegments limits the parts of a text message; the rest is cut off.
	MaxSegments int `json:"max_segments,omitempty"`
	// Service, Gone and MaxText are for Push. Service is that of the devices to which it delivers: see TokenOf. Gone are
	// the answers that say that a device no longer exists, and MaxText limits the bytes of the text; the rest is cut off.
	Service  string       `json:"service,omitempty"`
	Gone     []AnswerRule `json:"gone,omitempty"`
	MaxText  int          `json:"max_text,omitempty"`
	Disabled bool         `json:"disabled,omitempty"`
}

// TokenOf returns the service of the devices to which the provider delivers: its name, if the definition says no other.
func (p *Provider) TokenOf() string { return cmp.Or(p.Service, p.Name) }

// ProviderName matches the names of providers, of services of devices, and of secrets.
var ProviderName = pattern.OnUse(`^[a-z0-9][a-z0-9_-]{0,62}$`)

// AccessGrant says how a provider's access tokens are made, which end after a time: a private key signs a token, which
// is exchanged for an access token (RFC 7523) or is one.
type AccessGrant struct {
	// Key is the name of the secret with the private key in PEM: RSA, or the curve P-256. KeyID is its id at the provider.
	Key   string `json:"key"`
	KeyID string `json:"key_id,omitempty"`
	// Issuer is the account to which it belongs, and Scope what is asked for.
	Issuer string `json:"issuer"`
	Scope  string `json:"scope,omitempty"`
	// URL is where the token is exchanged; without it, it is the access token.
	URL string `json:"url,omitempty"`
}

// Bounds of providers.
const (
	// MaxProviders limits those of an owner.
	MaxProviders = 20
	// MaxProvider limits the size of a definition in JSON, in bytes.
	MaxProvider = 32 << 10
)

// AnswerRule describes answers of a provider: all that is given has to fit.
type AnswerRule struct {
	// Status has the codes; in Success none means 2xx, elsewhere any.
	Status []StatusRange `json:"status,omitempty"`
	JSON   *JSONRule     `json:"json,omitempty"`
}

// JSONRule is about a value in an answer, such as messages.0.status.
type JSONRule struct {
	Path string `json:"path"`
	// Equals is a text, a number, true, false or null, or a list of such values.
	Equals json.RawMessage `json:"equals"`
}

// StatusRange is one or more codes of answers. In JSON it is 200, "2xx" or "500-503".
type StatusRange struct{ From, To int }

// MarshalJSON implements json.Marshaler.
func (r StatusRange) MarshalJSON() ([]byte, error) {
	switch {
	case r.From == r.To:
		return strconv.AppendInt(nil, int64(r.From), 10), nil
	case r.From%100 == 0 && r.To == r.From+99:
		return fmt.Appendf(nil, `"%dxx"`, r.From/100), nil
	}
	return fmt.Appendf(nil, `"%d-%d"`, r.From, r.To), nil
}

var statusForm = pattern.OnUse(`^([1-5])xx$|^([1-5][0-9][0-9])(-([1-5][0-9][0-9]))?$`)

// UnmarshalJSON implements json.Unmarshaler. What it does not understand is not Valid, so that an answer can
// say where it is.
func (r *StatusRange) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	m := statusForm().FindStringSubmatch(text)
	if m == nil {
		*r = StatusRange{}
		return nil
	}
	if m[1] != "" {
		r.From, _ = strconv.Atoi(m[1] + "00")
		r.To = r.From + 99
		return nil
	}
	r.From, _ = strconv.Atoi(m[2])
	r.To = r.From
	if m[4] != "" {
		r.To, _ = strconv.Atoi(m[4])
	}
	return nil
}

// Valid reports whether it was understood, and has a code.
func (r StatusRange) Valid() bool { return r.From >= 100 && r.From <= r.To }

// Has reports whether a code is in the range.
func (r StatusRange) Has(status int) bool { return r.From <= status && status <= r.To }

// Providers holds the providers of clients and, with the owner "", those that administrators share.
type Providers interface {
	// Providers returns those of an owner, by name.
	Providers(ctx context.Context, owner string) ([]Provider, error)
	// Provider is ErrNotFound if the owner has none of that name.
	Provider(ctx context.Context, owner, name string) (Provider, error)
	// ProvidersFor returns those that deliver a client's messages on a channel, by name: its own, or the shared ones if it
	// has none that is enabled.
	ProvidersFor(ctx context.Context, clientID string, c ChannelID) ([]Provider, error)
	// SetProvider creates or replaces one; Created is that of the first time. ErrTooMany: the owner has MaxProviders.
	SetProvider(ctx context.Context, p Provider) error
	// DeleteProvider is ErrNotFound if there is none.
	DeleteProvider(ctx context.Context, owner, name string) error
}

// HasProviders reports whether messages of a channel are delivered by a Provider, and by nothing else.
func (c ChannelID) HasProviders() bool { return c == SMS }

// TakesProviders reports whether clients may declare a Provider for a channel.
func (c ChannelID) TakesProviders() bool { return c == SMS || c == Push }

// CheckProviderURL returns what is wrong with the address of a provider; "" if nothing is. Without TLS only this
// machine is allowed, which takes an operator's --allow-networks too.
func CheckProviderURL(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "https" && u.Scheme != "http", u.Hostname() == "", u.Opaque != "":
		return `must begin with https:// and a host`
	case u.Scheme == "http" && !loopback(u.Hostname()):
		return `must begin with https://: messages and secrets are not sent without encryption`
	case u.User != nil:
		return `must not contain a user name or password: use the header Authorization with {{basic "user" "password"}}`
	case u.Fragment != "" || strings.Contains(text, "#"):
		return `must not contain #`
	}
	return ""
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

var e164 = pattern.OnUse(`^\+[1-9][0-9]{6,14}$`)

// UsablePhone reports whether a text is a phone number in the form of E.164: +4915112345678.
func UsablePhone(s string) bool { return e164().MatchString(s) }

// NormalPhone returns a phone number of a user's record in the form of E.164, or "" if it has no country code or is not
// one. People write them as tel:+49-30-123 or +49 (30) 123.
func NormalPhone(s string) string {
	const longest = 100
	if len(s) > longest {
		return ""
	}
	s, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(s), "tel:"), ";")
	plain := strings.Map(func(r rune) rune {
		if strings.ContainsRune(" -./()\u00a0", r) {
			return -1
		}
		return r
	}, s)
	if !UsablePhone(plain) {
		return ""
	}
	return plain
}

// Decode reads a stored definition.
func (d *ProviderDefinition) Decode(raw []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	return decoder.Decode(d)
}
