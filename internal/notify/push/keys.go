package push

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/mail"
	"net/url"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// tokenLife is how long a token for a push service is valid; RFC 8292 allows a day. A new one is made in the middle.
	tokenLife = 12 * time.Hour
	// manyServices is how many push services have a token that is kept.
	manyServices = 256
)

// Keys are the key pair with which the server says to push services that it is the same one that browsers subscribed
// to (VAPID).
type Keys struct {
	public  string
	contact string
	signer  jose.Signer
	tokens  *lru.Cache[string, issued]
	now     func() time.Time
}

type issued struct {
	token string
	until time.Time
}

// NewKeys derives the key pair from the key that Store.IDKey returns, so that it is the same on all servers, stays
// with the database, and is in its backups. contact is an address or URL where push services reach the operator. now
// is nil for the machine's clock.
func NewKeys(key []byte, contact string, now func() time.Time) (*Keys, error) {
	const idKey = 32
	if len(key) != idKey {
		return nil, fmt.Errorf("the key of push messages has %d bytes, want %d", len(key), idKey)
	}
	if now == nil {
		now = time.Now
	}
	pair := derive(key)
	public, err := pair.PublicKey.Bytes()
	if err != nil {
		return nil, err
	}
	k := &Keys{public: base64.RawURLEncoding.EncodeToString(public), contact: contactOf(contact), now: now}
	if k.tokens, err = lru.New[string, issued](manyServices); err != nil {
		return nil, err
	}
	k.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: pair},
		(&jose.SignerOptions{}).WithType("JWT"))
	return k, err
}

// derive returns the first of a row of numbers that is a private key, as nearly all are.
func derive(key []byte) *ecdsa.PrivateKey {
	for i := byte(0); ; i++ {
		h := hmac.New(sha256.New, key)
		h.Write([]byte("notify push key"))
		h.Write([]byte{i})
		if pair, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), h.Sum(nil)); err == nil {
			return pair
		}
	}
}

// contactOf returns a URL: https or mailto.
func contactOf(text string) string {
	if u, err := url.Parse(text); err == nil && u.Scheme == "https" && u.Host != "" {
		return text
	}
	if a, err := mail.ParseAddress(text); err == nil {
		return "mailto:" + a.Address
	}
	return "mailto:" + text
}

// Public returns the public key, in base64url as browsers want it.
func (k *Keys) Public() string { return k.public }

// Authorization returns the header with which a push service recognizes the sender.
func (k *Keys) Authorization(endpoint string) (string, error) {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "", fmt.Errorf("the endpoint is not a URL")
	}
	origin, now := u.Scheme+"://"+u.Host, k.now()
	kept, ok := k.tokens.Get(origin)
	if !ok || !now.Before(kept.until) {
		raw, err := jwt.Signed(k.signer).Claims(struct {
			Audience string           `json:"aud"`
			Expiry   *jwt.NumericDate `json:"exp"`
			Subject  string           `json:"sub"`
		}{origin, jwt.NewNumericDate(now.Add(tokenLife)), k.contact}).Serialize()
		if err != nil {
			return "", err
		}
		kept = issued{raw, now.Add(tokenLife / 2)}
		k.tokens.Add(origin, kept)
	}
	return "vapid t=" + kept.token + ", k=" + k.public, nil
}
