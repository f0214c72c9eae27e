package seal

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

const version = "s1"

// Errors of Open. An error returned by Open matches exactly one of them with
// errors.Is.
var (
	// ErrFormat means that the text is not a sealed value.
	ErrFormat = errors.New("not a sealed value")
	// ErrUnknownKey means that the keyring lacks the key that sealed the value.
	ErrUnknownKey = errors.New("sealed with a key that is not in the keyring")
	// ErrTampered means that the value does not authenticate with its key. It
	// was changed, truncated, or belongs to another row or column;
	// authenticated encryption does not distinguish these.
	ErrTampered = errors.New("sealed value was changed or belongs to another row or column")
)

// UnknownKeyError names the missing key, which is not secret, so that the
// operator can find the backup of the key file that contains it.
type UnknownKeyError struct{ ID string }

func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("sealed with key %s, which is not in the keyring: "+
		"add that key after the first one in INGOT_ENCRYPTION_KEY or in the key file", e.ID)
}

// Is makes errors.Is(err, ErrUnknownKey) true.
func (e *UnknownKeyError) Is(target error) bool { return target == ErrUnknownKey }

// Seal encrypts plain with the primary key and binds it to aad.
func (k *Keyring) Seal(plain []byte, aad string) string {
	primary := k.keys[0]
	body := primary.aead.Seal(nil, nil, plain, []byte(aad))
	return version + "." + primary.id + "." + base64.RawURLEncoding.EncodeToString(body)
}

// Open decrypts a value that Seal made with any key of the ring. aad must be
// the one given to Seal.
func (k *Keyring) Open(sealed, aad string) ([]byte, error) {
	id, text, err := split(sealed)
	if err != nil {
		return nil, err
	}
	with := k.find(id)
	if with == nil {
		return nil, &UnknownKeyError{ID: id}
	}
	// Strict, so that every value has one encoding: otherwise the unused last
	// bits could be changed unnoticed.
	body, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return nil, fmt.Errorf("%w: the part after the key id is not base64url", ErrFormat)
	}
	plain, err := with.aead.Open(nil, nil, body, []byte(aad))
	if err != nil {
		return nil, ErrTampered
	}
	if plain == nil {
		plain = []byte{} // an empty secret is a value, not the absence of one
	}
	return plain, nil
}

// IsCurrent reports whether the value was sealed with the primary key. It is
// false for anything that is not a sealed value. It does not open the value.
func (k *Keyring) IsCurrent(sealed string) bool {
	id, _, err := split(sealed)
	return err == nil && id == k.keys[0].id
}

func split(sealed string) (id, text string, err error) {
	parts := strings.SplitN(sealed, ".", 3)
	if len(parts) != 3 || parts[0] != version || !isKeyID(parts[1]) {
		return "", "", fmt.Errorf("%w: not in the form %s.<key id>.<data>", ErrFormat, version)
	}
	return parts[1], parts[2], nil
}

// isKeyID reports whether s looks like a key id. Nothing else is quoted in
// error messages.
func isKeyID(s string) bool {
	if len(s) != idLen {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
