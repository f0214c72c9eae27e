package notify

import (
	"crypto/sha256"
	"encoding/hex"
)

// RequestHash identifies a request, to detect the reuse of an idempotency key.
// Each part is hashed separately, so that different requests cannot collide.
func RequestHash(method, path string, body []byte) string {
	h := sha256.New()
	for _, part := range [][]byte{[]byte(method), []byte(path), body} {
		sum := sha256.Sum256(part)
		h.Write(sum[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}
