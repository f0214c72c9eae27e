package actions

import (
	"slices"
	"testing"

	"ingot/internal/platform"
)

func TestEventLines(t *testing.T) {
	t.Parallel()
	app := Target{GUID: "app-guid", Type: "app"}
	for _, test := range []struct {
		kind   string
		target Target
		data   map[string]any
		want   []string
	}{
		{"audit.app.create", app, nil, []string{"Created app with guid app-guid"}},
		{"audit.app.create", Target{GUID: "app-guid", Type: "space"}, nil, nil},
		{"audit.app.update", app, map[string]any{"request": map[string]any{"name": "b"}},
			[]string{`Updated app with guid app-guid ({"name":"b"})`}},
		{"audit.app.droplet.mapped", app, nil, []string{"Updated app with guid app-guid ({})"}},
		{"audit.app.apply_manifest", app, map[string]any{"warnings": []string{"one", "two"}},
			[]string{"Applied manifest to app with guid app-guid", "WARNING: one", "WARNING: two"}},
		{"audit.app.start", app, nil, []string{"Starting app with guid app-guid"}},
		{"audit.app.stop", app, nil, []string{"Stopping app with guid app-guid"}},
		{"audit.app.restart", app, nil, []string{"Restarted app with guid app-guid"}},
		{"audit.app.process.scale", app, map[string]any{"process_type": "web"}, []string{`Scaling process: "web"`}},
		{"audit.app.process.update", app, map[string]any{"process_type": "web"}, []string{`Updating process: "web"`}},
		{"audit.app.build.create", app, nil, []string{"Creating build for app with guid app-guid"}},
		{"audit.app.ssh-authorized", app, nil, nil},
	} {
		var got []string
		tx := &recordingTx{}
		if err := New().Record(tx, test.kind, Actor{}, test.target, test.data); err != nil {
			t.Fatal(err)
		}
		for _, line := range tx.changes.Lines {
			got = append(got, string(line.Text))
			if line.App != "app-guid" || line.Source != "API" || line.Instance != "0" || line.Stderr {
				t.Errorf("%s: got %+v, want a line [API/0] of app-guid", test.kind, line)
			}
		}
		if !slices.Equal(got, test.want) || tx.events != 1 {
			t.Errorf("%s: announced %q and wrote %d events, want %q and 1", test.kind, got, tx.events, test.want)
		}
	}
}

// recordingTx takes audit events and announcements.
type recordingTx struct {
	platform.Tx
	changes platform.Changes
	events  int
}

func (x *recordingTx) Announce(c platform.Changes) { x.changes.Add(c) }

func (x *recordingTx) AuditEvents() platform.Repo[platform.AuditEvent] { return recordedEvents{tx: x} }

type recordedEvents struct {
	platform.Repo[platform.AuditEvent]
	tx *recordingTx
}

func (r recordedEvents) Insert(*platform.AuditEvent) error {
	r.tx.events++
	return nil
}
