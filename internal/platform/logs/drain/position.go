package drain

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const positionSuffix = ".json"

// position is the position of a drain, in a file of its own.
type position struct{ path string }

type positionFile struct {
	App  string `json:"app"`
	Sent uint64 `json:"sent"` // number of the last line that was taken
	// Whole distinguishes a complete file from a truncated one.
	Whole bool `json:"whole"`
}

func positionName(app, id string) string {
	sum := sha256.Sum256([]byte(app + "\x00" + id))
	return hex.EncodeToString(sum[:16]) + positionSuffix
}

// load returns the position. known is false if the drain is new; a file that cannot be
// parsed means the oldest line: better twice than never.
func (p position) load() (sent uint64, known bool, err error) {
	b, err := os.ReadFile(p.path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	var f positionFile
	if err := json.Unmarshal(b, &f); err != nil || !f.Whole {
		return 0, true, nil //nolint:nilerr // an unreadable file means that
	}
	return f.Sent, true, nil
}

func (p position) save(app string, sent uint64) error {
	b, err := json.Marshal(positionFile{app, sent, true})
	if err != nil {
		return err
	}
	next := p.path + ".new"
	if err := os.WriteFile(next, b, 0o600); err != nil {
		return fmt.Errorf("store the position of a drain: %w", err)
	}
	return os.Rename(next, p.path)
}

// sweep removes the positions of drains that no longer exist.
func sweep(dir string, keep map[string]bool) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, f := range files {
		name := strings.TrimSuffix(f.Name(), ".new")
		if strings.HasSuffix(name, positionSuffix) && !keep[name] {
			_ = os.Remove(filepath.Join(dir, f.Name()))
		}
	}
}
