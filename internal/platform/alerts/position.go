package alerts

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"ingot/internal/base/datadir"
	"ingot/internal/platform"
)

// overlap is how far back events are read again of those that an earlier version left.
const overlap = 10 * time.Second

// position is what is remembered of events: the apps that crash, and the crashes that count
// already but are not marked as handled yet.
type position struct {
	// After is the newest crash. Versions before 0.2.0 continue there.
	After time.Time            `json:"after"`
	Seen  map[string]time.Time `json:"seen"`
	// Marks means that handled events are marked as such; earlier versions did not do that.
	Marks bool `json:"marks"`
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
	a.last = nil
	if a.at, err = a.readPosition(ctx); err != nil {
		return err
	}
	if !a.at.Marks {
		if err := a.c.Events.AlertSince(ctx, a.at.After.Add(-overlap)); err != nil {
			return err
		}
		a.at.Marks, a.at.dirty = true, true
	}
	a.leads = true
	return nil
}

// stored calls use with the stored position, if there is one. One that is damaged is forgotten.
func (a *Alerter) stored(ctx context.Context, use func(content []byte) error) error {
	if a.c.States == nil {
		_, err := datadir.ReadRebuilt(a.c.File, use, a.c.Log)
		return err
	}
	value, known, err := a.c.States.State(ctx, stateName)
	if err == nil && known {
		if err := use([]byte(value)); err != nil {
			a.c.Log.WarnContext(ctx, "what was remembered of crashes is damaged; they are counted anew", "name", stateName,
				"error", err)
		}
	}
	return err
}

func (a *Alerter) readPosition(ctx context.Context) (position, error) {
	p := position{After: a.c.Now(), Seen: map[string]time.Time{}, Marks: true, Crashing: map[string]*crashingApp{},
		dirty: true}
	var kept position
	known := false
	err := a.stored(ctx, func(content []byte) error {
		err := json.Unmarshal(content, &kept)
		if err == nil && kept.After.IsZero() {
			err = errors.New("it has no position")
		}
		known = err == nil
		return err
	})
	if err != nil || !known {
		return p, err
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

// passed remembers a crash that counts.
func (p *position) passed(e *platform.AuditEvent) {
	p.dirty = true
	p.Seen[e.GUID] = e.Created
	if e.Created.After(p.After) {
		p.After = e.Created
	}
}

// forget forgets crashes that are marked.
func (p *position) forget(guids []string) {
	for _, guid := range guids {
		delete(p.Seen, guid)
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
