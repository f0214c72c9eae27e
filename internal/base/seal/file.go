package seal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const fileHeader = `# Encryption keys of this Ingot server. The first key seals, the others only open.
# Without this file the secrets in the database are lost: back it up, apart from the database.
`

// LoadOrCreate returns the keyring of a server. env, the value of
// INGOT_ENCRYPTION_KEY, takes precedence if not empty. Otherwise the keys are
// read from the file at path, which is created with one new key if it is
// missing; then created is true. A file that others can read is rejected.
//
// Two processes may call it for the same missing file: one creates it, and both
// return its key.
func LoadOrCreate(path, env string) (k *Keyring, created bool, err error) {
	if env != "" {
		k, err = Parse(env)
		if err != nil {
			return nil, false, fmt.Errorf("INGOT_ENCRYPTION_KEY: %w", err)
		}
		return k, false, nil
	}
	text, err := readPrivate(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = writePrivate(path, []byte(fileHeader+NewKey()+"\n"), create)
		created = err == nil
		if errors.Is(err, fs.ErrExist) { // another process was first: use its key
			err = nil
		}
		if err == nil {
			text, err = readPrivate(path)
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("encryption key file: %w; if it is damaged, restore it from a backup", err)
	}
	k, err = Parse(string(text))
	if err != nil {
		return nil, false, fmt.Errorf("encryption key file %s: %w; if it is damaged, restore it from a backup", path, err)
	}
	return k, created, nil
}

// Rotate adds a new primary key to the key file. Existing values can still be
// opened; new ones use the new key once the servers have reloaded the file. It
// must not run concurrently on one file.
func Rotate(path string) error {
	old, err := readPrivate(path)
	if err != nil {
		return fmt.Errorf("rotate encryption key: %w", err)
	}
	if _, err := Parse(string(old)); err != nil {
		return fmt.Errorf("rotate encryption key: %s: %w", path, err)
	}
	// The new key is prepended to the file's text, so that the operator's
	// comments stay with their keys.
	if err := writePrivate(path, append([]byte(NewKey()+"\n"), old...), replace); err != nil {
		return fmt.Errorf("rotate encryption key: %w", err)
	}
	return nil
}

func readPrivate(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return nil, fmt.Errorf("%s can be read or written by others (mode %04o): "+
			"run chmod 600 %s, and rotate the key if someone else may have read it", path, perm, path)
	}
	const limit = 1 << 20
	if info.Size() > limit {
		return nil, fmt.Errorf("%s is %d bytes long and not a key file", path, info.Size())
	}
	return os.ReadFile(path)
}

type writeMode int

const (
	create  writeMode = iota // fails with fs.ErrExist if the file exists
	replace                  // replaces the file
)

// writePrivate writes and syncs the file atomically: a key that was used and
// then lost in a power cut could not be recovered.
func writePrivate(path string, content []byte, how writeMode) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // always 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // does nothing after a rename
	_, err = tmp.Write(content)
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	switch how {
	case create:
		// A link, unlike a rename, never replaces a file created in the
		// meantime.
		err = os.Link(tmp.Name(), path)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			// Some file systems have no links; the race remains there.
			err = os.Rename(tmp.Name(), path)
		}
	case replace:
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
