package alerts

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"ingot/internal/platform"
)

// overlap is how far back events are read again.
const overlap = 10 * time.Second

// position is how far the events were read: a time, the events around it, and the apps that
// crash.
type position struct {
	After time.Time            `json:"after"`
	Seen  map[string]time.Time `json:"seen"`
	// Crashing are the crashing apps, by guid.
	Crashing map[string]*crashingApp `json:"troubles"`
	dirty    bool
}

// readPosition returns the stored position, or now if there is none: old events are not
// sent.
func readPosition(file string, now time.Time) (position, error) {
	p := position{After: now, Seen: map[string]time.Time{}, Crashing: map[string]*crashingApp{}, dirty: true}
	content, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	var kept position
	if err := json.Unmarshal(content, &kept); err != nil {
		return p, fmt.Errorf("%s is damaged; remove it to start over: %w", file, err)
	}
	if kept.Seen == nil {
		kept.Seen = map[string]time.Time{}
	}
	if kept.Crashing == nil {
		kept.Crashing = map[string]*crashingApp{}
	}
	return kept, nil
}

func (p *position) has(e *platform.AuditEvent) bool {
	_, seen := p.Seen[e.GUID]
	return seen
}

// passed moves the position behind an event.
func (p *position) passed(e *platform.AuditEvent) {
	p.dirty = true
	p.Seen[e.GUID] = e.Created
	if e.Created.After(p.After) {
		p.After = e.Created
	}
	for guid, at := range p.Seen {
		if at.Before(p.After.Add(-2 * overlap)) {
			delete(p.Seen, guid)
		}
	}
}

// save replaces the file atomically.
func (p *position) save(file string) error {
	if !p.dirty {
		return nil
	}
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	fresh := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".new")
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		return err
	}
	if err := os.Rename(fresh, file); err != nil {
		return err
	}
	p.dirty = false
	return nil
}
