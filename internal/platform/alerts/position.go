package alerts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"ingot/internal/base/datadir"
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

// States stores texts by name, for all servers of a database.
type States interface {
	State(ctx context.Context, name string) (value string, known bool, err error)
	SetState(ctx context.Context, name, value string) error
}

// stateName is the name of the position in States.
const stateName = "alerts"

// resume reads the stored position. Without one, old events are not sent.
func (a *Alerter) resume(ctx context.Context) (err error) {
	a.at, err = a.readPosition(ctx)
	a.leads = err == nil
	return err
}

func (a *Alerter) stored(ctx context.Context) (content []byte, known bool, err error) {
	if a.c.States != nil {
		value, known, err := a.c.States.State(ctx, stateName)
		return []byte(value), known, err
	}
	content, err = os.ReadFile(a.c.File)
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	return content, err == nil, err
}

func (a *Alerter) readPosition(ctx context.Context) (position, error) {
	p := position{After: a.c.Now(), Seen: map[string]time.Time{}, Crashing: map[string]*crashingApp{}, dirty: true}
	content, known, err := a.stored(ctx)
	if err != nil || !known {
		return p, err
	}
	var kept position
	if err := json.Unmarshal(content, &kept); err != nil {
		return p, fmt.Errorf("%s is damaged; remove it to start over: %w", cmp.Or(a.c.File, stateName), err)
	}
	if kept.Seen == nil {
		kept.Seen = map[string]time.Time{}
	}
	if kept.Crashing == nil {
		kept.Crashing = map[string]*crashingApp{}
	}
	// If the clock was set back while no server ran, new events come before the position. Those
	// that are read again for it are not sent again: their messages have the same keys.
	if now := a.c.Now(); kept.After.After(now) {
		kept.After, kept.dirty = now, true
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

// save stores the position; the file is replaced atomically and durably.
func (a *Alerter) save(ctx context.Context) error {
	if !a.at.dirty {
		return nil
	}
	content, err := json.Marshal(a.at)
	if err != nil {
		return err
	}
	if a.c.States != nil {
		err = a.c.States.SetState(ctx, stateName, string(content))
	} else {
		err = datadir.WriteFile(a.c.File, content, 0o600)
	}
	a.at.dirty = err != nil
	return err
}
