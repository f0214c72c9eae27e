package datadir

import (
	"encoding/json"
	"os"
	"path/filepath"
)

// WriteFile writes a file atomically and durably: a reader never sees a part of
// it, and what was written before a crash exists after it.
func WriteFile(path string, content []byte, mode os.FileMode) (err error) {
	dir := filepath.Dir(path)
	tmp, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(tmp.Name())
		}
	}()
	_, err = tmp.Write(content)
	if err == nil {
		err = tmp.Chmod(mode)
	}
	if err == nil {
		err = tmp.Sync()
	}
	if closeErr := tmp.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	err = os.Rename(tmp.Name(), path)
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// WriteJSON writes a file of the directory atomically and durably.
func (d *Dir) WriteJSON(name string, v any, mode os.FileMode) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return WriteFile(d.File(name), append(text, '\n'), mode)
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}
