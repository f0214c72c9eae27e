package seal

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

const (
	keyLen = 32
	idLen  = 8
)

// Keyring is an ordered list of keys. The first is the primary key: it seals.
// The others only open values they sealed earlier. A keyring is immutable and
// safe for concurrent use.
type Keyring struct{ keys []key }

type key struct {
	id   string
	aead cipher.AEAD
}

func newKey(raw []byte) (key, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	sum := sha256.Sum256(raw)
	return key{id: hex.EncodeToString(sum[:])[:idLen], aead: aead}, nil
}

// NewKey returns a new random key in the text form that Parse reads.
func NewKey() string {
	raw := make([]byte, keyLen)
	rand.Read(raw) //nolint:errcheck // crypto/rand.Read never fails, it ends the process instead
	return base64.StdEncoding.EncodeToString(raw)
}

// Parse parses keys separated by newlines or commas, the primary first. A key
// is 32 bytes in hexadecimal or in base64 (standard or URL alphabet, padded or
// not). Empty entries, and lines that start with '#', are skipped. Errors name
// the position of a mistake but never show the text.
func Parse(text string) (*Keyring, error) {
	ring := &Keyring{}
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "#") {
			continue
		}
		for j, field := range strings.Split(line, ",") {
			field = strings.TrimSpace(field)
			if field == "" {
				continue
			}
			where := fmt.Sprintf("encryption key on line %d, entry %d", i+1, j+1)
			raw, err := decode(field)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			k, err := newKey(raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", where, err)
			}
			if ring.find(k.id) != nil {
				return nil, fmt.Errorf("%s: key %s is given twice", where, k.id)
			}
			ring.keys = append(ring.keys, k)
		}
	}
	if len(ring.keys) == 0 {
		return nil, errors.New("no encryption key given: at least one key of 32 bytes in base64 or hexadecimal is needed")
	}
	return ring, nil
}

func decode(field string) ([]byte, error) {
	raw := decodeText(field)
	switch {
	case raw == nil:
		return nil, fmt.Errorf("neither base64 nor hexadecimal of %d bytes", keyLen)
	case len(raw) != keyLen:
		return nil, fmt.Errorf("%d bytes long, want exactly %d", len(raw), keyLen)
	case bytes.Count(raw, raw[:1]) == keyLen:
		return nil, errors.New("one byte repeated is not a key; create one with: openssl rand -base64 32")
	}
	return raw, nil
}

// decodeText tries hexadecimal first: 64 hexadecimal digits are also valid
// base64, but of 48 bytes, so the two cannot be confused.
func decodeText(field string) []byte {
	if raw, err := hex.DecodeString(field); err == nil && len(raw) == keyLen {
		return raw
	}
	body := strings.TrimRight(field, "=")
	for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		if raw, err := enc.DecodeString(body); err == nil {
			return raw
		}
	}
	return nil
}

// Primary returns the id of the key that seals.
func (k *Keyring) Primary() string { return k.keys[0].id }

// IDs returns the ids of all keys, primary first. They are not secret.
func (k *Keyring) IDs() []string {
	ids := make([]string, len(k.keys))
	for i, key := range k.keys {
		ids[i] = key.id
	}
	return ids
}

// String returns the key ids, so that a keyring that is logged by mistake shows
// no secrets.
func (k *Keyring) String() string { return "keyring(" + strings.Join(k.IDs(), ",") + ")" }

// GoString returns String: %#v must not print keys either.
func (k *Keyring) GoString() string { return k.String() }

func (k *Keyring) find(id string) *key {
	for i := range k.keys {
		if k.keys[i].id == id {
			return &k.keys[i]
		}
	}
	return nil
}
