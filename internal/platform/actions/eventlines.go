package actions

import (
	"encoding/json"
	"fmt"
	"strings"

	"ingot/internal/platform"
)

// eventLines are the lines of an app's log for what is done to the app: the
// [API/0] lines of cf logs. The log store sets their time.
func eventLines(e *platform.AuditEvent) (lines []platform.LogLine) {
	text := ""
	if e.TargetType == "app" {
		text = eventText(e)
	}
	if text == "" {
		return nil
	}
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, platform.LogLine{App: e.TargetGUID, Source: "API", Instance: "0", Text: []byte(line)})
	}
	return lines
}

// eventText returns the line for an event in the app's log; "" for events that are
// logged elsewhere or do not matter to its readers.
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
	case "audit.app.revision.create":
		return "Creating revision for app with guid " + e.TargetGUID
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
