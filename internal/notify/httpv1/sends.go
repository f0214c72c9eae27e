package httpv1

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/mail"
	"strings"
	"time"

	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// sendBody is the body of every send. Unknown fields are ignored with a warning,
// because existing clients send more than is used.
type sendBody struct {
	KindID  string `json:"kind_id"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	HTML    string `json:"html"`
	ReplyTo string `json:"reply_to"`
	To      string `json:"to"`
	Role    string `json:"role"`
}

var roles = map[string]bool{"": true, "OrgManager": true, "OrgAuditor": true, "BillingManager": true}

// check returns the problems that are visible in the body alone.
func (b *sendBody) check(to notify.AudienceType) []string {
	var problems []string
	if to == notify.ToEmail {
		switch {
		case b.To == "":
			problems = append(problems, `"to" is a required field`)
		case address(b.To) == "":
			problems = append(problems, `"to" is improperly formatted`)
		}
	} else {
		switch {
		case b.KindID == "":
			problems = append(problems, `"kind_id" is a required field`)
		case !kindForm().MatchString(b.KindID):
			problems = append(problems, `"kind_id" is improperly formatted`)
		}
	}
	if strings.TrimSpace(b.Text) == "" && strings.TrimSpace(b.HTML) == "" {
		problems = append(problems, `"text" or "html" fields must be supplied`)
	}
	if !roles[b.Role] {
		problems = append(problems, `"role" must be "OrgManager", "OrgAuditor", "BillingManager" or unset`)
	}
	return problems
}

// address returns the address in "a@b" or "Name <a@b>", and "" for anything
// else, including a list of addresses.
func address(text string) string {
	if strings.ContainsAny(text, "\r\n\x00") {
		return ""
	}
	parsed, err := mail.ParseAddress(text)
	if err != nil {
		return ""
	}
	return parsed.Address
}

// send returns the handler for one type of audience.
func (f *handlers) send(to notify.AudienceType) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		clientID, err := clientOf(r)
		if err != nil {
			return err
		}
		raw, err := readBody(r)
		if err != nil {
			return err
		}
		var body sendBody
		if len(bytes.TrimSpace(raw)) > 0 && !onlyKnown(raw, &body) {
			body = sendBody{}
			web.WarnUnknown(w, actions.WarningsHeader, raw, body)
			if err := parse(raw, &body); err != nil {
				return err
			}
		}
		if err := invalid(body.check(to), ","); err != nil {
			return err
		}
		audience := notify.Audience{Type: to, ID: web.Param(r, "id")}
		switch to {
		case notify.ToEmail:
			audience.ID = address(body.To)
		case notify.ToOrg:
			audience.Role = body.Role
		}
		request := actions.Request{
			Client:         clientID,
			MayCritical:    caller(r).HasAny(scopeCritical),
			KindID:         body.KindID,
			Audiences:      []notify.Audience{audience},
			Content:        notify.Content{Subject: body.Subject, Text: body.Text, HTML: body.HTML, ReplyTo: body.ReplyTo},
			RequestID:      r.Header.Get(web.RequestIDHeader),
			Trace:          tracing.Traceparent(r.Context()),
			IdempotencyKey: r.Header.Get("Idempotency-Key"),
			Async:          prefersAsync(r),
		}
		if request.IdempotencyKey != "" {
			request.Hash = actions.RequestHash(r.Method, r.URL.Path, raw)
		}
		receipt, err := f.Service.Send(r.Context(), request)
		for name, value := range f.Service.RateLimit(clientID).Headers() {
			w.Header().Set(name, value)
		}
		if err != nil {
			return err
		}
		if receipt.Replayed {
			w.Header().Set("Idempotent-Replayed", "true")
		}
		if request.Async {
			return f.accepted(w, receipt)
		}
		return f.list(w, r, receipt.Send)
	}
}

// onlyKnown decodes a body that is valid and has no unknown fields, as nearly all are: one pass instead
// of two.
func onlyKnown(raw []byte, v any) bool {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if d.Decode(v) != nil {
		return false
	}
	_, err := d.Token()
	return errors.Is(err, io.EOF) // nothing follows
}

// prefersAsync reports whether the Prefer header (RFC 7240) asks for an
// asynchronous response.
func prefersAsync(r *http.Request) bool {
	for _, line := range r.Header.Values("Prefer") {
		for _, preference := range strings.Split(line, ",") {
			token, _, _ := strings.Cut(preference, ";")
			if strings.EqualFold(strings.TrimSpace(token), "respond-async") {
				return true
			}
		}
	}
	return false
}

// accepted responds before the audience is read: the send can be followed at
// its own URL.
func (f *handlers) accepted(w http.ResponseWriter, receipt actions.Receipt) error {
	id := f.Service.IDs().Send(receipt.Send.Number)
	h := w.Header()
	h.Set("Location", "/sends/"+id)
	h.Set("Preference-Applied", "respond-async")
	web.WriteJSON(w, http.StatusAccepted, map[string]any{"id": id, "status": "accepted",
		"_links": map[string]any{"self": map[string]string{"href": "/sends/" + id}}})
	return nil
}

type queued struct {
	Status         string `json:"status"`
	Recipient      string `json:"recipient"`
	NotificationID string `json:"notification_id"`
	RequestID      string `json:"vcap_request_id"`
}

// list responds with one entry per recipient. For a large audience, the entries
// are written while it is being read, so that neither side holds all of it.
func (f *handlers) list(w http.ResponseWriter, r *http.Request, s notify.Send) error {
	entry := func(number int64, recipient string) queued {
		return queued{string(notify.Queued), recipient, f.Service.IDs().Message(number), s.RequestID}
	}
	if a := s.Audiences[0]; len(s.Audiences) == 1 && (a.Type == notify.ToUser || a.Type == notify.ToEmail) {
		// The only recipient is known.
		return web.Answer(w, http.StatusOK, []queued{entry(notify.MessageNumber(s.Number, 0), a.ID)}, nil)
	}
	stream := &arrayWriter{w: w}
	err := f.Service.Messages(r.Context(), s.Number, func(m notify.Message) error {
		if m.Channel != s.Channels.Primary() {
			return nil // one entry for each recipient, as ever
		}
		recipient := m.UserID
		if recipient == "" {
			recipient = m.Email
		}
		if m.Channel == notify.Chat { // which has neither
			recipient = m.Channel.String()
		}
		return stream.add(entry(m.Number, recipient))
	})
	if err != nil && !stream.begun {
		return err
	}
	if err != nil {
		// The status is already sent. The truncated list is not valid JSON, so
		// that the client does not take it for complete.
		f.Log.WarnContext(r.Context(), "response to a send was cut off, the send continues", "send", f.Service.IDs().
			Send(s.Number), slog.Any("error", err))
		panic(http.ErrAbortHandler)
	}
	return stream.end()
}

// arrayWriter writes a JSON array element by element.
type arrayWriter struct {
	w       http.ResponseWriter
	begun   bool
	encoder *json.Encoder
}

func (a *arrayWriter) begin(opening string) error {
	h := a.w.Header()
	h.Set("Content-Type", "application/json; charset=utf-8")
	h.Set("X-Content-Type-Options", "nosniff")
	// The whole response may take longer than usual.
	_ = http.NewResponseController(a.w).SetWriteDeadline(noDeadline)
	a.begun = true
	a.encoder = json.NewEncoder(a.w)
	_, err := io.WriteString(a.w, opening)
	return err
}

func (a *arrayWriter) add(v any) error {
	if !a.begun {
		if err := a.begin("["); err != nil {
			return err
		}
	} else if _, err := io.WriteString(a.w, ","); err != nil {
		return err
	}
	return a.encoder.Encode(v)
}

func (a *arrayWriter) end() error {
	if !a.begun {
		if err := a.begin("["); err != nil {
			return nil //nolint:nilerr // the client went away
		}
	}
	_, _ = io.WriteString(a.w, "]\n")
	return nil
}

// message returns the status of a message to the client that sent it.
func (f *handlers) message(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "id")
	missing := func(err error) error { return orMissing(err, "Message with ID %q could not be found", id) }
	number, ok := f.Service.IDs().MessageNumber(id)
	if !ok {
		return missing(notify.ErrNotFound)
	}
	m, owner, err := f.Store.Message(r.Context(), number)
	if err != nil {
		return missing(err)
	}
	clientID, err := clientOf(r)
	if err != nil {
		return err
	}
	if owner != clientID {
		return missing(errors.Join(notify.ErrNotFound, errors.New("it belongs to another client")))
	}
	if m, err = notify.Followed(r.Context(), f.Store, m); err != nil {
		return err
	}
	status := m.Status
	switch status { // this version has four words
	case notify.Retry:
		status = notify.Queued
	case notify.Unsubscribed, notify.Canceled, notify.Skipped, notify.Digested,
		notify.Throttled:
		status = notify.Undeliverable
	}
	return web.Answer(w, http.StatusOK, map[string]string{"status": string(status)}, nil)
}

// noDeadline removes a deadline.
var noDeadline time.Time
