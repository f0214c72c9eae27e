package system

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/logs"
)

// toldStore writes a line into an app's log for what is done to the app, as
// its audit events say, once that is stored: the [API/0] lines of cf logs.
type toldStore struct {
	platform.Store
	to  *logs.Store
	log *slog.Logger
}

// Update runs f and tells of the events it recorded.
func (s toldStore) Update(ctx context.Context, f func(platform.Tx) error) error {
	var told []*platform.AuditEvent
	err := s.Store.Update(ctx, func(tx platform.Tx) error {
		told = nil // f may run again
		return f(toldTx{tx, &told})
	})
	if err != nil {
		return err
	}
	var lines []platform.LogLine
	now := time.Now()
	for _, e := range told {
		if text := eventText(e); text != "" {
			for line := range strings.SplitSeq(text, "\n") {
				lines = append(lines, platform.LogLine{App: e.TargetGUID, Time: now, Source: "API", Instance: "0", Text: []byte(line)})
			}
		}
	}
	if len(lines) > 0 {
		if err := s.to.Tell(lines...); err != nil {
			s.log.WarnContext(ctx, "what was done to an app could not be written to its log", "error", err)
		}
	}
	return nil
}

type toldTx struct {
	platform.Tx
	told *[]*platform.AuditEvent
}

func (t toldTx) AuditEvents() platform.Repo[platform.AuditEvent] {
	return toldEvents{t.Tx.AuditEvents(), t.told}
}

type toldEvents struct {
	platform.Repo[platform.AuditEvent]
	told *[]*platform.AuditEvent
}

func (r toldEvents) Insert(e *platform.AuditEvent) error {
	err := r.Repo.Insert(e)
	if err == nil && e.TargetType == "app" {
		*r.told = append(*r.told, e)
	}
	return err
}

// eventText says in a line what an event is about; "" for events that are told
// elsewhere or matter to nobody who reads the log.
func eventText(e *platform.AuditEvent) string {
	switch e.Type {
	case "audit.app.create":
		return "Created app with guid " + e.TargetGUID
	case "audit.app.update":
		return "Updated app with guid " + e.TargetGUID + " (" + requestText(e) + ")"
	case "audit.app.apply_manifest":
		text := "Applied manifest to app with guid " + e.TargetGUID
		warnings, _ := e.Data["warnings"].([]string)
		for _, w := range warnings {
			text += "\nWARNING: " + w
		}
		return text
	case "audit.app.start":
		return "Starting app with guid " + e.TargetGUID
	case "audit.app.stop":
		return "Stopping app with guid " + e.TargetGUID
	case "audit.app.restart":
		return "Restarted app with guid " + e.TargetGUID
	case "audit.app.process.scale":
		return fmt.Sprintf("Scaling process: %q", e.Data["process_type"])
	case "audit.app.process.update":
		return fmt.Sprintf("Updating process: %q", e.Data["process_type"])
	case "audit.app.build.create":
		return "Creating build for app with guid " + e.TargetGUID
	case "audit.app.droplet.mapped":
		return "Updated app with guid " + e.TargetGUID + " (" + requestText(e) + ")"
	}
	return ""
}

// requestText is what was asked for. Values that may be secret are not in the
// event to begin with.
func requestText(e *platform.AuditEvent) string {
	text, err := json.Marshal(e.Data["request"])
	if err != nil || string(text) == "null" {
		return "{}"
	}
	return string(text)
}
