package alerts

import (
	"fmt"
	"strings"

	"ingot/internal/platform"
)

// The notification kinds that the platform registers.
const (
	kindCrashed    = "app-crashed"
	kindRecovered  = "app-recovered"
	kindStaging    = "staging-failed"
	kindDeployment = "deployment-finished"
	kindService    = "service-operation-finished"
)

var kinds = map[string]string{
	kindCrashed:    "An app crashes",
	kindRecovered:  "An app that crashed recovered",
	kindStaging:    "Staging of an app failed",
	kindDeployment: "A deployment of an app finished",
	kindService:    "An operation on a service instance finished",
}

const eventCrash = platform.EventCrash

// messages are the events that become messages, besides crashes.
var messages = map[string]func(*platform.AuditEvent) Message{
	platform.EventBuildFailed: func(e *platform.AuditEvent) Message {
		return Message{
			Kind: kindStaging, Subject: fmt.Sprintf("Staging %s failed", e.TargetName),
			Text: fmt.Sprintf("Staging the app %s failed: %s\n\nWhat the buildpacks printed: cf logs %s --recent\n",
				e.TargetName, text(e.Data["error_message"]), e.TargetName),
		}
	},
	platform.EventDeploymentFinished: func(e *platform.AuditEvent) Message {
		return Message{
			Kind: kindDeployment, Subject: fmt.Sprintf("A deployment of %s finished", e.TargetName),
			Text: fmt.Sprintf("The deployment of the app %s finished: %s.\n", e.TargetName, outcome(text(e.Data["reason"]))),
		}
	},
	platform.EventServiceOperation: serviceOperation,
}

// outcome says in words how a deployment ended.
func outcome(reason string) string {
	switch platform.DeploymentReason(reason) {
	case platform.ReasonDeployed:
		return "the new version runs"
	case platform.ReasonCanceled:
		return "it was canceled, and the previous version runs"
	case platform.ReasonSuperseded:
		return "it was replaced by a newer deployment"
	}
	return strings.ToLower(reason)
}

// operations are the names of operations on service instances.
var operations = map[string]string{"create": "Creating", "update": "Updating", "delete": "Deleting"}

func serviceOperation(e *platform.AuditEvent) Message {
	operation, state := text(e.Data["operation"]), text(e.Data["state"])
	m := Message{Kind: kindService, Subject: fmt.Sprintf("%s the service instance %s %s", operations[operation],
		e.TargetName, state)}
	m.Text = m.Subject + ".\n"
	if why := text(e.Data["description"]); why != "" {
		m.Text += "\nThe service broker says: " + why + "\n"
	}
	if operation != "delete" || state == "failed" { // otherwise there is nothing left to look at
		m.Text += "\nMore: cf service " + e.TargetName + "\n"
	}
	return m
}

func describe(e *platform.AuditEvent) (Message, bool) {
	make, known := messages[e.Type]
	if !known {
		return Message{}, false
	}
	return make(e), true
}

// text returns a value of an event's data, which may be missing.
func text(v any) string {
	if v == nil {
		return ""
	}
	return fmt.Sprint(v)
}
