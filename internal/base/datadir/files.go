package datadir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
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
	return d.replace(d.File(name), append(text, '\n'), mode)
}

// OverwriteJSON overwrites a file of the directory with one write, which needs no space on the disk. It fails if
// there is none, or if it is smaller.
func (d *Dir) OverwriteJSON(name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(d.File(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && info.Size() < int64(len(text)) {
		err = fmt.Errorf("%s has %d bytes, %d are needed", name, info.Size(), len(text))
	}
	if err == nil {
		_, err = f.WriteAt(append(text, bytes.Repeat([]byte{'\n'}, int(info.Size())-len(text))...), 0)
	}
	return errors.Join(err, f.Close())
}

// replace writes a file that can be recreated. A directory of that name is set aside.
func (d *Dir) replace(path string, content []byte, mode os.FileMode) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		if err := SetAside(path, syscall.EISDIR, d.log); err != nil {
			return err
		}
	}
	return WriteFile(path, content, mode)
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
