package alerts

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// trouble is an app that crashes; all its instances are one.
type trouble struct {
	Name        string    `json:"name"`
	Space       string    `json:"space"`
	Began       time.Time `json:"began"`
	Last        time.Time `json:"last"`
	Count       int       `json:"count"` // since it was told last
	Total       int       `json:"total"`
	Description string    `json:"description"`
	Told        time.Time `json:"told"` // zero while gathering
}

func (h *Herald) crashed(e *platform.AuditEvent) {
	t := h.at.Troubles[e.TargetGUID]
	if t == nil {
		t = &trouble{Name: e.TargetName, Space: e.SpaceGUID, Began: e.Created}
		h.at.Troubles[e.TargetGUID] = t
	}
	t.Last, t.Description = e.Created, text(e.Data["exit_description"])
	t.Count++
	t.Total++
}

// reportTroubles says what is due of the processes that crash.
func (h *Herald) reportTroubles(ctx context.Context) error {
	now := h.c.Now()
	var failed error
	for app, t := range h.at.Troubles {
		switch {
		case t.Told.IsZero() && now.Sub(t.Began) >= h.c.Settle, t.Count > 0 && !t.Told.IsZero() && now.Sub(t.Told) >= h.c.Quiet:
			if err := h.tell(ctx, t.Space, t.crashMessage(app, h.lastLines(ctx, app))); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			t.Told, t.Count = now, 0
			h.at.dirty = true
		case !t.Told.IsZero() && now.Sub(t.Last) >= h.c.Well:
			done, err := h.recovered(ctx, app, t)
			if err != nil {
				failed = errors.Join(failed, err)
			}
			if done {
				delete(h.at.Troubles, app)
				h.at.dirty = true
			}
		}
	}
	return failed
}

// linesShown is how much of an app's log a crash message carries.
const linesShown = 20

// maxLine bounds each of these lines, in bytes.
const maxLine = 500

// lastLines returns the end of an app's log for a message. A log that cannot be
// read is no reason not to tell of the crash.
func (h *Herald) lastLines(ctx context.Context, app string) string {
	if h.c.Lines == nil {
		return ""
	}
	lines, err := h.c.Lines(ctx, app, linesShown)
	if err != nil {
		h.c.Log.WarnContext(ctx, "the log of a crashed app could not be read for its message", "app", app, "error", err)
	}
	if len(lines) == 0 {
		return ""
	}
	for i, line := range lines {
		if len(line) > maxLine {
			lines[i] = strings.ToValidUTF8(line[:maxLine], "") + "…"
		}
	}
	return fmt.Sprintf("The last %d lines of its log:\n\n    %s\n\n", len(lines), strings.Join(lines, "\n    "))
}

func (t *trouble) crashMessage(app, lines string) Message {
	times := "once"
	if t.Count > 1 {
		times = fmt.Sprintf("%d times", t.Count)
	}
	subject := fmt.Sprintf("%s crashed", t.Name)
	if t.Count > 1 {
		subject += " " + times
	}
	return Message{
		Kind: kindCrashed, Subject: subject,
		Text: fmt.Sprintf("The app %s crashed %s, last at %s: %s\n\n%sIt is restarted, with longer pauses while it keeps crashing; "+
			"you are told at most once an hour.\n\nMore of its log: cf logs %s --recent\nIts instances:   cf app %s\nIts events:      cf events %s\n",
			t.Name, times, t.Last.UTC().Format(time.RFC1123), t.Description, lines, t.Name, t.Name, t.Name),
		Key: fmt.Sprintf("crash/%s/%d", app, t.Last.UnixNano()),
	}
}

// recovered says that an app is well again, if it is. done is true when there
// is nothing more to wait for.
func (h *Herald) recovered(ctx context.Context, app string, t *trouble) (done bool, err error) {
	state, err := h.health(ctx, app)
	if err != nil || state == ailing {
		return false, err
	}
	if state == gone {
		return true, nil
	}
	m := Message{
		Kind: kindRecovered, Subject: t.Name + " recovered",
		Text: fmt.Sprintf("All instances of the app %s are running again. It crashed %d times since %s.\n", t.Name, t.Total, t.Began.UTC().Format(time.RFC1123)),
		Key:  fmt.Sprintf("recovered/%s/%d", app, t.Last.UnixNano()),
	}
	if err := h.tell(ctx, t.Space, m); err != nil {
		return false, err
	}
	return true, nil
}

type health int

const (
	ailing health = iota
	well
	gone // deleted or stopped: nothing to recover
)

// health compares the instances that run with those that are wanted.
func (h *Herald) health(ctx context.Context, appGUID string) (state health, err error) {
	err = h.c.Store.View(ctx, func(tx platform.Tx) error {
		state = ailing
		app, err := tx.Apps().Get(appGUID)
		if fault.Is(err, fault.NotFound) || err == nil && app.State == platform.AppStopped {
			state = gone
			return nil
		}
		if err != nil {
			return err
		}
		processes, _, err := tx.Processes().List(platform.Where("app_guid", appGUID))
		if err != nil {
			return err
		}
		wanted := 0
		for _, p := range processes {
			wanted += p.Instances
		}
		running, err := tx.Instances().Count(platform.Where("app_guid", appGUID).And(platform.In("state", string(platform.InstanceRunning))))
		if err == nil && running >= wanted {
			state = well
		}
		return err
	})
	return state, err
}
