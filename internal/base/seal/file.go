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

// LoadOrCreate returns the keyring of a server. env, the content of
// INGOT_ENCRYPTION_KEY, wins when it is not empty. Otherwise the keys come from
// the file at path, which is created with one fresh key when it is missing;
// created then is true. A file that others can read is refused.
//
// Two processes may call it for the same missing file: one creates it, and both
// end up with that one's key.
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
		if errors.Is(err, fs.ErrExist) { // another process was first: its key counts
			err = nil
		}
		if err == nil {
			text, err = readPrivate(path)
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("encryption key file: %w", err)
	}
	k, err = Parse(string(text))
	if err != nil {
		return nil, false, fmt.Errorf("encryption key file %s: %w", path, err)
	}
	return k, created, nil
}

// Rotate puts a fresh key before the others in the key file. Values sealed so
// far still open; new ones use the new key once the servers have read the file
// again. It must not run twice at the same time on one file.
func Rotate(path string) error {
	old, err := readPrivate(path)
	if err != nil {
		return fmt.Errorf("rotate encryption key: %w", err)
	}
	if _, err := Parse(string(old)); err != nil {
		return fmt.Errorf("rotate encryption key: %s: %w", path, err)
	}
	// The new key goes in front of the old text as it is, so that the operator's
	// own comments stay beside the keys they speak of.
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
		return nil, fmt.Errorf("%s is %d bytes long, which is no key file", path, info.Size())
	}
	return os.ReadFile(path)
}

type placing int

const (
	create  placing = iota // fails with fs.ErrExist when the file is there
	replace                // takes the place of the file
)

// writePrivate makes the file appear whole and durable, or not at all: a key
// that sealed something and is then lost to a power cut cannot be had again.
func writePrivate(path string, content []byte, how placing) error {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // always 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // gone already after a rename
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
		// A link, unlike a rename, never replaces a file made in the meantime.
		err = os.Link(tmp.Name(), path)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			// Some file systems have no links; there the race is left open.
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
