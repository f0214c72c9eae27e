package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"ingot/internal/fault"
	"ingot/internal/run"
)

// The cost of one password check: OWASP's argon2id setting of 19 MiB and two
// passes. It is written into each hash, so that it can be raised later.
const (
	productionMemory = 19 << 10 // KiB
	argonPasses      = 2
	argonThreads     = 1
	argonKeyLen      = 32
	argonSaltLen     = 16
)

// argonMemory is less in this package's own tests, which hash a lot.
var argonMemory uint32 = productionMemory

// maxSecretBytes bounds what is hashed for strangers.
const maxSecretBytes = 1024

// hasher makes and checks hashes of passwords and client secrets. Only a few
// run at once: each takes 19 MiB, and strangers decide how often.
type hasher struct {
	slots chan struct{}
	// waiting bounds those who wait for a slot: a flood is refused, and does
	// not make everybody wait behind it.
	waiting atomic.Int32
	// quiet gives the memory back to the system a moment after the last hash;
	// the runtime by itself would keep it for minutes.
	quiet *time.Timer
}

const (
	quietAfter = 2 * time.Second
	maxWaiting = 64
)

func newHasher(parallel int) *hasher {
	return &hasher{slots: make(chan struct{}, parallel), quiet: run.AfterFunc("auth memory", quietAfter, debug.FreeOSMemory)}
}

func (h *hasher) enter(ctx context.Context) error {
	defer h.waiting.Add(-1)
	if h.waiting.Add(1) > maxWaiting {
		return fault.New(fault.RateLimited, "Too many logins at once. Try again in a moment.").WithKind("too_many_requests").After(2 * time.Second)
	}
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h *hasher) leave() {
	<-h.slots
	h.quiet.Reset(quietAfter)
}

// hash returns secret in PHC form: $argon2id$v=19$m=…,t=…,p=…$salt$key.
func (h *hasher) hash(ctx context.Context, secret string) (string, error) {
	if err := h.enter(ctx); err != nil {
		return "", err
	}
	defer h.leave()
	salt := make([]byte, argonSaltLen)
	_, _ = rand.Read(salt)
	key := argon2.IDKey([]byte(secret), salt, argonPasses, argonMemory, argonThreads, argonKeyLen)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		argonMemory, argonPasses, argonThreads, b64.EncodeToString(salt), b64.EncodeToString(key)), nil
}

// matches reports whether secret has the given hash. Besides our own form it
// knows bcrypt, for users imported from elsewhere.
func (h *hasher) matches(ctx context.Context, hash, secret string) (bool, error) {
	if len(secret) > maxSecretBytes {
		return false, nil
	}
	if err := h.enter(ctx); err != nil {
		return false, err
	}
	defer h.leave()
	if strings.HasPrefix(hash, "$2") {
		err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(secret))
		return err == nil, nil
	}
	salt, want, memory, passes, threads, err := parseArgon(hash)
	if err != nil {
		return false, err
	}
	got := argon2.IDKey([]byte(secret), salt, passes, memory, threads, uint32(len(want))) //nolint:gosec // bounded by parseArgon
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

var errHashForm = errors.New("a stored hash is not in a known form")

func parseArgon(hash string) (salt, key []byte, memory, passes uint32, threads uint8, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return nil, nil, 0, 0, 0, errHashForm
	}
	if _, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil || memory > 1<<20 || passes == 0 || passes > 100 || threads == 0 {
		return nil, nil, 0, 0, 0, errHashForm
	}
	if salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil {
		return nil, nil, 0, 0, 0, errHashForm
	}
	if key, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil || len(key) < 16 || len(key) > 128 {
		return nil, nil, 0, 0, 0, errHashForm
	}
	return salt, key, memory, passes, threads, nil
}

// remembered spares clients the slow check each time: a secret that was right
// once is remembered as a keyed hash, in memory only. The key of the entry
// covers the stored hash, so that a changed secret is forgotten with it.
type remembered struct {
	key  [32]byte
	seen *otter.Cache[[sha256.Size]byte, struct{}]
}

func newRemembered() *remembered {
	r := &remembered{seen: otter.Must(&otter.Options[[sha256.Size]byte, struct{}]{
		MaximumSize:      10_000,
		ExpiryCalculator: otter.ExpiryAccessing[[sha256.Size]byte, struct{}](time.Hour),
	})}
	_, _ = rand.Read(r.key[:])
	return r
}

func (r *remembered) digest(hash, secret string) (d [sha256.Size]byte) {
	m := hmac.New(sha256.New, r.key[:])
	_, _ = m.Write([]byte(hash))
	_, _ = m.Write([]byte{0})
	_, _ = m.Write([]byte(secret))
	copy(d[:], m.Sum(nil))
	return d
}

func (r *remembered) knows(hash, secret string) bool {
	_, ok := r.seen.GetIfPresent(r.digest(hash, secret))
	return ok
}

func (r *remembered) add(hash, secret string) { r.seen.Set(r.digest(hash, secret), struct{}{}) }

// fingerprint is how one-time codes and session cookies are stored: they are
// random and long, so that a fast hash is enough.
func fingerprint(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// randomText returns n random characters that people can copy and type.
func randomText(n int) string {
	const alphabet = "ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789" // no 0O1lI
	out := make([]byte, 0, n)
	var buf [64]byte
	for len(out) < n {
		_, _ = rand.Read(buf[:])
		for _, b := range buf {
			// Values past the last full round of the alphabet would make its
			// first letters likelier.
			if int(b) < 256-256%len(alphabet) && len(out) < n {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out)
}
