package page

import (
	"encoding/json"
	"testing"
)

func TestCrashSentence(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"type":"app.sidecar.crash","data":{"index":1,"sidecar":"HELPER","exit_status":137}}`:              "Sidecar HELPER of instance 1 exited with status 137.",
		`{"type":"app.sidecar.crash","data":{"index":1,"sidecar":"HELPER"}}`:                                "Sidecar HELPER of instance 1 failed.",
		`{"type":"audit.app.process.crash","data":{"index":0,"exit_description":"Exited with status 3"}}`:   "Instance 0 crashed: Exited with status 3",
		`{"type":"app.crash","data":{"index":0}}`:                                                           "Instance 0 crashed",
		`{"type":"audit.app.update","data":{"index":0,"exit_description":"x"}}`:                             "",
		`{"type":"app.sidecar.crash","data":"not what it should be"}`:                                       "Sidecar  of instance 0 failed.",
		`{"type":"app.sidecar.crash","data":{"index":0,"sidecar":"<b>","exit_status":1,"instance":"some"}}`: "Sidecar <b> of instance 0 exited with status 1.",
	} {
		var e struct {
			Type string
			Data json.RawMessage
		}
		if err := json.Unmarshal([]byte(raw), &e); err != nil {
			t.Fatal(err)
		}
		if got := sentence(e.Type, e.Data); got != want {
			t.Errorf("%s: %q, want %q", raw, got, want)
		}
	}
}
