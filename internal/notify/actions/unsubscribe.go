package actions

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"ingot/internal/notify"
)

// ErrToken means that a token is not valid.
var ErrToken = errors.New("not an unsubscribe token of this service")

// Unsubscriber creates the tokens with which a recipient can unsubscribe from a
// kind without logging in. The holder cannot read the user or the kind from the
// token. The same user and kind always have the same token, so that a mail that
// is sent again does not change.
type Unsubscriber struct {
	aead     cipher.AEAD
	nonceKey []byte
}

// NewUnsubscriber derives its keys from the key that Store.IDKey returns.
func NewUnsubscriber(key []byte) (*Unsubscriber, error) {
	if len(key) != 32 {
		return nil, fmt.Errorf("the key of unsubscribe tokens has %d bytes, want 32", len(key))
	}
	block, err := aes.NewCipher(mac(key, "notify unsubscribe token: encryption"))
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Unsubscriber{aead, mac(key, "notify unsubscribe token: nonce")}, nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// Grant is what a token is for.
type Grant struct {
	UserID string
	Kind   notify.KindRef
	// OnlyKind means that the holder may not see or change anything but that kind.
	OnlyKind bool
}

// onlyKind is the last part of such a token's text.
const onlyKind = "kind"

// Make returns a token that can be used in the path of a URL.
func (u *Unsubscriber) Make(g Grant) string {
	parts := []string{g.UserID, g.Kind.ClientID, g.Kind.KindID}
	if g.OnlyKind {
		parts = append(parts, onlyKind)
	}
	plain := strings.Join(parts, "\x00")
	// The nonce is derived from the text: equal nonces then mean equal texts,
	// and the number of tokens is not limited by random collisions.
	nonce := mac(u.nonceKey, plain)[:u.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(u.aead.Seal(nonce, nonce, []byte(plain), nil))
}

// Open is the inverse of Make.
func (u *Unsubscriber) Open(token string) (Grant, error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(sealed) < u.aead.NonceSize() || strings.ContainsAny(token, "\r\n") {
		return Grant{}, ErrToken
	}
	plain, err := u.aead.Open(nil, sealed[:u.aead.NonceSize()], sealed[u.aead.NonceSize():], nil)
	if err != nil {
		return Grant{}, ErrToken
	}
	parts := strings.Split(string(plain), "\x00")
	const usual = 3
	limited := len(parts) == usual+1 && parts[usual] == onlyKind
	if len(parts) != usual && !limited {
		return Grant{}, ErrToken
	}
	return Grant{UserID: parts[0], Kind: notify.KindRef{ClientID: parts[1], KindID: parts[2]}, OnlyKind: limited}, nil
}
