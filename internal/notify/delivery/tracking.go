package delivery

import (
	"ingot/internal/notify"
	"ingot/internal/notify/tracking"
)

// tracks returns what is counted of a message: nothing without the recipient's consent, and nothing of critical kinds,
// which recipients cannot choose anything about.
func (c *contents) tracks(l *message) notify.Tracking {
	if c.o.Marker == nil || c.o.BaseURL == "" || l.Channel != notify.Email || l.Send.Critical || !l.choice.Tracking {
		return 0
	}
	return l.Send.Tracking
}

// marked returns a body with marks in its HTML, which no other recipient gets.
func (c *contents) marked(l *message, body *notify.Body, own bool) (*notify.Body, bool) {
	what := c.tracks(l)
	if what == 0 || body.HTML == "" {
		return body, own
	}
	out := &notify.Body{Subject: body.Subject, Text: body.Text}
	out.HTML = c.o.Marker.HTML(body.HTML, c.o.BaseURL,
		tracking.Mark{Number: l.Number, TemplateID: l.template, Version: l.version}, what)
	return out, true
}
