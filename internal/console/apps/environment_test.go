package apps

import (
	"encoding/json"
	"testing"
	"time"
)

func TestChangedAfterStart(t *testing.T) {
	t.Parallel()
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC) }
	of := func(minute int, kind, data string) event {
		return event{CreatedAt: at(minute), Type: "audit.app." + kind, Data: json.RawMessage(data)}
	}
	const env, other = `{"request":{"environment_variables":["A"]}}`, `{"request":{"name":"x"}}`
	for name, test := range map[string]struct {
		events, bindings []event
		want             time.Time
	}{
		"nothing":                  {nil, nil, time.Time{}},
		"started":                  {[]event{of(1, "start", "{}")}, nil, time.Time{}},
		"changed before the start": {[]event{of(2, "start", "{}"), of(1, "update", env)}, nil, time.Time{}},
		"changed after the start":  {[]event{of(2, "update", env), of(1, "start", "{}")}, nil, at(2)},
		"changed twice": {[]event{of(3, "update", env), of(2, "update", env), of(1, "restart", "{}")},
			nil, at(3)},
		"another change": {[]event{of(2, "update", other), of(1, "start", "{}")}, nil, time.Time{}},
		"changed, then deployed": {[]event{of(3, "deployment.create", "{}"), of(2, "update", env), of(1, "start", "{}")},
			nil, time.Time{}},
		"changed, started long ago":   {[]event{of(2, "update", env), of(1, "update", other)}, nil, at(2)},
		"bound after the start":       {[]event{of(1, "start", "{}")}, []event{of(2, "", "")}, at(2)},
		"bound before the start":      {[]event{of(3, "start", "{}")}, []event{of(2, "", "")}, time.Time{}},
		"changed before it was bound": {[]event{of(2, "update", env), of(1, "start", "{}")}, []event{of(3, "", "")}, at(2)},
	} {
		if got := changedAfterStart(test.events, test.bindings); !got.Equal(test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
