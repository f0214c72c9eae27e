package apps

import (
	"encoding/json"
	"testing"
	"time"

	"ingot/internal/base/cfapi"
)

func TestChangedAfterStart(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }
	of := func(minute int, kind, data string) cfapi.Event {
		return cfapi.Event{CreatedAt: at(minute), Type: "audit.app." + kind, Data: json.RawMessage(data)}
	}
	const env, other = `{"request":{"environment_variables":["A"]}}`, `{"request":{"name":"x"}}`
	for name, test := range map[string]struct {
		events, bindings []cfapi.Event
		want             time.Time
	}{
		"nothing":                  {nil, nil, time.Time{}},
		"started":                  {[]cfapi.Event{of(1, "start", "{}")}, nil, time.Time{}},
		"changed before the start": {[]cfapi.Event{of(2, "start", "{}"), of(1, "update", env)}, nil, time.Time{}},
		"changed after the start":  {[]cfapi.Event{of(2, "update", env), of(1, "start", "{}")}, nil, at(2)},
		"changed twice": {[]cfapi.Event{of(3, "update", env), of(2, "update", env), of(1, "restart", "{}")},
			nil, at(3)},
		"another change": {[]cfapi.Event{of(2, "update", other), of(1, "start", "{}")}, nil, time.Time{}},
		"changed, then deployed": {[]cfapi.Event{of(3, "deployment.create", "{}"), of(2, "update", env),
			of(1, "start", "{}")},
			nil, time.Time{}},
		"changed, started long ago": {[]cfapi.Event{of(2, "update", env), of(1, "update", other)}, nil, at(2)},
		"bound after the start":     {[]cfapi.Event{of(1, "start", "{}")}, []cfapi.Event{of(2, "", "")}, at(2)},
		"bound before the start":    {[]cfapi.Event{of(3, "start", "{}")}, []cfapi.Event{of(2, "", "")}, time.Time{}},
		"changed before it was bound": {[]cfapi.Event{of(2, "update", env), of(1, "start", "{}")},
			[]cfapi.Event{of(3, "", "")}, at(2)},
	} {
		if got := changedAfterStart(test.events, test.bindings); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
