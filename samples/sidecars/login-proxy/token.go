package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// claims are what the proxy needs of a token.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience list   `json:"aud"`
	Party    string `json:"azp"`
	Client   string `json:"client_id"`
	Expires  number `json:"exp"`
	Issued   number `json:"iat"`
	Nonce    string `json:"nonce"`
	ID       string `json:"jti"`
	UserName string `json:"user_name"`
	Username string `json:"preferred_username"`
	Email    string `json:"email"`
	Scope    list   `json:"scope"`
}

// list is a list of texts, or one text with spaces between.
type list []string

// UnmarshalJSON accepts both forms.
func (l *list) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*l = strings.Fields(one)
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// number is a time in seconds, which some servers write with a fraction.
type number int64

// UnmarshalJSON accepts both forms.
func (n *number) UnmarshalJSON(text []byte) error {
	var f float64
	err := json.Unmarshal(text, &f)
	*n = number(f)
	return err
}

// leeway is by how much clocks may differ.
const leeway = 30 * time.Second

// expectation is what a token must be.
type expectation struct {
	issuer, client string
	nonce          string // of an ID token at login
	access         bool   // it is an access token, whose audience are APIs
	now            time.Time
}

// check returns an error if a token is not as expected.
func (c *claims) check(want expectation) error {
	expires, issued := time.Unix(int64(c.Expires), 0), time.Unix(int64(c.Issued), 0)
	switch {
	case c.Issuer != want.issuer:
		return fmt.Errorf("its issuer is %q, and must be %q", c.Issuer, want.issuer)
	case c.Subject == "":
		return errors.New("it has no subject")
	case !want.access && !slices.Contains(c.Audience, want.client):
		return fmt.Errorf("its audience is %q, and must contain the client %q", c.Audience, want.client)
	case !want.access && c.Party != "" && c.Party != want.client:
		return fmt.Errorf("it was issued to the client %q, not to %q", c.Party, want.client)
	case want.access && !slices.Contains([]string{c.Client, c.Party}, want.client):
		return fmt.Errorf("it was issued to the client %q, not to %q", c.Client, want.client)
	case !want.now.Before(expires.Add(leeway)):
		return fmt.Errorf("it expired at %s", expires.UTC().Format(time.RFC3339))
	case issued.After(want.now.Add(5 * time.Minute)):
		return fmt.Errorf("it was issued in the future, at %s: a clock is wrong", issued.UTC().Format(time.RFC3339))
	case want.nonce != "" && c.Nonce != want.nonce:
		return errors.New("its nonce is not that of this login")
	}
	return nil
}

// key is a public key of the authorization server.
type key struct {
	ID        string `json:"kid"`
	Type      string `json:"kty"`
	Use       string `json:"use"`
	Algorithm string `json:"alg"`
	N         string `json:"n"`
	E         string `json:"e"`
	Curve     string `json:"crv"`
	X         string `json:"x"`
	Y         string `json:"y"`

	public crypto.PublicKey
}

// parse sets the public key. Keys of other kinds are left without one.
func (k *key) parse() error {
	decode := func(text string) (*big.Int, error) {
		b, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(text, "="))
		return new(big.Int).SetBytes(b), err
	}
	switch {
	case k.Type == "RSA":
		n, err := decode(k.N)
		e, wrong := decode(k.E)
		if err != nil || wrong != nil || n.BitLen() < 2048 || !e.IsInt64() || e.Int64() < 3 || e.Int64() > 1<<31-1 {
			return fmt.Errorf("the RSA key %q cannot be used", k.ID)
		}
		k.public = &rsa.PublicKey{N: n, E: int(e.Int64())}
	case k.Type == "EC" && k.Curve == "P-256":
		x, err := base64.RawURLEncoding.DecodeString(k.X)
		y, wrong := base64.RawURLEncoding.DecodeString(k.Y)
		if err != nil || wrong != nil || len(x) != 32 || len(y) != 32 {
			return fmt.Errorf("the EC key %q cannot be used", k.ID)
		}
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, x, y))
		if err != nil {
			return fmt.Errorf("the EC key %q: %w", k.ID, err)
		}
		k.public = public
	}
	return nil
}

// errUnknownKey means that a token was signed with a key that is not known yet.
var errUnknownKey = errors.New("it was signed with a key that the authorization server does not publish")

// isJWT reports whether a token has the form of one that can be verified here.
func isJWT(token string) bool { return strings.Count(token, ".") == 2 }

// verify checks a token's signature and returns its claims. The key decides the
// algorithm, not the token.
func verify(token string, keys []key) (*claims, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return nil, errors.New("it is no JWT")
	}
	var header struct {
		Algorithm string   `json:"alg"`
		Key       string   `json:"kid"`
		Critical  []string `json:"crit"`
	}
	if err := decodePart(parts[0], &header); err != nil {
		return nil, err
	}
	if len(header.Critical) > 0 {
		return nil, fmt.Errorf("it requires extensions: %q", header.Critical)
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return nil, fmt.Errorf("its signature is no base64url: %w", err)
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	known := false
	for _, k := range keys {
		if k.public == nil || k.ID != header.Key || k.Use == "enc" || k.Algorithm != "" && k.Algorithm != header.Algorithm {
			continue
		}
		known = true
		if signed(k.public, header.Algorithm, sum[:], signature) {
			c := new(claims)
			return c, decodePart(parts[1], c)
		}
	}
	if !known {
		return nil, errUnknownKey
	}
	return nil, errors.New("its signature is wrong")
}

func signed(public crypto.PublicKey, algorithm string, sum, signature []byte) bool {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return algorithm == "RS256" && rsa.VerifyPKCS1v15(k, crypto.SHA256, sum, signature) == nil
	case *ecdsa.PublicKey:
		if algorithm != "ES256" || len(signature) != 64 {
			return false
		}
		return ecdsa.Verify(k, sum, new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:]))
	}
	return false
}

func decodePart(text string, into any) error {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return fmt.Errorf("it is no JWT: %w", err)
	}
	return nil
}
