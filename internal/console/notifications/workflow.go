package notifications

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// kindPage shows how the notifications of a kind travel.
type kindPage struct {
	Client, Kind string
	Steps        []string // in words, in order
	JSON         string   // the workflow; "" if the kind has none
	// Digest and Throttle are how they are collected and limited, in words.
	Digest, Throttle string
	Command, Set     string
}

// kind is GET /console/notifications/clients/CLIENT/kinds/KIND.
func (c pages) kind(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d := &kindPage{Client: web.Param(r, "client"), Kind: web.Param(r, "kind")}
	d.Command = page.Command("ingot", "notifications", "workflow", d.Kind, "--client", d.Client)
	d.Set = page.Command("ingot", "notifications", "workflow", d.Kind, "--set", "@workflow.json", "--client", d.Client)
	var answer struct {
		Workflow    json.RawMessage
		Description []string
	}
	if err := c.Notifications(r, s).Get(&answer, "/kinds/"+url.PathEscape(d.Kind)+"/workflow",
		url.Values{"client_id": {d.Client}}); err != nil {
		return err
	}
	d.Steps = answer.Description
	for name, text := range map[string]*string{"digest": &d.Digest, "throttle": &d.Throttle} {
		var rule struct{ Description string }
		if err := c.Notifications(r, s).Get(&rule, "/kinds/"+url.PathEscape(d.Kind)+"/"+name,
			url.Values{"client_id": {d.Client}}); err != nil {
			return err
		}
		*text = rule.Description
	}
	if string(answer.Workflow) != "null" {
		d.JSON = page.Indented(answer.Workflow)
	}
	return c.showNotifications(w, r, s, http.StatusOK, "kind.html", "Kinds", page.Page{Title: "Kind " + d.Kind, Data: d})
}

// event is an entry of a notification's timeline.
type event struct {
	At      time.Time `json:"at"`
	Event   string    `json:"event"`
	Channel string    `json:"channel"`
	Message string    `json:"message_id"`
	Attempt int       `json:"attempt"`
	Reason  string    `json:"reason"`
}

// words says what happened.
func (e event) words() string { return strings.ReplaceAll(e.Event, "_", " ") }

// timelineOf returns what became of a notification on all channels of its recipient.
func timelineOf(call *page.Caller, message string) ([]event, error) {
	var answer struct{ Events []event }
	err := call.Get(&answer, "/messages/"+url.PathEscape(message)+"/timeline", nil)
	return answer.Events, err
}
