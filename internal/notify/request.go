package notify

import (
	"crypto/sha256"
	"encoding/hex"
)

// WarningsHeader is the header of responses that names what had no effect in a
// request, such as fields with unknown names. Its values are percent-encoded like
// those of X-Cf-Warnings.
const WarningsHeader = "X-Notifications-Warnings"

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
