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
	"time"

	"github.com/maypok86/otter/v2"
	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"ingot/internal/base/background"
)

// The cost of a password check: OWASP's argon2id setting of 19 MiB and two
// passes. It is stored in each hash, so that it can be raised later.
const (
	productionMemory = 19 << 10 // KiB
	argonPasses      = 2
	argonThreads     = 1
	argonKeyLen      = 32
	argonSaltLen     = 16
)

// argonMemory is less in this package's own tests, which hash a lot.
var argonMemory uint32 = productionMemory

// maxSecretBytes limits the input of a hash.
const maxSecretBytes = 1024

// hasher creates and verifies hashes of passwords and client secrets, a few at
// a time.
type hasher struct {
	slots *slots
	// quiet returns memory to the system shortly after the last hash; the
	// runtime would keep it for minutes.
	quiet *time.Timer
}

const quietAfter = 2 * time.Second

func newHasher(parallel int) *hasher {
	return &hasher{slots: newSlots(parallel), quiet: background.AfterFunc("auth memory", quietAfter, debug.FreeOSMemory)}
}

func (h *hasher) leave(t turn) {
	h.slots.leave(t)
	h.quiet.Reset(quietAfter)
}

// hash returns secret in PHC form: $argon2id$v=19$m=…,t=…,p=…$salt$key.
// Its callers have proved themselves.
func (h *hasher) hash(ctx context.Context, secret string) (string, error) {
	own := turn{proven: true}
	if err := h.slots.enter(ctx, own); err != nil {
		return "", err
	}
	defer h.leave(own)
	salt := make([]byte, argonSaltLen)
	_, _ = rand.Read(salt)
	key := argon2.IDKey([]byte(secret), salt, argonPasses, argonMemory, argonThreads, argonKeyLen)
	return argonForm(salt, key), nil
}

func argonForm(salt, key []byte) string {
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version,
		argonMemory, argonPasses, argonThreads, b64.EncodeToString(salt), b64.EncodeToString(key))
}

// fastForm begins the hash of a secret that the server made up itself. It is random and long,
// so that there is nothing to slow down: trying them all is hopeless at any speed.
const fastForm = "$sha256$"

func hashRandom(secret string) string { return fastForm + fingerprint(secret) }

// hashOfNone returns a hash that no secret has and that takes as long to compare as any other.
func hashOfNone() string {
	salt, key := make([]byte, argonSaltLen), make([]byte, argonKeyLen)
	_, _ = rand.Read(salt)
	_, _ = rand.Read(key)
	return argonForm(salt, key)
}

// matches reports whether secret has the given hash. Besides our own forms it
// knows bcrypt, for users imported from elsewhere.
func (h *hasher) matches(ctx context.Context, t turn, hash, secret string) (bool, error) {
	if len(secret) > maxSecretBytes {
		return false, nil
	}
	if strings.HasPrefix(hash, fastForm) {
		return subtle.ConstantTimeCompare([]byte(hash), []byte(hashRandom(secret))) == 1, nil
	}
	if err := h.slots.enter(ctx, t); err != nil {
		return false, err
	}
	defer h.leave(t)
	if strings.HasPrefix(hash, "$2") {
		err := bcrypt.CompareHashAndPassword([]byte(hash), []byte(secret))
		return err == nil, nil
	}
	salt, want, memory, passes, threads, err := parseArgon(hash)
	if err != nil {
		return false, err
	}
	got := argon2.IDKey([]byte(secret), salt, passes, memory, threads, //nolint:gosec // bounded by parseArgon
		uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, nil
}

var errHashForm = errors.New("unknown format of a stored hash")

func parseArgon(hash string) (salt, key []byte, memory, passes uint32, threads uint8, err error) {
	parts := strings.Split(hash, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return nil, nil, 0, 0, 0, errHashForm
	}
	if _, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads); err != nil || memory > 1<<20 ||
		passes == 0 || passes > 100 || threads == 0 {
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

// remembered avoids the slow check for repeated logins: a keyed hash of the
// last correct secret is cached, in memory only and for an hour after its last
// use. It is bound to the stored hash, so that it becomes invalid when the
// password or secret changes. Only correct secrets are cached, so that
// attackers cannot evict others.
//
// An attacker who can read this process's memory finds the key there and can
// try passwords faster than against the stored hash, but also finds the keys
// that sign tokens.
type remembered struct {
	key  [32]byte
	seen *otter.Cache[string, *[sha256.Size]byte]
}

func newRemembered() *remembered {
	r := &remembered{seen: otter.Must(&otter.Options[string, *[sha256.Size]byte]{
		MaximumSize:      10_000,
		ExpiryCalculator: otter.ExpiryAccessing[string, *[sha256.Size]byte](time.Hour),
	})}
	_, _ = rand.Read(r.key[:])
	return r
}

func (r *remembered) digest(hash, secret string) *[sha256.Size]byte {
	m := hmac.New(sha256.New, r.key[:])
	_, _ = m.Write([]byte(hash))
	_, _ = m.Write([]byte{0})
	_, _ = m.Write([]byte(secret))
	return (*[sha256.Size]byte)(m.Sum(nil))
}

func (r *remembered) knows(hash, secret string) bool {
	want, ok := r.seen.GetIfPresent(hash)
	got := r.digest(hash, secret)
	return ok && subtle.ConstantTimeCompare(want[:], got[:]) == 1
}

func (r *remembered) knowsAny(hashes []string, secret string) bool {
	for _, hash := range hashes {
		if r.knows(hash, secret) {
			return true
		}
	}
	return false
}

func (r *remembered) add(hash, secret string) { r.seen.Set(hash, r.digest(hash, secret)) }

// fingerprint hashes one-time codes and session cookies for storage: they are
// random and long, so a fast hash is enough.
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
			// first characters more likely.
			if int(b) < 256-256%len(alphabet) && len(out) < n {
				out = append(out, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(out)
}
