package httpext

import (
	"encoding/json"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// registerWorkflows adds the routes that say how the notifications of a kind travel, and what became of one.
func (f *handlers) registerWorkflows(g *web.Group) {
	manager := web.Scope(scopeManage)
	g.Handle("GET", "/kinds/{kind}/workflow", web.Scope(scopeManage, scopeAdmin),
		f.showOfKind(func(k *notify.Kind) any { return presentWorkflow(k) }))
	g.Handle("PUT", "/kinds/{kind}/workflow", manager, f.setWorkflow)
	g.Handle("DELETE", "/kinds/{kind}/workflow", manager, f.deleteWorkflow)
	g.Handle("GET", "/messages/{message}/timeline", web.Scope(scopeWrite, scopeEmails, scopeAdmin), f.timeline)
}

// workflowBody has the workflow, nil for a kind that has none, and in words what happens to a notification.
type workflowBody struct {
	Workflow    *notify.Workflow `json:"workflow"`
	Description []string         `json:"description"`
}

func presentWorkflow(k *notify.Kind) workflowBody {
	out := workflowBody{Workflow: k.Workflow, Description: []string{}}
	steps := []notify.Step{}
	if k.Workflow != nil {
		steps = k.Workflow.Steps
	} else {
		for _, id := range k.Channels.List() {
			steps = append(steps, notify.Step{Channel: id})
		}
	}
	for _, s := range steps {
		out.Description = append(out.Description, s.String())
	}
	return out
}

// setWorkflow sets the workflow of later sends.
func (f *handlers) setWorkflow(w http.ResponseWriter, r *http.Request) error {
	var body json.RawMessage
	if err := web.DecodeJSON(r, &body); err != nil {
		return err
	}
	made, err := notify.ParseWorkflow(body)
	if err != nil {
		return err
	}
	ref := kindOf(r)
	if _, err := f.Store.Kind(r.Context(), ref); err != nil {
		return missing(err, "Notification", ref.KindID)
	}
	if err := f.lacking(r, made.Channels()); err != nil {
		return err
	}
	err = f.Store.SetWorkflow(r.Context(), ref, made)
	return web.Answer(w, http.StatusOK, presentWorkflow(&notify.Kind{Workflow: made}),
		missing(err, "Notification", ref.KindID))
}

// deleteWorkflow gives the kind the channels back that it had before.
func (f *handlers) deleteWorkflow(w http.ResponseWriter, r *http.Request) error {
	ref := kindOf(r)
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.SetWorkflow(r.Context(), ref, nil), "Notification", ref.KindID))
}

// withoutWorkflow returns an error if the channels of a kind are set by its workflow.
func (f *handlers) withoutWorkflow(r *http.Request, ref notify.KindRef) error {
	if ref.ClientID == "" { // a campaign type
		return nil
	}
	k, err := f.Store.Kind(r.Context(), ref)
	if err == nil && k.Workflow != nil {
		return fault.New(fault.Conflict, "The kind %q has a workflow, which sets its channels: change that with "+
			"PUT /kinds/%s/workflow, or delete it first", ref.KindID, ref.KindID)
	}
	return missing(err, "Notification", ref.KindID)
}

type timelineBody struct {
	SendID   string           `json:"send_id"`
	KindID   string           `json:"kind_id,omitempty"`
	Subject  string           `json:"subject"`
	Workflow *notify.Workflow `json:"workflow"`
	Events   []eventBody      `json:"events"`
}

type eventBody struct {
	At        time.Time        `json:"at"`
	Event     notify.EventName `json:"event"`
	Channel   string           `json:"channel,omitempty"`
	MessageID string           `json:"message_id,omitempty"`
	Attempt   int              `json:"attempt,omitempty"`
	Reason    string           `json:"reason,omitempty"`
}

// timeline shows all that became of a notification of one recipient, on all channels.
func (f *handlers) timeline(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "message")
	m, _, err := f.findMessage(r, id)
	if err != nil {
		return err
	}
	t, err := f.Store.Timeline(r.Context(), m.Number)
	if err != nil {
		return missing(err, "Message", id)
	}
	out := timelineBody{SendID: f.Service.IDs().Send(t.Send.Number), KindID: t.Send.KindID,
		Subject: t.Send.Content.Subject, Workflow: t.Send.Workflow}
	for _, e := range t.Events() {
		shown := eventBody{At: e.At.UTC(), Event: e.Name, Attempt: e.Attempt, Reason: e.Reason}
		if e.Message != 0 {
			shown.Channel, shown.MessageID = e.Channel.String(), f.Service.IDs().Message(e.Message)
		}
		out.Events = append(out.Events, shown)
	}
	return web.Answer(w, http.StatusOK, out, nil)
}
