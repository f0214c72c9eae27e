package apps

import (
	"encoding/json"
	"testing"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var processes []process
	text := `[{"guid":"old","process_instances":[{"state":"RUNNING"},{"state":"DOWN"}]},
		{"guid":"new","process_instances":[{"state":"RUNNING"},{"state":"RUNNING"},{"state":"STARTING"},{"state":"RUNNING"}]}]`
	if err := json.Unmarshal([]byte(text), &processes); err != nil {
		t.Fatal(err)
	}
	if got := progress(Deployment{NewProcesses: []newProcess{{"new"}}},
		processes); *got != (rollout{New: 3, Old: 1, Percent: 75}) {
		t.Errorf("%+v", *got)
	}
	if got := progress(Deployment{}, nil); *got != (rollout{}) {
		t.Errorf("without instances: %+v", *got)
	}
}
