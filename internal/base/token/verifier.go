package token

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/maypok86/otter/v2"

	"ingot/internal/base/fault"
)

// Algorithms are the accepted signature algorithms. Symmetric ones and "none"
// are excluded on purpose.
var Algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.RS384, jose.RS512, jose.ES256}

// maxTokenBytes limits the work that an unauthenticated caller can cause.
const maxTokenBytes = 16 << 10

// KeySource finds public keys by their id.
type KeySource interface {
	// Key returns the public key named kid, or an error that wraps
	// ErrUnknownKey when there is none.
	Key(ctx context.Context, kid string) (any, error)
}

// ErrAudience is the cause of an error about the token's audience.
var ErrAudience = errors.New("audience")

// ErrUnknownKey means that no active key has the token's kid.
var ErrUnknownKey = errors.New("unknown key")

// Options configure a Verifier.
type Options struct {
	// Issuer must equal the token's iss.
	Issuer string
	// Audiences lists the names of the API; the token must contain one of them.
	// An empty list accepts any, for endpoints of the issuer itself.
	Audiences []string
	Keys      KeySource
	// Skew is the allowed clock difference; 0 means 30 seconds.
	Skew time.Duration
	// Revoked reports whether a token was revoked before it expired.
	Revoked func(*Claims) bool
	Now     func() time.Time
}

// Verifier checks access tokens. It is safe for concurrent use.
type Verifier struct {
	o Options
	// verified caches tokens whose signature was verified, so that a busy
	// client costs one RSA operation and not one per request. Expiry and
	// revocation are checked every time.
	verified *otter.Cache[[sha256.Size]byte, *Claims]
}

// clockSetBack is how far in the future a token may have been issued: when the clock of the
// authorization server is set back, the tokens that it issued before remain valid.
const clockSetBack = 2 * time.Hour

// NewVerifier returns a Verifier. It panics when the issuer or the key source
// is missing, because the Verifier would accept too much.
func NewVerifier(o Options) *Verifier {
	if o.Issuer == "" || o.Keys == nil {
		panic("token: a verifier needs an issuer and keys")
	}
	o.Skew = cmp.Or(o.Skew, 30*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Verifier{o: o, verified: otter.Must(&otter.Options[[sha256.Size]byte, *Claims]{
		MaximumSize:      4096,
		ExpiryCalculator: otter.ExpiryWriting[[sha256.Size]byte, *Claims](10 * time.Minute),
	})}
}

// With returns a Verifier with the same issuer and keys for other audiences.
func (v *Verifier) With(audiences ...string) *Verifier {
	o := v.o
	o.Audiences = audiences
	return NewVerifier(o)
}

// Verify returns the claims of raw, or a fault.InvalidToken that says what is
// wrong with it. The claims are shared: callers must not change them.
func (v *Verifier) Verify(ctx context.Context, raw string) (*Claims, error) {
	if len(raw) > maxTokenBytes {
		return nil, invalid(nil, "the token is too long")
	}
	sum := sha256.Sum256([]byte(raw))
	c, known := v.verified.GetIfPresent(sum)
	if !known {
		var err error
		if c, err = v.parse(ctx, raw); err != nil {
			return nil, err
		}
	}
	if err := v.check(c); err != nil {
		return nil, err
	}
	if !known {
		v.verified.Set(sum, c)
	}
	return c, nil
}

func (v *Verifier) parse(ctx context.Context, raw string) (*Claims, error) {
	parsed, err := jwt.ParseSigned(raw, Algorithms)
	if err != nil {
		return nil, invalid(err, "the token is not a signed JWT")
	}
	if len(parsed.Headers) != 1 || parsed.Headers[0].KeyID == "" {
		return nil, invalid(nil, "the token names no key")
	}
	key, err := v.o.Keys.Key(ctx, parsed.Headers[0].KeyID)
	if errors.Is(err, ErrUnknownKey) {
		return nil, invalid(err, "the token's key is not known")
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "The keys of the authorization server are unavailable.").
			After(5 * time.Second)
	}
	var c Claims
	if err := parsed.Claims(key, &c); err != nil {
		return nil, invalid(err, "the token's signature or content is not valid")
	}
	c.ClientID = cmp.Or(c.ClientID, c.CID)
	return &c, nil
}

func (v *Verifier) check(c *Claims) error {
	now := v.o.Now()
	switch {
	case c.ExpiresAt == 0:
		return invalid(nil, "the token has no expiry")
	case !now.Before(c.Expiry().Add(v.o.Skew)):
		return invalid(nil, "the token expired at "+c.Expiry().Format(time.RFC3339))
	case now.Add(v.o.Skew).Before(time.Unix(c.NotBefore, 0)):
		return invalid(nil, "the token is not valid yet")
	case now.Add(clockSetBack).Before(time.Unix(c.IssuedAt, 0)):
		return invalid(nil, "the token was issued in the future")
	case c.Issuer != v.o.Issuer:
		return invalid(fmt.Errorf("issuer %q, want %q", c.Issuer, v.o.Issuer), "the token comes from another issuer")
	case IsRefreshID(c.ID):
		return invalid(nil, "a refresh token is not an access token")
	case c.Use == UseID:
		return invalid(nil, "an ID token is not an access token")
	case len(v.o.Audiences) > 0 &&
		!slices.ContainsFunc(v.o.Audiences, func(a string) bool { return slices.Contains(c.Audience, a) }):
		return invalid(fmt.Errorf("%w %q, want one of %q", ErrAudience, c.Audience, v.o.Audiences),
			"the token is meant for another service")
	case v.o.Revoked != nil && v.o.Revoked(c):
		return invalid(nil, "the token has been revoked")
	}
	return nil
}

// IsRefreshID reports whether a jti belongs to a refresh token. UAA marks them
// with this suffix; they are signed with the same keys, so this check keeps
// them from being used as access tokens.
func IsRefreshID(jti string) bool { return strings.HasSuffix(jti, "-r") }

func invalid(cause error, why string) error {
	return fault.Wrap(cause, fault.InvalidToken, "Invalid Auth Token: %s.", why).WithKind("invalid_token")
}
