package provider

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"ingot/internal/notify"
	"ingot/internal/notify/outbound"
)

const (
	// signedLife is how long a signed token is valid, and signedKept how long one is used that is not exchanged: APNs
	// takes them for an hour, and no new ones within 20 minutes.
	signedLife = time.Hour
	signedKept = 40 * time.Minute
	// spare is how long before its end an access token is no longer used, and usualAccess how long one is used that does
	// not say when it ends.
	spare       = time.Minute
	usualAccess = 10 * time.Minute
	// calm is how long after a failure no other is tried, so that messages that wait for the same token fail together.
	calm      = time.Second
	maxAccess = 8 << 10

	minRSA       = 2048
	maxIssuer    = 200
	maxScope     = 1000
	jwtBearer    = "urn:ietf:params:oauth:grant-type:jwt-bearer"
	formEncoding = "application/x-www-form-urlencoded"
)

// access keeps the access token of a provider.
type access struct {
	mu     sync.Mutex
	token  string
	until  time.Time
	failed error
	again  time.Time
}

// get returns an access token; "" if the provider needs none. Its errors are without the secrets and what is private.
func (a *access) get(ctx context.Context, c *Compiled, client *outbound.Client, clock func() time.Time,
	private ...string) (string, error) {
	if c.grant == nil {
		return "", nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now := clock() // not before the lock: another may have tried for long meanwhile
	if now.Before(a.until) {
		return a.token, nil
	}
	if now.Before(a.again) {
		return "", a.failed
	}
	token, life, err := c.newAccess(ctx, client, now, append(private, a.token)...)
	if err != nil {
		a.failed, a.again = fmt.Errorf("%w: no access token: %w", outbound.ErrUnsent, err), clock().Add(calm)
		return "", a.failed
	}
	a.token, a.until = token, now.Add(life)
	return token, nil
}

// refused forgets a token with which the provider did not give access.
func (a *access) refused(token string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.token == token {
		a.token, a.until = "", time.Time{}
	}
}

// newAccess makes an access token, and says how long it may be used.
func (c *Compiled) newAccess(ctx context.Context, client *outbound.Client, now time.Time,
	private ...string) (string, time.Duration, error) {
	g := c.grant
	claims := jwt.Claims{Issuer: g.Issuer, IssuedAt: jwt.NewNumericDate(now)}
	more := map[string]any{}
	if g.URL != "" {
		claims.Audience, claims.Expiry = jwt.Audience{g.URL}, jwt.NewNumericDate(now.Add(signedLife))
	}
	if g.Scope != "" {
		more["scope"] = g.Scope
	}
	signed, err := jwt.Signed(c.signer).Claims(claims).Claims(more).Serialize()
	if err != nil || g.URL == "" {
		return signed, signedKept, err
	}
	a, body, err := client.Do(ctx, outbound.Request{Method: http.MethodPost, URL: g.URL, At: now,
		Header: http.Header{"Content-Type": {formEncoding}, "Accept": {"application/json"}},
		Body:   []byte(url.Values{"grant_type": {jwtBearer}, "assertion": {signed}}.Encode())})
	hidden := c.hiding(append(private, signed)...)
	if err != nil {
		return "", 0, errors.New(hidden.line(err.Error(), maxSaid))
	}
	var got struct {
		Token string      `json:"access_token"`
		Life  json.Number `json:"expires_in"`
	}
	if !a.OK() {
		return "", 0, errors.New(strings.TrimSpace(a.String() + " " + hidden.line(string(body), maxSaid)))
	}
	if err := json.Unmarshal(body, &got); err != nil || got.Token == "" || len(got.Token) > maxAccess ||
		strings.ContainsFunc(got.Token, unprintable) {
		return "", 0, errors.New("the answer has no access_token")
	}
	life := usualAccess
	if seconds, err := got.Life.Int64(); err == nil && seconds > 0 {
		life = max(time.Duration(min(seconds, int64(signedLife/time.Second)))*time.Second-spare, 0)
	}
	return got.Token, life, nil
}

// signerOf returns what signs with a private key.
func signerOf(text, id string) (jose.Signer, error) {
	key, alg, err := privateKey(text)
	if err != nil {
		return nil, err
	}
	return jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: id}},
		(&jose.SignerOptions{}).WithType("JWT"))
}

var errKey = errors.New("must be a private key in PEM: RSA with at least 2048 bits, or the curve P-256")

// privateKey reads a private key, also one with the line breaks of the JSON in which providers give them.
func privateKey(text string) (any, jose.SignatureAlgorithm, error) {
	block, _ := pem.Decode([]byte(strings.ReplaceAll(text, `\n`, "\n")))
	if block == nil {
		return nil, "", errKey
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		if key, err = x509.ParsePKCS1PrivateKey(block.Bytes); err != nil {
			key, err = x509.ParseECPrivateKey(block.Bytes)
		}
	}
	switch key := key.(type) {
	case *rsa.PrivateKey:
		if err == nil && key.N.BitLen() >= minRSA {
			return key, jose.RS256, nil
		}
	case *ecdsa.PrivateKey:
		if err == nil && key.Curve == elliptic.P256() {
			return key, jose.ES256, nil
		}
	}
	return nil, "", errKey
}

// grant checks how access tokens are made.
func (c *compiler) grant(p *notify.Provider) {
	g := p.Access
	switch {
	case g == nil && c.access:
		c.bad(`{{access}} is used, but "access" does not say how the access token is made`)
		return
	case g == nil:
		return
	case !c.access:
		c.bad(`"access" is given, but {{access}} is not used`)
	}
	line := func(s string, most int) bool { return len(s) <= most && !strings.ContainsFunc(s, unprintable) }
	if g.Issuer == "" || !line(g.Issuer, maxIssuer) || !line(g.KeyID, maxIssuer) || !line(g.Scope, maxScope) {
		c.bad(`"access" must have an "issuer", and may have "key_id" and "scope": lines of at most %d, %d and %d bytes`,
			maxIssuer, maxIssuer, maxScope)
	}
	if g.URL != "" {
		if why := notify.CheckProviderURL(g.URL); why != "" || len(g.URL) > maxTemplateURL {
			c.bad(`"access.url" must be an address of at most %d bytes: it %s`, maxTemplateURL, why)
		}
	}
	if !notify.ProviderName().MatchString(g.Key) {
		c.bad(`"access.key" must be the name of a secret: at most 63 of a-z, 0-9, - and _`)
		return
	}
	c.used[g.Key] = true
	if value, ok := p.Secrets[g.Key]; ok {
		var err error
		if c.c.signer, err = signerOf(value, g.KeyID); err != nil {
			c.bad("the secret %q %s", g.Key, err)
		}
	}
	c.c.grant = g
}
