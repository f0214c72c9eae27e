package notify

import (
	"crypto/sha256"
	"encoding/hex"
)

// RequestHash tells one request from another under the same idempotency key.
// Each part is hashed by itself, so that none can be taken for another.
func RequestHash(method, path string, body []byte) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(path), body} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
