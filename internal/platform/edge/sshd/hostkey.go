package sshd

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// maxKeyFile limits how much of a key file is read.
const maxKeyFile = 64 << 10

// loadHostKey reads the key, or creates one if there is no file. A file that cannot be read
// is never replaced, because clients know its key. Share, unless nil, has the key that all
// servers use: the file comes first, and is shared if there is none.
func loadHostKey(path string, share func(create func() ([]byte, error)) ([]byte, error),
	log *slog.Logger) (ssh.Signer, error) {
	text, err := readKey(path, log)
	switch {
	case errors.Is(err, fs.ErrNotExist) && share != nil:
		text, err = share(newKey)
	case errors.Is(err, fs.ErrNotExist):
		if err := createKey(path); err != nil {
			return nil, fmt.Errorf("ssh host key: %w", err)
		}
		text, err = readKey(path, log)
	case err == nil && share != nil:
		_, err = share(func() ([]byte, error) { return text, nil })
	}
	const help = "restore it from a backup, or remove it to create a new one, which ssh clients do not know"
	if err != nil {
		return nil, fmt.Errorf("ssh host key: %w; %s", err, help)
	}
	key, err := ssh.ParsePrivateKey(text)
	if err != nil {
		return nil, fmt.Errorf("ssh host key %s: %w; %s", path, err, help)
	}
	return key, nil
}

func readKey(path string, log *slog.Logger) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxKeyFile {
		return nil, fmt.Errorf("%s is not a key file", path)
	}
	if info.Mode().Perm()&0o077 != 0 {
		log.Warn("restricted the permissions of the ssh host key", "file", path, "mode", info.Mode().Perm().String())
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(path)
}

// newKey returns a new key in the form of a key file.
func newKey() ([]byte, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(block), nil
}

// createKey writes a new key to a temporary file and renames it once it is complete and on
// the disk. If another process was first, its key is used.
func createKey(path string) (err error) {
	text, err := newKey()
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".host-key-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// fingerprint returns the SHA-256 of a public key in base64, without padding and without
// the usual prefix: cf recognizes the kind by its 43 characters.
func fingerprint(key ssh.PublicKey) string {
	return strings.TrimPrefix(ssh.FingerprintSHA256(key), "SHA256:")
}
