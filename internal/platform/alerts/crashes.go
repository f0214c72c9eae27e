package alerts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/crashlines"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// crashingApp is an app that crashes, with all its instances together.
type crashingApp struct {
	Name        string    `json:"name"`
	Space       string    `json:"space"`
	Began       time.Time `json:"began"`
	Last        time.Time `json:"last"`
	Count       int       `json:"count"` // since the last message
	Total       int       `json:"total"`
	Description string    `json:"description"`
	Notified    time.Time `json:"told"` // zero until the first message
}

func (a *Alerter) crashed(e *platform.AuditEvent) {
	t := a.at.Crashing[e.TargetGUID]
	if t == nil {
		t = &crashingApp{Name: e.TargetName, Space: e.SpaceGUID, Began: e.Created}
		a.at.Crashing[e.TargetGUID] = t
	}
	t.Last, t.Description = e.Created, text(e.Data["exit_description"])
	t.Count++
	t.Total++
}

// reportCrashes sends the messages that are due about crashing apps.
func (a *Alerter) reportCrashes(ctx context.Context) error {
	now := a.c.Now()
	var failed error
	for app, t := range a.at.Crashing {
		switch {
		case t.Notified.IsZero() && now.Sub(t.Began) >= a.c.Settle, t.Count > 0 && !t.Notified.IsZero() &&
			now.Sub(t.Notified) >= a.c.Quiet:
			if err := a.notifyDevelopers(ctx, t.Space, subject{"app", app, t.Name},
				t.crashMessage(app, a.lastLines(ctx, app))); err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			t.Notified, t.Count = now, 0
			a.at.dirty = true
		case !t.Notified.IsZero() && now.Sub(t.Last) >= a.c.Well:
			done, err := a.recovered(ctx, app, t)
			if err != nil {
				failed = errors.Join(failed, err)
			}
			if done {
				delete(a.at.Crashing, app)
				a.at.dirty = true
			}
		}
	}
	return failed
}

// linesRead is how many log lines are searched for those of a crash message.
const linesRead = 200

// maxLine limits each of these lines, in bytes.
const maxLine = 500

// lastLines returns the end of an app's log for a message. If the log cannot be read, the
// message is sent without it.
func (a *Alerter) lastLines(ctx context.Context, app string) string {
	if a.c.Lines == nil {
		return ""
	}
	newest, err := a.c.Lines(ctx, app, linesRead)
	if err != nil {
		a.c.Log.WarnContext(ctx, "reading the log of a crashed app failed", "app", app, "error", err)
	}
	if len(newest) == 0 {
		return ""
	}
	slices.Reverse(newest)
	newest, cause := explaining(newest)
	lines := make([]string, 0, len(newest))
	for _, l := range newest {
		line := fmt.Sprintf("%s [%s/%s] %s", l.Time.UTC().Format("15:04:05.00"), l.Source, l.Instance, l.Text)
		if len(line) > maxLine {
			line = strings.ToValidUTF8(line[:maxLine], "") + "…"
		}
		lines = append(lines, line)
	}
	if cause != "" {
		cause = "The error: " + cause + "\n\n"
	}
	return fmt.Sprintf("%sThe last %d lines of its log:\n\n    %s\n\n", cause, len(lines), strings.Join(lines, "\n    "))
}

// explaining returns the lines that the instance wrote that crashed last, and the one that
// names the error, if it is recognised. Without such lines it returns the last ones of all.
func explaining(all []platform.LogLine) ([]platform.LogLine, string) {
	var own []platform.LogLine
	var texts []string
	for _, l := range slices.Backward(all) {
		if strings.HasPrefix(l.Source, "APP/") && (len(own) == 0 || l.Instance == own[0].Instance) {
			own, texts = append(own, l), append(texts, string(l.Text))
		}
	}
	slices.Reverse(own)
	slices.Reverse(texts)
	begin, end, cause := crashlines.Explain(texts)
	if begin == end {
		return all[max(0, len(all)-crashlines.Most):], ""
	}
	if len(cause) > maxLine {
		cause = strings.ToValidUTF8(cause[:maxLine], "") + "…"
	}
	return own[begin:end], cause
}

func (t *crashingApp) crashMessage(app, lines string) Message {
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
		Text: fmt.Sprintf("The app %s crashed %s, last at %s: %s\n\n%sIt is restarted, with longer pauses while it keeps "+
			"crashing; "+
			"you are told at most once an hour.\n\nMore of its log: cf logs %s --recent\nIts instances:   cf app %s\nIts "+
			"events:      cf events %s\n",
			t.Name, times, t.Last.UTC().Format(time.RFC1123), t.Description, lines, t.Name, t.Name, t.Name),
		Key: fmt.Sprintf("crash/%s/%d", app, t.Last.UnixNano()),
	}
}

// recovered reports the recovery of an app. done is true when there is nothing more to wait
// for.
func (a *Alerter) recovered(ctx context.Context, app string, t *crashingApp) (done bool, err error) {
	state, err := a.health(ctx, app)
	if err != nil || state == unhealthy {
		return false, err
	}
	if state == gone {
		return true, nil
	}
	m := Message{
		Kind: kindRecovered, Subject: t.Name + " recovered",
		Text: fmt.Sprintf("All instances of the app %s are running again. It crashed %d times since %s.\n", t.Name, t.Total,
			t.Began.UTC().Format(time.RFC1123)),
		Key: fmt.Sprintf("recovered/%s/%d", app, t.Last.UnixNano()),
	}
	if err := a.notifyDevelopers(ctx, t.Space, subject{"app", app, t.Name}, m); err != nil {
		return false, err
	}
	return true, nil
}

type health int

const (
	unhealthy health = iota
	healthy
	gone // deleted or stopped: nothing to recover
)

// health compares the running instances with the wanted ones.
func (a *Alerter) health(ctx context.Context, appGUID string) (state health, err error) {
	err = a.c.Store.View(ctx, func(tx platform.Tx) error {
		state = unhealthy
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
		running, err := tx.Instances().Count(platform.Where("app_guid", appGUID).
			And(platform.In("state", string(platform.InstanceRunning))))
		if err == nil && running >= wanted {
			state = healthy
		}
		return err
	})
	return state, err
}
