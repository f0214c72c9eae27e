//go:build linux

package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// InitName is the file name of the first process of every instance.
const InitName = "ingot-init"

// InitPath finds the ingot-init program: the one that was asked for, or the one
// beside the running program, or in PATH. The answer is absolute.
func InitPath(explicit string) (string, error) {
	if explicit != "" {
		if err := executable(explicit); err != nil {
			return "", fmt.Errorf("ingot-init: %w; build it: go build -o %s ./cmd/ingot-init", err, explicit)
		}
		return filepath.Abs(explicit)
	}
	beside := InitName
	if self, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(self), InitName)
		if executable(beside) == nil {
			return beside, nil
		}
	}
	if found, err := exec.LookPath(InitName); err == nil {
		return filepath.Abs(found)
	}
	return "", fmt.Errorf("ingot-init is neither beside this program nor in PATH; build it: go build -o %s ./cmd/ingot-init", beside)
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s: %w", path, errors.New("not an executable file"))
	}
	return nil
}
