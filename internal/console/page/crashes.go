package page

import (
	"encoding/json"
	"fmt"
	"strings"
)

// The types of events about crashes.
const (
	EventCrash        = "audit.app.process.crash"
	EventSidecarCrash = "app.sidecar.crash"
)

// CrashSentence says what crashed, in words; "" for other events.
func CrashSentence(kind string, d CrashData) string {
	switch {
	case kind == EventSidecarCrash && d.Status != nil:
		return fmt.Sprintf("Sidecar %s of instance %d exited with status %d.", d.Sidecar, d.Index, *d.Status)
	case kind == EventSidecarCrash:
		return fmt.Sprintf("Sidecar %s of instance %d failed.", d.Sidecar, d.Index)
	case kind == EventCrash || kind == "app.crash":
		return strings.TrimSuffix(fmt.Sprintf("Instance %d crashed: %s", d.Index, d.Description), ": ")
	}
	return ""
}

// sentence says in words what an event is about; "" for events without one.
func sentence(kind string, data json.RawMessage) string {
	return CrashSentence(kind, CrashOf(data))
}

// CrashOf reads the data of an event; what is missing is empty.
func CrashOf(data json.RawMessage) CrashData {
	var d CrashData
	_ = json.Unmarshal(data, &d) // what is missing is not said
	return d
}

// CrashData is the data of an event about a crash.
type CrashData struct {
	Index       int    `json:"index"`
	Instance    string `json:"instance"`
	Description string `json:"exit_description"`
	Timestamp   int64  `json:"crash_timestamp"`
	Sidecar     string `json:"sidecar"`
	Status      *int   `json:"exit_status"`
}
