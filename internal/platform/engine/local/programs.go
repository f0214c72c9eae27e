package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Programs that instances need.
const (
	InitName = "ingot-init" // the first process of every instance
	SFTPName = "ingot-sftp" // serves the files of an instance to sftp and scp
)

// InitPath returns the absolute path of the ingot-init program: the explicit one, or the
// one next to the running program, or in PATH.
func InitPath(explicit string) (string, error) { return ProgramPath(InitName, explicit) }

// ProgramPath finds any of the programs in the same way.
func ProgramPath(name, explicit string) (string, error) {
	if explicit != "" {
		if err := executable(explicit); err != nil {
			return "", fmt.Errorf("%s: %w; build it: go build -o %s ./cmd/%[1]s", name, err, explicit)
		}
		return filepath.Abs(explicit)
	}
	beside := name
	if self, err := os.Executable(); err == nil {
		beside = filepath.Join(filepath.Dir(self), name)
		if executable(beside) == nil {
			return beside, nil
		}
	}
	if found, err := exec.LookPath(name); err == nil {
		return filepath.Abs(found)
	}
	return "", fmt.Errorf("%s is neither beside this program nor in PATH; build it: go build -o %s ./cmd/%[1]s",
		name, beside)
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
