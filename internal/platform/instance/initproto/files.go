package initproto

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// WriteFileAtomic replaces a file atomically: readers see the old content or the new. It
// does not wait for the disk.
func WriteFileAtomic(name string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// ReadSpec reads SpecFile and validates it.
func ReadSpec(dir string) (Spec, error) {
	var s Spec
	if err := readJSON(filepath.Join(dir, SpecFile), &s); err != nil {
		return Spec{}, err
	}
	return s, s.Validate()
}

// WriteState writes StateFile.
func WriteState(dir string, s State) error {
	return writeJSON(filepath.Join(dir, StateFile), s, 0o644)
}

func writeJSON(name string, v any, mode os.FileMode) error {
	content, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return WriteFileAtomic(name, append(content, '\n'), mode)
}

func readJSON(name string, v any) error {
	content, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
