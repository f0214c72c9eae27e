package drain

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Positions stores how far each drain is: the number of the last line that its receiver
// has. The transactions of a context may be fenced.
type Positions interface {
	// Position returns the position of a drain. known is false if the drain is new.
	Position(ctx context.Context, app, drain string) (sent uint64, known bool, err error)
	SetPosition(ctx context.Context, app, drain string, sent uint64) error
	// SweepPositions removes the positions of drains that are not wanted (their ids by app),
	// of apps that this server works on.
	SweepPositions(ctx context.Context, wanted map[string][]string, mine func(app string) bool) error
}

const positionSuffix = ".json"

// Files stores positions in a directory, for a single server.
type Files struct{ Dir string }

var _ Positions = Files{}

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

func (f Files) path(app, drain string) string { return filepath.Join(f.Dir, positionName(app, drain)) }

// Position implements Positions. A file that cannot be parsed means the oldest line: better
// twice than never.
func (f Files) Position(_ context.Context, app, drain string) (sent uint64, known bool, err error) {
	b, err := os.ReadFile(f.path(app, drain))
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	var p positionFile
	if err := json.Unmarshal(b, &p); err != nil || !p.Whole {
		return 0, true, nil //nolint:nilerr // an unreadable file means that
	}
	return p.Sent, true, nil
}

// SetPosition implements Positions.
func (f Files) SetPosition(_ context.Context, app, drain string, sent uint64) error {
	b, err := json.Marshal(positionFile{app, sent, true})
	if err != nil {
		return err
	}
	path := f.path(app, drain)
	if err := os.MkdirAll(f.Dir, 0o700); err != nil {
		return fmt.Errorf("store the position of a drain: %w", err)
	}
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return fmt.Errorf("store the position of a drain: %w", err)
	}
	return os.Rename(path+".new", path)
}

// SweepPositions implements Positions. All apps are those of this server.
func (f Files) SweepPositions(_ context.Context, wanted map[string][]string, _ func(string) bool) error {
	keep := map[string]bool{}
	for app, drains := range wanted {
		for _, id := range drains {
			keep[positionName(app, id)] = true
		}
	}
	files, err := os.ReadDir(f.Dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".new")
		if strings.HasSuffix(name, positionSuffix) && !keep[name] {
			_ = os.Remove(filepath.Join(f.Dir, file.Name())) // tried again by the next sweep
		}
	}
	return err
}
