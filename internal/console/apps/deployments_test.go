package apps

import (
	"encoding/json"
	"testing"

	"ingot/internal/base/cfapi"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	var processes []cfapi.Process
	text := `[{"guid":"old","process_instances":[{"state":"RUNNING"},{"state":"DOWN"}]},
		{"guid":"new","process_instances":[{"state":"RUNNING"},{"state":"RUNNING"},{"state":"STARTING"},{"state":"RUNNING"}]}]`
	if err := json.Unmarshal([]byte(text), &processes); err != nil {
		t.Fatal(err)
	}
	if got := progress(cfapi.Deployment{NewProcesses: []cfapi.GUID{{GUID: "new"}}},
		processes); *got != (rollout{New: 3, Old: 1, Percent: 75}) {
		t.Errorf("%+v", *got)
	}
	if got := progress(cfapi.Deployment{}, nil); *got != (rollout{}) {
		t.Errorf("without instances: %+v", *got)
	}
}
