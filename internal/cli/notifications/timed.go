package notifications

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// timeFlags are about when to send.
type timeFlags struct {
	At    string `long:"at" value-name:"TIME" description:"When to send, such as 2026-12-24T18:00:00+01:00; an audience is read then"`
	Delay string `long:"delay" value-name:"DURATION" description:"How long to wait before sending, such as 15m or 36h"`
	TTL   string `long:"ttl" value-name:"DURATION" description:"How long to try; what is not delivered then becomes undeliverable"`
}

// sent is a send that was accepted.
type sent struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

func (r *sent) Show(p *term.Printer) {
	p.Pairs([2]string{"send", p.Bold(r.ID)}, [2]string{"status", p.State(r.Status)})
}

// sendTimed sends with what only Ingot's own endpoint has.
func (f *sendFlags) sendTimed(ctx context.Context, s *core.Session, body map[string]any,
	to audience) (core.Result, error) {
	for key, value := range map[string]string{"send_at": f.At, "delay": f.Delay, "ttl": f.TTL} {
		if value != "" {
			body[key] = value
		}
	}
	f.address(body, to)
	out := &sent{}
	if err := f.call(ctx, s, http.MethodPost, "/sends", body, out); err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}

// address sets who gets a send.
func (f *messageFlags) address(body map[string]any, to audience) {
	if f.Email != "" {
		body["recipients"] = []map[string]string{{"email": f.Email}}
		return
	}
	audience := map[string]string{"type": to.kind}
	if to.id != "" {
		audience["id"] = to.id
	}
	if f.Role != "" {
		audience["role"] = f.Role
	}
	body["audience"] = audience
}

// notifications cancel

// canceledSend is a send that was canceled, and how many of its messages.
type canceledSend struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Counts struct {
		Total    int `json:"total"`
		Queued   int `json:"queued"`
		Retry    int `json:"retry"`
		Canceled int `json:"canceled"`
	} `json:"counts"`
}

func (c *canceledSend) Show(p *term.Printer) {
	p.Println(fmt.Sprintf("%d of %d messages were canceled.", c.Counts.Canceled, c.Counts.Total))
	if n := c.Counts.Queued + c.Counts.Retry; n > 0 {
		p.Println(fmt.Sprintf("%d are being delivered at this moment and may still arrive.", n))
	}
}

func cancelSend(ctx context.Context, s *core.Session, w core.Words, f *notifyFlags) (core.Result, error) {
	s.Say("Canceling send %s...", s.Out.Bold(w["SEND"]))
	out := &canceledSend{}
	if err := f.call(ctx, s, http.MethodDelete, "/sends/"+url.PathEscape(w["SEND"]), nil, out); err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}
