package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type eventRow struct {
	Time        time.Time `json:"time"`
	Event       string    `json:"event"`
	Actor       string    `json:"actor"`
	Description string    `json:"description"`
}

type eventList struct {
	Events []eventRow `json:"events"`
}

func (l *eventList) Show(p *term.Printer) {
	if len(l.Events) == 0 {
		p.Println("No events found.")
		return
	}
	t := term.Table{Heading: []string{"time", "event", "actor", "description"}}
	for _, e := range l.Events {
		t.Rows = append(t.Rows, term.Cells(core.Date(e.Time), e.Event, e.Actor, e.Description))
	}
	p.Println("")
	p.Table(t)
}

// eventFields are the fields of an event that the description shows.
var eventFields = []string{
	"index", "reason", "cell_id", "instance", "exit_description", "exit_status", "recursive", "disk_quota", "instances",
	"memory", "state", "command",
}

func listEvents(ctx context.Context, s *core.Session, w core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Doing("Getting events for app %s", w["APP"])
	app, err := s.App(ctx, w["APP"])
	if err != nil {
		return nil, err
	}
	var page struct {
		Resources []client.Event `json:"resources"`
	}
	q := url.Values{"target_guids": {app.GUID}, "order_by": {"-created_at"}, "per_page": {"50"}}
	if err := s.API.Get(ctx, "/v3/audit_events", q, &page); err != nil {
		return nil, err
	}
	list := &eventList{Events: []eventRow{}}
	for _, e := range page.Resources {
		list.Events = append(list.Events, eventRow{e.CreatedAt, e.Type, e.Actor.Name, describeEvent(e.Data)})
	}
	return list, nil
}

func describeEvent(data map[string]json.RawMessage) string {
	var inner map[string]json.RawMessage
	if json.Unmarshal(data["request"], &inner) == nil && inner != nil {
		data = inner
	}
	var parts []string
	for _, key := range eventFields {
		var value any
		if raw, ok := data[key]; ok && json.Unmarshal(raw, &value) == nil && value != nil {
			parts = append(parts, fmt.Sprintf("%s: %v", key, value))
		}
	}
	return strings.Join(parts, ", ")
}

func eventsCommands() []*core.Command {
	return core.InGroup(core.GroupInspect,
		core.Entry("events", "APP", "Show recent events of an app", core.NeedsSpace, listEvents, "my-app"),
	)
}
