package inbox

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"ingot/internal/notify"
)

const (
	issuer   = "ingot-notifications"
	audience = "inbox"
	// MaxLife is the longest time that a token is valid, DefaultLife the usual one.
	MaxLife     = 24 * time.Hour
	DefaultLife = time.Hour
	maxToken    = 8 << 10
)

var (
	// ErrToken means that a token is not one of this service for inboxes.
	ErrToken = errors.New("not an inbox token of this service")
	// ErrExpired means that it was one.
	ErrExpired = errors.New("the inbox token has expired")
)

// Tokens makes and checks tokens: each opens the inbox of one user of one client for a time. Apps hand them to the
// browsers of their users, so they are signed with a key of their own and are good for nothing else.
type Tokens struct {
	key    []byte
	signer jose.Signer
	now    func() time.Time
}

type claims struct {
	jwt.Claims
	Client string `json:"client_id"`
}

// NewTokens derives its key from the key that Store.IDKey returns. now is nil for the machine's clock.
func NewTokens(key []byte, now func() time.Time) (*Tokens, error) {
	if len(key) != 32 {
		return nil, fmt.Errorf("the key of inbox tokens has %d bytes, want 32", len(key))
	}
	if now == nil {
		now = time.Now
	}
	h := hmac.New(sha256.New, key)
	h.Write([]byte("notify inbox token"))
	t := &Tokens{key: h.Sum(nil), now: now}
	var err error
	t.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: t.key}, nil)
	return t, err
}

// Make returns a token and when it expires.
func (t *Tokens) Make(of notify.Owner, life time.Duration) (string, time.Time, error) {
	now := t.now()
	expires := now.Add(min(life, MaxLife)).Truncate(time.Second)
	raw, err := jwt.Signed(t.signer).Claims(claims{Client: of.ClientID, Claims: jwt.Claims{Issuer: issuer,
		Audience: jwt.Audience{audience}, Subject: of.UserID, IssuedAt: jwt.NewNumericDate(now),
		Expiry: jwt.NewNumericDate(expires)}}).Serialize()
	return raw, expires, err
}

// Open returns whose inbox a token opens, and until when. The owner is also returned with ErrExpired.
func (t *Tokens) Open(raw string) (notify.Owner, time.Time, error) {
	if len(raw) > maxToken {
		return notify.Owner{}, time.Time{}, ErrToken
	}
	parsed, err := jwt.ParseSigned(raw, []jose.SignatureAlgorithm{jose.HS256})
	if err != nil {
		return notify.Owner{}, time.Time{}, ErrToken
	}
	var c claims
	if parsed.Claims(t.key, &c) != nil || c.Issuer != issuer || !c.Audience.Contains(audience) || c.Expiry == nil ||
		c.Client == "" || c.Subject == "" {
		return notify.Owner{}, time.Time{}, ErrToken
	}
	of, expires := notify.Owner{ClientID: c.Client, UserID: c.Subject}, c.Expiry.Time()
	if !t.now().Before(expires) {
		return of, expires, ErrExpired
	}
	return of, expires, nil
}
