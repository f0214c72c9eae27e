package datadir

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"

	"ingot/internal/base/filelock"
	"ingot/internal/base/seal"
)

// SecretsDir is the directory of the secrets in the data directory.
const SecretsDir = "secrets"

// KeysPath is the file of the encryption keys in the data directory.
const KeysPath = SecretsDir + "/" + keysFile

// The files in DIR/secrets; each client has one with its name.
const (
	keysFile          = "encryption-keys"
	adminPasswordFile = "admin-password"
	adminClientFile   = "admin-client-secret"
)

// Secrets are the secrets of a server.
type Secrets struct {
	Keys              *seal.Keyring
	AdminPassword     string
	AdminClientSecret string
	// Clients are the secrets of the OAuth clients of the server's own parts.
	Clients map[string]string
	// Generated are those that this call generated, to be shown once.
	Generated Generated
}

// Generated are the secrets that were generated; the others are empty.
type Generated struct {
	AdminPassword     string
	AdminClientSecret string
}

// SecretOptions say which secrets a server needs.
type SecretOptions struct {
	// EncryptionKey, if not empty, is used instead of the key file. DatabaseURL is
	// the database that the keys are for.
	EncryptionKey string
	DatabaseURL   string
	// Clients are the ids of the OAuth clients of the server's own parts.
	Clients []string
	// NoAdmin means that another authorization server has the administrator.
	NoAdmin bool
	// AdminPassword and AdminClientSecret are used on the first start; empty ones
	// are generated then.
	AdminPassword     string
	AdminClientSecret string
	// Share, where several servers share a database, returns a secret that all of them
	// use, and stores the result of create as that secret if there is none. A file of the
	// data directory comes first, and is shared if it is the first. nil means files only.
	Share func(name string, create func() string) (value string, created bool, err error)
	Log   *slog.Logger
}

// Secrets reads DIR/secrets and creates what is missing. It is called before the
// database is written: a server that is killed in between finds the same secrets
// and stores them then.
func (d *Dir) Secrets(o SecretOptions) (*Secrets, error) {
	keys, err := d.Keys(o.EncryptionKey, o.DatabaseURL, o.Log)
	if err != nil {
		return nil, err
	}
	s := &Secrets{Keys: keys, Clients: map[string]string{}}
	for _, name := range o.Clients {
		if s.Clients[name], _, err = d.loadSecret(name, machineSecret, o.Share); err != nil {
			return nil, err
		}
	}
	if o.NoAdmin {
		return s, nil
	}
	if s.AdminPassword, s.Generated.AdminPassword, err = d.adminSecret(adminPasswordFile, "INGOT_ADMIN_PASSWORD",
		o.AdminPassword, humanSecret, o); err != nil {
		return nil, err
	}
	s.AdminClientSecret, s.Generated.AdminClientSecret, err = d.adminSecret(adminClientFile, "INGOT_ADMIN_CLIENT_SECRET",
		o.AdminClientSecret, machineSecret, o)
	return s, err
}

// Keys reads the keys that encrypt secret columns of a database, or creates the
// first. given, if not empty, is used instead of the file.
func (d *Dir) Keys(given, databaseURL string, log *slog.Logger) (*seal.Keyring, error) {
	dir := d.File(SecretsDir)
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("secrets: %w", err)
	}
	file := filepath.Join(dir, keysFile)
	if given == "" {
		if err := keyNotLost(file, databaseURL); err != nil {
			return nil, err
		}
	}
	keys, created, err := seal.LoadOrCreate(file, given)
	if created {
		log.Info("created a new encryption key; back it up, apart from the database", "file", file)
	}
	return keys, err
}

// ReadKeys reads the keys of a data directory, which a server may be using. given, if
// not empty, is used instead of the file.
func ReadKeys(dataDir, given string) (*seal.Keyring, error) {
	file := filepath.Join(dataDir, SecretsDir, keysFile)
	if given == "" {
		if _, err := os.Stat(file); err != nil {
			return nil, fmt.Errorf("encryption keys: %w", err)
		}
	}
	keys, _, err := seal.LoadOrCreate(file, given)
	return keys, err
}

