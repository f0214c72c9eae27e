package broker

import (
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // the form in which MariaDB stores passwords
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"ingot/internal/base/daemon"
	"ingot/internal/base/seal"
)

// secret is the key that all passwords of the broker are derived from. It is
// stored encrypted; the passwords are not stored at all.
type secret []byte

const secretAAD = "broker/secret"

// loadSecret reads the secret. Unless readOnly is set, it creates one if there is none, and
// encrypts it again if there is a newer key.
func loadSecret(path string, keys *seal.Keyring, readOnly bool) (secret, error) {
	content, err := os.ReadFile(path)
	var s []byte
	switch {
	case errors.Is(err, fs.ErrNotExist) && !readOnly:
		s = make([]byte, 32)
		_, _ = rand.Read(s) // never fails
	case err != nil:
		return nil, fmt.Errorf("the secret of the service broker: %w: restore it from a backup", err)
	default:
		sealed := strings.TrimSpace(string(content))
		if s, err = keys.Open(sealed, secretAAD); err != nil {
			return nil, fmt.Errorf("the secret of the service broker in %s cannot be opened: %w: restore it from a backup", path,
				err)
		}
		if readOnly || keys.IsCurrent(sealed) {
			return s, nil
		}
	}
	return s, daemon.WriteFile(path, []byte(keys.Seal(s, secretAAD)+"\n"), nil)
}

// password derives a password of 43 characters that need no quoting anywhere.
func (s secret) password(purpose ...string) string {
	mac := hmac.New(sha256.New, s)
	mac.Write([]byte(strings.Join(purpose, "\x00")))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func newNonce() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// Servers get passwords in the form they store them, so that no password appears
// in a server's log.

// scram returns the form in which PostgreSQL stores a password.
func scram(password string) (string, error) {
	const rounds = 4096
	salt := make([]byte, 16)
	_, _ = rand.Read(salt) // never fails
	salted, err := pbkdf2.Key(sha256.New, password, salt, rounds, sha256.Size)
	if err != nil {
		return "", err
	}
	sign := func(text string) []byte {
		mac := hmac.New(sha256.New, salted)
		mac.Write([]byte(text))
		return mac.Sum(nil)
	}
	stored := sha256.Sum256(sign("Client Key"))
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("SCRAM-SHA-256$%d:%s$%s:%s", rounds, text(salt), text(stored[:]), text(sign("Server Key"))), nil
}

// native returns the form in which MariaDB stores a password.
func native(password string) string {
	once := sha1.Sum([]byte(password)) //nolint:gosec // MariaDB's form; the password has 256 random bits
	twice := sha1.Sum(once[:])         //nolint:gosec // the same
	return "*" + strings.ToUpper(hex.EncodeToString(twice[:]))
}

// hashed returns the form in which Redis stores a password.
func hashed(password string) string {
	sum := sha256.Sum256([]byte(password))
	return hex.EncodeToString(sum[:])
}
