package alerts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"ingot/internal/base/datadir"
)

const (
	// PositionFile is how far the events of apps were read, in the data directory.
	PositionFile = "alerts.json"
	// OldPositionFile is its name in builds before 0.1.0.
	OldPositionFile = "herald.json"
)

// Position returns the path of PositionFile. A file with the old name is newer than one
// with the new name, because only an older version writes it: it replaces the other.
func Position(dir *datadir.Dir) (string, error) {
	path := dir.File(PositionFile)
	if err := os.Rename(dir.File(OldPositionFile), path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("alerts: %w", err)
	}
	return path, nil
}
