package httpext

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"iter"
	"mime"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/tracing"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

const (
	// maxJSON limits a body that is read as a whole, and the first line of one that is not.
	maxJSON = 4 << 20
	// ndjson is the type of bodies with a send in the first line and a recipient in each other.
	ndjson = "application/x-ndjson"

	scopeCritical = "critical_notifications.write"
)

// sendLimits are for a body with as many recipients as a list may have.
var sendLimits = web.Limits{Body: 256 << 20, Read: 10 * time.Minute, Write: 11 * time.Minute}

// newSendBody is a send with data for templates.
type newSendBody struct {
	KindID     string          `json:"kind_id"`
	TemplateID string          `json:"template_id"`
	Subject    string          `json:"subject"`
	Text       string          `json:"text"`
	HTML       string          `json:"html"`
	ReplyTo    string          `json:"reply_to"`
	Thread     string          `json:"thread"`
	Event      *invitationBody `json:"event"`
	Data       json.RawMessage `json:"data"`
	Locale     string          `json:"locale"`
	Audience   *audienceBody   `json:"audience"`
	Recipients []recipientBody `json:"recipients"`
	// SendAt is a time in RFC 3339, Delay a duration from now; at most one is given.
	SendAt string `json:"send_at"`
	Delay  string `json:"delay"`
	// ExpiresAt is a time, TTL a duration from when it is due.
	ExpiresAt string `json:"expires_at"`
	TTL       string `json:"ttl"`

	Attachments []attachmentBody `json:"attachments"`
}

type audienceBody struct {
	Type notify.AudienceType `json:"type"`
	ID   string              `json:"id,omitempty"`
	Role string              `json:"role,omitempty"`
}

