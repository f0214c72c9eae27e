package apps

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/core"
)

type eventRow struct {
	Time        time.Time `json:"time"`
	Event       string    `json:"event"`
	Actor       string    `json:"actor"`
	Description string    `json:"description"`
}

// eventFields are the fields of an event that the description shows.
var eventFields = []string{
	"index", "reason", "cell_id", "instance", "exit_description", "exit_status", "recursive", "disk_quota", "instances",
	"memory", "state", "command",
}

func listEvents(ctx context.Context, s *core.Session, app cfapi.App, _ *core.NoFlags) (core.Result, error) {
	var page struct {
		Resources []cfapi.Event `json:"resources"`
	}
	q := url.Values{"target_guids": {app.GUID}, "order_by": {"-created_at"}, "per_page": {"50"}}
	if err := s.API.Get(ctx, "/v3/audit_events", q, &page); err != nil {
		return nil, err
	}
	list := &core.Listing[eventRow]{
		Key: "events", Heading: []string{"time", "event", "actor", "description"}, Paint: core.Plain,
		Cells: func(e eventRow) []string { return []string{core.Date(e.Time), e.Event, e.Actor, e.Description} },
	}
	for _, e := range page.Resources {
		list.Rows = append(list.Rows, eventRow{e.CreatedAt, e.Type, e.Actor.Name, describeEvent(e.Data)})
	}
	return list, nil
}

func describeEvent(raw json.RawMessage) string {
	var data, inner map[string]json.RawMessage
	_ = json.Unmarshal(raw, &data) // an event without an object has no fields
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
		core.Entry("events", "APP", "Show recent events of an app", core.NeedsSpace, core.OnApp("Getting events for app %s",
			listEvents), "my-app"),
	)
}
