package backup

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"
)

// Recipients are the public keys that a backup is encrypted for.
type Recipients struct {
	list []age.Recipient
	// fingerprint identifies them in the names of objects.
	fingerprint string
	names       []string
}

// keyWords returns the keys in a text: separated by commas, blanks or lines, without lines
// that begin with #.
func keyWords(text string) (words []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(strings.TrimSpace(line), "#") {
			words = append(words, strings.FieldsFunc(line, func(c rune) bool {
				return c == ',' || c == ' ' || c == '\t' ||
					c == '\r' || c == '\n'
			})...)
		}
	}
	return words
}

// ParseRecipients reads public keys, age1…, separated by commas, blanks or lines. Lines
// that begin with # are comments.
func ParseRecipients(text string) (Recipients, error) {
	names := keyWords(text)
	if len(names) == 0 {
		return Recipients{}, errors.New("there is no recipient")
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		if strings.HasPrefix(strings.ToUpper(name), "AGE-SECRET-KEY-") {
			return Recipients{}, errors.New("a recipient is the public key, age1…: a private key must not be on the server")
		}
	}
	list, err := age.ParseRecipients(strings.NewReader(strings.Join(names, "\n")))
	if err != nil {
		return Recipients{}, fmt.Errorf("a recipient is a public key, age1…: %w", err)
	}
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return Recipients{list, hex.EncodeToString(sum[:8]), names}, nil
}

// NewKey returns a key file, and the public key and the signing key that belong to it. With a
// passphrase the file is encrypted.
func NewKey(passphrase string, now time.Time) (file []byte, recipient, signingKey string, err error) {
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		return nil, "", "", err
	}
	recipient = identity.Recipient().String()
	private, _, err := Identities{identity}.SigningKeys()
	if err != nil {
		return nil, "", "", err
	}
	signingKey = private[0]
	text := fmt.Sprintf("# Key of Ingot backups. Keep it away from the server and from the backups: without it they "+
		"cannot\n"+
		"# be restored, and with it anyone can read them.\n# created: %s\n# public key: %s\n%s\n",
		now.UTC().Format(time.RFC3339), recipient, identity)
	if passphrase == "" {
		return []byte(text), recipient, signingKey, nil
	}
	lock, err := age.NewScryptRecipient(passphrase)
	if err != nil {
		return nil, "", "", err
	}
	var b bytes.Buffer
	out := armor.NewWriter(&b)
	w, err := age.Encrypt(out, lock)
	if err == nil {
		_, err = io.WriteString(w, text)
	}
	if err == nil {
		err = errors.Join(w.Close(), out.Close())
	}
	return b.Bytes(), recipient, signingKey, err
}

// Identities are the private keys with which backups can be read.
type Identities []age.Identity

// ReadKey reads a key file, of NewKey or of age-keygen. Passphrase is called if the file
// is encrypted.
func ReadKey(path string, passphrase func() (string, error)) (Identities, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if perm := info.Mode().Perm(); info.Mode().IsRegular() && perm&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read by others (mode %04o): run chmod 600 %s", path, perm, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var sealed io.Reader
	switch {
	case bytes.HasPrefix(text, []byte(armor.Header)):
		sealed = armor.NewReader(bytes.NewReader(text))
	case bytes.HasPrefix(text, []byte("age-encryption.org/")):
		sealed = bytes.NewReader(text)
	}
	if sealed != nil {
		if text, err = unlock(sealed, passphrase); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	list, err := age.ParseIdentities(bytes.NewReader(text))
	if err != nil {
		// The error of the library may quote the line.
		return nil, fmt.Errorf("%s has no private key, AGE-SECRET-KEY-…", path)
	}
	return list, nil
}

func unlock(r io.Reader, passphrase func() (string, error)) ([]byte, error) {
	word, err := passphrase()
	if err != nil {
		return nil, err
	}
	key, err := age.NewScryptIdentity(word)
	if err != nil {
		return nil, errors.New("the passphrase is empty")
	}
	plain, err := age.Decrypt(bufio.NewReader(r), key)
	if err != nil {
		return nil, errors.New("the passphrase is wrong, or the file is damaged")
	}
	return io.ReadAll(plain)
}

// ErrWrongKey means that the archive was encrypted for other keys.
var ErrWrongKey = errors.New("the backup cannot be read with this key: it was made for another one. 'ingot backup " +
	"list' shows when each backup was made; use the key of that time")

// decrypt returns the content of an encrypted file.
func decrypt(r io.Reader, keys Identities) (io.Reader, error) {
	plain, err := age.Decrypt(r, keys...)
	var none *age.NoIdentityMatchError
	switch {
	case errors.As(err, &none):
		return nil, ErrWrongKey
	case err != nil:
		return nil, &DamagedError{fmt.Errorf("it is not an encrypted backup, or its beginning is damaged: %w", err)}
	}
	return plain, nil
}

// DamagedError means that an archive is not what was written.
type DamagedError struct{ Err error }

func (e *DamagedError) Error() string { return "the backup is damaged: " + e.Err.Error() }
func (e *DamagedError) Unwrap() error { return e.Err }