type recipientBody struct {
	User   string          `json:"user,omitempty"`
	Email  string          `json:"email,omitempty"`
	Phone  string          `json:"phone,omitempty"`
	Locale string          `json:"locale,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

func (b recipientBody) member() notify.Member {
	m := notify.Member{UserID: b.User, Email: b.Email, Phone: b.Phone, Locale: b.Locale, Data: present(b.Data)}
	if m.UserID == "" && m.Email == "" {
		m.Email = m.Phone
	}
	return m
}

// present returns nil for null.
func present(raw json.RawMessage) json.RawMessage {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// createSend accepts a send with data, to an audience or to recipients that each have more.
func (f *handlers) createSend(w http.ResponseWriter, r *http.Request) error {
	body, members, sum, err := f.readSend(r)
	if err != nil {
		return err
	}
	return f.acceptSend(w, r, body, members, sum)
}

// sendToTopic is createSend with the audience in its path.
func (f *handlers) sendToTopic(w http.ResponseWriter, r *http.Request) error {
	sum := sha256.New()
	body, err := readSendBody(io.TeeReader(r.Body, sum))
	if err != nil {
		return err
	}
	if body.Recipients != nil || body.Audience != nil {
		return fault.Invalid(`the topic in the path is the audience: leave out "recipients" and "audience"`)
	}
	body.Audience = &audienceBody{Type: notify.ToTopic, ID: web.Param(r, "topic")}
	return f.acceptSend(w, r, body, nil, sum)
}

// acceptSend accepts a send to the audience of its body, or to members. sum is the hash of what was read.
func (f *handlers) acceptSend(w http.ResponseWriter, r *http.Request, body newSendBody,
	members iter.Seq2[notify.Member, error], sum hash.Hash) (err error) {
	request := actions.Request{
		Client: client(r), MayCritical: token.FromContext(r.Context()).HasAny(scopeCritical),
		KindID: body.KindID, Template: body.TemplateID, Members: members,
		Content: notify.Content{Subject: body.Subject, Text: body.Text, HTML: body.HTML, ReplyTo: body.ReplyTo,
			Thread: body.Thread},
		Data: present(body.Data), Locale: body.Locale, WithData: true,
		RequestID: r.Header.Get(web.RequestIDHeader), Trace: tracing.Traceparent(r.Context()),
		IdempotencyKey: r.Header.Get("Idempotency-Key"), Async: true,
	}
	if request.Content.Event, err = body.Event.event(body.Subject); err != nil {
		return err
	}
	now := time.Now()
	if request.SendAt, err = timeOf("send_at", body.SendAt, "delay", body.Delay, now); err != nil {
		return err
	}
	due := now
	if request.SendAt.After(now) {
		due = request.SendAt
	}
	if request.ExpiresAt, err = timeOf("expires_at", body.ExpiresAt, "ttl", body.TTL, due); err != nil {
		return err
	}
	fingerprint := func() string { return r.Method + " " + r.URL.Path + " " + hex.EncodeToString(sum.Sum(nil)) }
	if members == nil {
		request.Hash = fingerprint()
		if request.Audiences, err = body.audiences(); err != nil {
			return err
		}
	} else {
		request.MembersHash = fingerprint
		request.Audiences = []notify.Audience{{Type: notify.ToList}}
	}
	if err := f.Service.CheckTemplate(r.Context(), body.TemplateID); err != nil {
		return err
	}
	if request.Attachments, err = f.attachments(r, body.Attachments); err != nil {
		return err
	}
	receipt, err := f.Service.Send(r.Context(), request)
	for name, value := range f.Service.RateLimit(request.Client).Headers() {
		w.Header().Set(name, value)
	}
	if err != nil {
		return err
	}
	if receipt.Replayed {
		w.Header().Set("Idempotent-Replayed", "true")
	}
	id := f.Service.IDs().Send(receipt.Send.Number)
	w.Header().Set("Location", "/sends/"+id)
	out := map[string]any{"id": id, "status": acceptedAs(receipt.Send), "_links": map[string]link{
		"self": {"/sends/" + id}, "messages": {"/messages?send=" + id}}}
	if members != nil && !receipt.Replayed {
		out["recipients"], out["duplicates"] = receipt.Members, receipt.Duplicates
	}
	return web.Answer(w, http.StatusAccepted, out, nil)
}

// acceptedAs returns the status of a send that was accepted.
func acceptedAs(s notify.Send) string {
	if s.Scheduled {
		return "scheduled"
	}
	return "accepted"
}

// readSend reads a send, and the recipients if it names any. sum is the hash of what was read.
func (f *handlers) readSend(r *http.Request) (newSendBody, iter.Seq2[notify.Member, error], hash.Hash, error) {
	sum := sha256.New()
	read := io.TeeReader(r.Body, sum)
	var body newSendBody
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == ndjson {
		lines := bufio.NewScanner(read)
		lines.Buffer(make([]byte, 0, 64<<10), maxJSON)
		if !lines.Scan() {
			return body, nil, nil, lineFault(lines, 1)
		}
		if err := web.DecodeLine(lines.Bytes(), &body); err != nil {
			return body, nil, nil, inLine(err, 1)
		}
		if body.Recipients != nil || body.Audience != nil {
			return body, nil, nil, fault.Invalid(`in ` + ndjson + ` the first line has neither "recipients" nor ` +
				`"audience": each further line is a recipient`)
		}
		return body, memberLines(lines), sum, nil
	}
	body, err := readSendBody(read)
	if err != nil {
		return body, nil, nil, err
	}
	switch {
	case body.Recipients != nil && body.Audience != nil:
		return body, nil, nil, fault.Invalid(`give either "recipients" or "audience", not both`)
	case body.Recipients == nil && body.Audience == nil:
		return body, nil, nil, fault.Invalid(`"recipients" or "audience" is required`)
	case body.Recipients == nil:
		return body, nil, sum, nil
	}
	return body, func(yield func(notify.Member, error) bool) {
		for _, one := range body.Recipients {
			if !yield(one.member(), nil) {
				return
			}
		}
	}, sum, nil
}

// readSendBody reads a send that is a single JSON object.
func readSendBody(from io.Reader) (body newSendBody, err error) {
	raw, err := io.ReadAll(io.LimitReader(from, maxJSON+1))
	if err != nil {
		return body, err
	}
	if len(raw) > maxJSON {
		return body, fault.New(fault.TooLarge,
			"The body is longer than %d bytes: send the recipients as %s, one in each line", maxJSON, ndjson)
	}
	err = web.DecodeLine(raw, &body)
	return body, err
}

// memberLines reads recipients, one per line. Empty lines are skipped.
func memberLines(lines *bufio.Scanner) iter.Seq2[notify.Member, error] {
	return func(yield func(notify.Member, error) bool) {
		number := 1
		for lines.Scan() {
			number++
			if len(lines.Bytes()) == 0 {
				continue
			}
			var one recipientBody
			if err := web.DecodeLine(lines.Bytes(), &one); err != nil {
				yield(notify.Member{}, inLine(err, number))
				return
			}
			if !yield(one.member(), nil) {
				return
			}
		}
		if lines.Err() != nil {
			yield(notify.Member{}, lineFault(lines, number+1))
		}
	}
}

func lineFault(lines *bufio.Scanner, number int) error {
	err := lines.Err()
	switch {
	case errors.Is(err, bufio.ErrTooLong):
		return fault.Wrap(err, fault.TooLarge, "Line %d is longer than %d bytes; nothing was sent", number, maxJSON)
	case err == nil:
		return fault.New(fault.MessageParse, "Request invalid due to parse error: the body is empty")
	}
	return err
}

// inLine adds the line to an error.
func inLine(err error, number int) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return fault.Wrap(err, known.Code, "Line %d: %s; nothing was sent", number, known.Message)
	}
	return fmt.Errorf("line %d: %w", number, err)
}

// audiences checks the audience of a body.
func (b *newSendBody) audiences() ([]notify.Audience, error) {
	a := notify.Audience{Type: b.Audience.Type, ID: b.Audience.ID, Role: b.Audience.Role}
	var problems []string
	switch a.Type {
	case notify.ToUser, notify.ToSpace, notify.ToOrg, notify.ToScope, notify.ToTopic:
		if a.ID == "" {
			problems = append(problems, `"audience.id" is required for this type`)
		}
	case notify.ToEveryone:
		if a.ID != "" {
			problems = append(problems, `"audience.id" must be omitted for everyone`)
		}
	default:
		problems = append(problems,
			`"audience.type" must be "user", "space", "organization", "everyone", "scope" or "topic"; addresses are `+
				`"recipients"`)
	}
	if a.Role != "" && (a.Type != notify.ToOrg || a.Role != "OrgManager" && a.Role != "OrgAuditor" &&
		a.Role != "BillingManager") {
		problems = append(problems, `"audience.role" may be OrgManager, OrgAuditor or BillingManager, of an organization`)
	}
	return []notify.Audience{a}, fault.Invalid(problems...)
}

// timeOf returns a time that is given as such, or as a duration after another; zero if neither is given.
func timeOf(name, at, durationName, duration string, from time.Time) (time.Time, error) {
	switch {
	case at != "" && duration != "":
		return time.Time{}, fault.Invalid(fmt.Sprintf(`give either %q or %q, not both`, name, durationName))
	case at != "":
		parsed, err := time.Parse(time.RFC3339, at)
		if err != nil {
			return parsed, fault.Invalid(fmt.Sprintf(`%q must be a time with a zone, such as 2026-12-24T18:00:00+01:00`, name))
		}
		return parsed, nil
	case duration != "":
		d, err := time.ParseDuration(duration)
		if err != nil || d < 0 {
			return time.Time{}, fault.Invalid(fmt.Sprintf(`%q must be a duration such as 90s, 15m or 36h`, durationName))
		}
		return from.Add(d), nil
	}
	return time.Time{}, nil
}