// keyNotLost returns an error if a new key would be created for a database that
// was written with another one: its secrets could not be decrypted.
func keyNotLost(path, databaseURL string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return wrapSecret(err)
	}
	file, isFile := strings.CutPrefix(databaseURL, "sqlite:")
	if !isFile {
		return nil
	}
	if info, err := os.Stat(file); err == nil && info.Size() > 0 {
		return fmt.Errorf("the encryption keys are missing: %s does not exist, but the database %s does; restore the file "+
			"from a backup, or set INGOT_ENCRYPTION_KEY", path, file)
	}
	return nil
}

// adminSecret is loadSecret for a secret that the operator may choose. fresh is
// the value if it was generated.
func (d *Dir) adminSecret(name, variable, chosen string, generate func() string, o SecretOptions) (value, fresh string,
	err error) {
	first := generate
	if chosen != "" {
		first = func() string { return chosen }
	}
	value, created, err := d.loadSecret(name, first, o.Share)
	switch {
	case err != nil:
		return "", "", err
	case created && chosen == "":
		return value, value, nil
	case chosen != "" && chosen != value:
		o.Log.Warn(variable+" is ignored: it is used by the first start only", "kept_in", d.File(SecretsDir, name))
	}
	return value, "", nil
}

// loadSecret reads a secret, or stores the result of generate if there is none: in a file,
// or where share stores it.
func (d *Dir) loadSecret(name string, generate func() string,
	share func(string, func() string) (string, bool, error)) (value string, created bool, err error) {
	path := d.File(SecretsDir, name)
	if share == nil {
		return secretFile(path, generate)
	}
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return share(name, generate)
	}
	value, _, err = secretFile(path, generate)
	if err == nil {
		_, _, err = share(name, func() string { return value })
	}
	return value, false, err
}

// secretFile reads a secret, or writes the result of generate if there is no file.
func secretFile(path string, generate func() string) (value string, created bool, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		value = generate()
		if strings.TrimRight(value, "\r\n") != value {
			return "", false, fmt.Errorf("secret for %s: it must not end with a line break", path)
		}
		return value, true, wrapSecret(WriteFile(path, []byte(value+"\n"), 0o600))
	}
	value, err = ReadSecret(path)
	return value, false, err
}

// ReadSecret reads the file of a secret, which others cannot read.
func ReadSecret(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", wrapSecret(err)
	}
	if !info.Mode().IsRegular() {
		return "",
			fmt.Errorf("secrets: %s is not a regular file; remove it to generate a new one, or restore it from a backup", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return "",
			fmt.Errorf("secrets: %s can be read or written by others (mode %04o): run chmod 600 %s, and change the secret if "+
				"someone else may have read it", path, perm, path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", wrapSecret(err)
	}
	value := strings.TrimRight(string(text), "\r\n")
	if value == "" {
		return "", fmt.Errorf("secrets: %s is empty; remove it to generate a new one, or restore it from a backup", path)
	}
	return value, nil
}

func wrapSecret(err error) error {
	if err != nil {
		return fmt.Errorf("secrets: %w", err)
	}
	return nil
}

// humanSecret returns a secret that can be typed: A-Z and 2-7 only, 130 bits.
func humanSecret() string { return rand.Text() }

// machineSecret returns 32 random bytes in hexadecimal.
func machineSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// RotateKeys adds a new encryption key before the others. Servers use it after a
// restart.
func RotateKeys(dataDir string) error {
	dir := filepath.Join(dataDir, SecretsDir)
	// One at a time: of two at once, the later would overwrite the key of the
	// earlier.
	lock, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("%s holds no secrets: has `ingot up` been run with this --data-dir? (%w)", dataDir, err)
	}
	defer func() { _ = lock.Close() }()
	if err := filelock.Lock(context.Background(), lock, math.MaxInt64); err != nil {
		return fmt.Errorf("lock %s: %w", dir, err)
	}
	return seal.Rotate(filepath.Join(dir, keysFile))
}
