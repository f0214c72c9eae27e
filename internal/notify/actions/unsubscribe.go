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
// kind without logging in: the holder of a token can unsubscribe that user from
// that kind, but cannot read either from the token. The same user and kind
// always have the same token, so that a mail that is sent again does not
// change.
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

// Make returns a token that can be used in the path of a URL.
func (u *Unsubscriber) Make(userID string, ref notify.KindRef) string {
	plain := strings.Join([]string{userID, ref.ClientID, ref.KindID}, "\x00")
	// The nonce is derived from the text: equal nonces then mean equal texts,
	// and the number of tokens is not limited by random collisions.
	nonce := mac(u.nonceKey, plain)[:u.aead.NonceSize()]
	return base64.RawURLEncoding.EncodeToString(u.aead.Seal(nonce, nonce, []byte(plain), nil))
}

// Open is the inverse of Make.
func (u *Unsubscriber) Open(token string) (userID string, ref notify.KindRef, err error) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(sealed) < u.aead.NonceSize() || strings.ContainsAny(token, "\r\n") {
		return "", notify.KindRef{}, ErrToken
	}
	plain, err := u.aead.Open(nil, sealed[:u.aead.NonceSize()], sealed[u.aead.NonceSize():], nil)
	if err != nil {
		return "", notify.KindRef{}, ErrToken
	}
	parts := strings.Split(string(plain), "\x00")
	if len(parts) != 3 {
		return "", notify.KindRef{}, ErrToken
	}
	return parts[0], notify.KindRef{ClientID: parts[1], KindID: parts[2]}, nil
}
