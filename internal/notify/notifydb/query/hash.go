package query

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"sync"
)

// Hasher makes hashes of names in tables. They are keyed, so that reading a table is not enough to try names. It is
// safe for concurrent use.
type Hasher struct {
	key func(context.Context) ([]byte, error)

	mu    sync.Mutex
	known []byte
}

// NewHasher returns a Hasher with the key that a function returns, which is called until it succeeds.
func NewHasher(key func(context.Context) ([]byte, error)) *Hasher { return &Hasher{key: key} }

// Hash returns the function that makes the hash of a text, in hexadecimal digits.
func (h *Hasher) Hash(ctx context.Context) (func(text string) string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		key, err := h.key(ctx)
		if err != nil {
			return nil, err
		}
		h.known = key
	}
	key := h.known
	return func(text string) string {
		m := hmac.New(sha256.New, key)
		m.Write([]byte(text))
		return hex.EncodeToString(m.Sum(nil))
	}, nil
}

// ShortHash is how much of a hash is enough that no two are the same.
const ShortHash = 32
