package main

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// sealer encrypts and authenticates cookies. The first key is used for new ones; the
// others are older ones.
type sealer []cipher.AEAD

// newSealer parses keys of 32 bytes, in base64 or hexadecimal.
func newSealer(keys []string) (sealer, error) {
	var s sealer
	for _, text := range keys {
		b, err := hex.DecodeString(text)
		if err != nil || len(b) != 32 {
			b, err = base64.RawStdEncoding.DecodeString(strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").
				Replace(text), "="))
		}
		if err != nil || len(b) != 32 {
			return nil,
				errors.New("must be 32 random bytes in base64 or hexadecimal, for example the output of: openssl rand -base64 32")
		}
		block, err := aes.NewCipher(b)
		if err != nil {
			return nil, err
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		s = append(s, aead)
	}
	return s, nil
}

// seal returns a value as text that only open can read. The purpose binds it to what it
// is for: a cookie of one kind is not accepted as another.
func (s sealer) seal(purpose string, value any) (string, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return "", err
	}
	nonce := make([]byte, s[0].NonceSize())
	_, _ = rand.Read(nonce) // never fails
	return base64.RawURLEncoding.EncodeToString(s[0].Seal(nonce, nonce, text, []byte(purpose))), nil
}

var errSealed = errors.New("the cookie was not made here")

// open reads what seal returned.
func (s sealer) open(purpose, sealed string, into any) error {
	b, err := base64.RawURLEncoding.DecodeString(sealed)
	if err != nil {
		return errSealed
	}
	for _, aead := range s {
		if len(b) < aead.NonceSize() {
			return errSealed
		}
		text, err := aead.Open(nil, b[:aead.NonceSize()], b[aead.NonceSize():], []byte(purpose))
		if err == nil {
			return json.Unmarshal(text, into)
		}
	}
	return errSealed
}

// Browsers accept about 4096 bytes for a cookie, with its name and attributes.
const (
	cookiePart = 3600
	maxParts   = 6
)

// jar writes cookies with the right attributes, in several parts if they are long.
type jar struct {
	name   string
	secure bool
}

// part returns the name of a part.
func (j jar) part(i int) string {
	if i == 0 {
		return j.name
	}
	return j.name + "_" + strconv.Itoa(i)
}

// get returns a cookie. Its first part begins with the number of parts.
func (j jar) get(r *http.Request) string {
	first, err := r.Cookie(j.name)
	if err != nil {
		return ""
	}
	count, value, ok := strings.Cut(first.Value, ".")
	n, err := strconv.Atoi(count)
	if !ok || err != nil || n < 1 || n > maxParts {
		return ""
	}
	for i := 1; i < n; i++ {
		c, err := r.Cookie(j.part(i))
		if err != nil {
			return ""
		}
		value += c.Value
	}
	return value
}

// set sets a cookie, and removes parts of an older, longer one.
func (j jar) set(w http.ResponseWriter, r *http.Request, value string, life time.Duration) error {
	var parts []string
	for rest := value; rest != "" || len(parts) == 0; {
		n := min(cookiePart, len(rest))
		parts, rest = append(parts, rest[:n]), rest[n:]
	}
	if len(parts) > maxParts {
		return fmt.Errorf("the session has %d bytes, and at most %d fit into cookies: request fewer scopes with LOGIN_SCOPES",
			len(value), maxParts*cookiePart)
	}
	parts[0] = strconv.Itoa(len(parts)) + "." + parts[0]
	for i, text := range parts {
		http.SetCookie(w, j.cookie(j.part(i), text, int(life/time.Second)))
	}
	j.clear(w, r, len(parts))
	return nil
}

// clear removes the parts of a cookie from one on.
func (j jar) clear(w http.ResponseWriter, r *http.Request, from int) {
	for i := from; i < maxParts; i++ {
		if _, err := r.Cookie(j.part(i)); err == nil {
			http.SetCookie(w, j.cookie(j.part(i), "", -1))
		}
	}
}

func (j jar) cookie(name, value string, maxAge int) *http.Cookie {
	c := &http.Cookie{ //nolint:gosec // Secure is false only for addresses of localhost
		Name: name, Value: value, Path: "/", MaxAge: maxAge, HttpOnly: true, Secure: j.secure,
		// Lax: the browser comes back from another site at the end of a login.
		SameSite: http.SameSiteLaxMode,
	}
	if maxAge < 0 {
		c.Expires = time.Unix(1, 0) // for clients that ignore the other
	}
	return c
}
