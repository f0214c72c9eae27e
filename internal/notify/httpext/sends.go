package httpext

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

const (
	pageSize    = 50
	maxPageSize = 1000
)

type sendBody struct {
	ID             string             `json:"id"`
	ClientID       string             `json:"client_id"`
	Status         string             `json:"status"` // "scheduled", "expanding", "sending", "completed" or "canceled"
	KindID         string             `json:"kind_id,omitempty"`
	CampaignTypeID string             `json:"campaign_type_id,omitempty"`
	Audiences      []notify.Audience  `json:"audiences"`
	Subject        string             `json:"subject"`
	Thread         string             `json:"thread,omitempty"`
	Event          *notify.Invitation `json:"event,omitempty"`
	Received       time.Time          `json:"received_at"`
	SendAt         *time.Time         `json:"send_at,omitempty"`
	ExpiresAt      *time.Time         `json:"expires_at,omitempty"`
	Canceled       *time.Time         `json:"canceled_at,omitempty"`
	Finished       *time.Time         `json:"completed_at"`
	Counts         countsBody         `json:"counts"`
	Entries        int                `json:"digest_entries,omitempty"` // of a digest
	Links          map[string]link    `json:"_links"`

	Attachments []attachedBody `json:"attachments,omitempty"`
}

type countsBody struct {
	Total         int `json:"total"`
	Queued        int `json:"queued"`
	Retry         int `json:"retry"`
	Delivered     int `json:"delivered"`
	Failed        int `json:"failed"`
	Undeliverable int `json:"undeliverable"`
	Unsubscribed  int `json:"unsubscribed"`
	Canceled      int `json:"canceled"`
	Skipped       int `json:"skipped"`
	Digested      int `json:"digested"`
	Throttled     int `json:"throttled"`
}

type link struct {
	Href string `json:"href"`
}

func (f *handlers) presentSend(s notify.Send) sendBody {
	id, c := f.Service.IDs().Send(s.Number), s.Counts
	out := sendBody{
		ID: id, ClientID: s.ClientID, Status: "expanding", KindID: s.KindID, CampaignTypeID: s.CampaignTypeID,
		Audiences: s.Audiences,
		Subject:   s.Content.Subject, Received: s.Received,
		Counts: countsBody{c.Total, c.Queued, c.Retry, c.Delivered, c.Failed, c.Undeliverable, c.Unsubscribed,
			c.Canceled, c.Skipped, c.Digested, c.Throttled},
		Links: map[string]link{"self": {"/sends/" + id}, "messages": {"/messages?send=" + id}},
	}
	out.Attachments, out.Thread, out.Event = presentAttachments(s.Attachments), s.Content.Thread, s.Content.Event
	if out.Audiences == nil { // the digest of a chat
		out.Audiences = []notify.Audience{}
	}
	if s.Digest != nil {
		out.Entries = s.Digest.Count
	}
	if !s.SendAt.IsZero() {
		out.SendAt = &s.SendAt
	}
	if !s.ExpiresAt.IsZero() {
		out.ExpiresAt = &s.ExpiresAt
	}
	if s.Scheduled {
		out.Status = "scheduled"
	}
	if s.Expanded {
		out.Status = "sending"
		if c.Done() >= c.Total {
			out.Status = "completed"
		}
	}
	if !s.Canceled.IsZero() {
		out.Status, out.Canceled = "canceled", &s.Canceled
	}
	if !s.Finished.IsZero() {
		out.Finished = &s.Finished
	}
	return out
}

// administers reports whether the caller may see what all clients sent.
func administers(r *http.Request) bool { return token.FromContext(r.Context()).HasAny(scopeAdmin) }

// owner returns the client whose sends the caller wants to see: its own, or for
// administrators another one, or all.
func owner(r *http.Request, q url.Values) (clientID string, all bool, err error) {
	return ownerOf(r, q.Get("client_id"))
}

func ownerOf(r *http.Request, id string) (clientID string, all bool, err error) {
	switch {
	case id == "" || id == client(r):
		return client(r), false, nil
	case !administers(r):
		return "", false, fault.New(fault.Forbidden, "Reading what other clients sent requires the scope %s.", scopeAdmin)
	default:
		return id, id == everyClient, nil
	}
}

// everyClient stands for all clients in client_id.
const everyClient = "*"

// findSend returns one of the caller's sends, or for administrators any.
func (f *handlers) findSend(r *http.Request, id string) (notify.Send, error) {
	number, ok := f.Service.IDs().SendNumber(id)
	if !ok {
		return notify.Send{}, missing(notify.ErrNotFound, "Send", id)
	}
	s, err := f.Store.Send(r.Context(), number)
	if err == nil && s.ClientID != client(r) && !administers(r) {
		err = notify.ErrNotFound
	}
	return s, missing(err, "Send", id)
}

func (f *handlers) showSend(w http.ResponseWriter, r *http.Request) error {
	s, err := f.findSend(r, web.Param(r, "send"))
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusOK, f.presentSend(s), nil)
}

// cancelSend cancels what is not out yet.
func (f *handlers) cancelSend(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "send")
	s, err := f.findSend(r, id)
	if err != nil {
		return err
	}
	if s, err = f.Store.Cancel(r.Context(), s.Number); err != nil {
		return missing(err, "Send", id)
	}
	return web.Answer(w, http.StatusOK, f.presentSend(s), nil)
}

func (f *handlers) listSends(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "client_id", "limit", "after")
	if err != nil {
		return err
	}
	var query notify.SendQuery
	if query.ClientID, query.All, err = owner(r, q); err != nil {
		return err
	}
	if id := q.Get("after"); id != "" {
		s, err := f.findSend(r, id)
		if err != nil {
			return err
		}
		query.Before = s.Number
	}
	if query.Limit, err = limitOf(q); err != nil {
		return err
	}
	list, err := f.Store.ListSends(r.Context(), query)
	if err != nil {
		return err
	}
	return writePage(w, r, "sends", list, f.presentSend, query.Limit, func(s sendBody) string { return s.ID })
}

// writePage responds with a page of a list, and the address of the next one.
func writePage[T, B any](w http.ResponseWriter, r *http.Request, name string, list []T, present func(T) B,
	limit int, idOf func(B) string,
) error {
	out := make([]B, 0, len(list))
	for _, item := range list {
		out = append(out, present(item))
	}
	links := map[string]link{"self": {r.URL.RequestURI()}}
	if len(out) == limit {
		links["next"] = link{next(r.URL, idOf(out[len(out)-1]))}
	}
	return web.Answer(w, http.StatusOK, map[string]any{name: out, "_links": links}, nil)
}

// next returns the URL of the page after the one that ends with id.
func next(here *url.URL, id string) string {
	q := here.Query()
	q.Set("after", id)
	return here.Path + "?" + q.Encode()
}

// readQuery rejects unknown parameters: a misspelled filter must not return
// everything.
func readQuery(r *http.Request, known ...string) (url.Values, error) {
	q := r.URL.Query()
	for name := range q {
		found := false
		for _, k := range known {
			found = found || k == name
		}
		if !found {
			return nil, fault.New(fault.BadQuery, "Unknown query parameter %q.", name)
		}
	}
	return q, nil
}

func limitOf(q url.Values) (int, error) {
	text := q.Get("limit")
	if text == "" {
		return pageSize, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > maxPageSize {
		return 0, fault.New(fault.BadQuery, "limit must be a number from 1 to %d.", maxPageSize)
	}
	return n, nil
}

type messageBody struct {
	ID       string        `json:"id"`
	SendID   string        `json:"send_id"`
	Status   notify.Status `json:"status"`
	UserID   string        `json:"user_id,omitempty"`
	Email    string        `json:"email,omitempty"`
	Phone    string        `json:"phone,omitempty"`   // of a recipient who has nothing else
	Channel  string        `json:"channel,omitempty"` // unless it is email
	Attempts int           `json:"attempts"`
	Next     *time.Time    `json:"next_attempt_at"`
	Updated  time.Time     `json:"updated_at"`
	Reason   string        `json:"reason,omitempty"`
	// Digest is the id of the digest's message that it became part of; Collected, that it waits for one.
	Digest    string          `json:"digest_id,omitempty"`
	Collected bool            `json:"collected,omitempty"`
	Parked    bool            `json:"parked"`
	Links     map[string]link `json:"_links"`
}

func (f *handlers) presentMessage(m notify.Message) messageBody {
	ids := f.Service.IDs()
	id, send := ids.Message(m.Number), ids.Send(notify.SendOf(m.Number))
	out := messageBody{
		ID: id, SendID: send, Status: m.Status, UserID: m.UserID, Email: m.Email, Attempts: m.Attempts,
		Updated: m.Updated, Reason: m.Reason, Parked: m.Parked,
		Links: map[string]link{"status": {"/messages/" + id}, "send": {"/sends/" + send}},
	}
	if m.UserID == "" && notify.UsablePhone(m.Email) {
		out.Email, out.Phone = "", m.Email
	}
	out.Collected = m.Collected
	if m.Digest != 0 {
		out.Digest = ids.Message(m.Digest)
	}
	if m.Channel != notify.Email {
		out.Channel = m.Channel.String()
	}
	if !m.Status.Final() && !m.Due.IsZero() {
		out.Next = &m.Due
	}
	if m.Status == notify.Failed {
		out.Links["replay"] = link{"/messages/" + id + "/replay"}
	}
	return out
}

// listMessages searches the caller's own messages, or for administrators those
// of other clients.
func (f *handlers) listMessages(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "client_id", "id", "send", "status", "parked", "user_id", "email", "kind_id", "channel",
		"since", "before", "limit", "after")
	if err != nil {
		return err
	}
	if q.Has("id") {
		return f.oneMessage(w, r, q.Get("id"))
	}
	query, err := f.messageQuery(r, q)
	if err != nil {
		return err
	}
	if kind := exportType(r); kind != "" {
		return f.exportMessages(w, r, query, kind, q.Has("limit"))
	}
	list, err := f.Store.FindMessages(r.Context(), query)
	if err != nil {
		return err
	}
	return writePage(w, r, "messages", list, f.presentMessage, query.Limit, func(m messageBody) string { return m.ID })
}

// oneMessage returns a list of the message with an id.
func (f *handlers) oneMessage(w http.ResponseWriter, r *http.Request, id string) error {
	m, _, err := f.findMessage(r, id)
	if err != nil {
		return err
	}
	return writePage(w, r, "messages", []notify.Message{m}, f.presentMessage, 0, nil)
}

// findMessage returns one of the caller's messages, or for administrators any,
// and the client that sent it.
func (f *handlers) findMessage(r *http.Request, id string) (notify.Message, string, error) {
	number, ok := f.Service.IDs().MessageNumber(id)
	if !ok {
		return notify.Message{}, "", missing(notify.ErrNotFound, "Message", id)
	}
	m, owner, err := f.Store.Message(r.Context(), number)
	if err == nil && owner != client(r) && !administers(r) {
		err = notify.ErrNotFound
	}
	return m, owner, missing(err, "Message", id)
}

func (f *handlers) messageQuery(r *http.Request, q url.Values) (notify.MessageQuery, error) {
	query := notify.MessageQuery{
		Status: notify.Status(q.Get("status")),
		UserID: q.Get("user_id"), Email: q.Get("email"), KindID: q.Get("kind_id"),
	}
	var err error
	if query.ClientID, query.All, err = owner(r, q); err != nil {
		return query, err
	}
	if query.Limit, err = limitOf(q); err != nil {
		return query, err
	}
	if id := q.Get("send"); id != "" {
		s, err := f.findSend(r, id)
		if err != nil {
			return query, err
		}
		query.Send, query.ClientID, query.All = s.Number, s.ClientID, false
	}
	switch query.Status {
	case "", notify.Queued, notify.Retry, notify.Delivered, notify.Failed, notify.Undeliverable, notify.Unsubscribed,
		notify.Canceled, notify.Skipped, notify.Digested, notify.Throttled:
	default:
		return query, fault.New(fault.BadQuery,
			"status must be queued, retry, delivered, failed, undeliverable, unsubscribed, canceled, skipped, "+
				"digested or throttled.")
	}
	if name := q.Get("channel"); name != "" {
		channels, err := notify.ParseChannels([]string{name})
		if err != nil {
			return query, fault.Wrap(err, fault.BadQuery, "channel must be one of %s.", notify.ChannelNames())
		}
		query.Channel, query.OnChannel = channels.Primary(), true
	}
	if text := q.Get("parked"); text != "" {
		if query.Parked, err = strconv.ParseBool(text); err != nil {
			return query, fault.New(fault.BadQuery, "parked must be true or false.")
		}
	}
	for name, into := range map[string]*time.Time{"since": &query.Since, "before": &query.Before} {
		if text := q.Get(name); text != "" {
			if *into, err = time.Parse(time.RFC3339, text); err != nil {
				return query, fault.New(fault.BadQuery, "%s must be a time such as 2006-01-02T15:04:05Z.", name)
			}
		}
	}
	if id := q.Get("after"); id != "" {
		number, ok := f.Service.IDs().MessageNumber(id)
		if !ok {
			return query, fault.New(fault.BadQuery, "after must be the id of a message.")
		}
		query.After = number
	}
	return query, nil
}

// replay queues a failed message again.
func (f *handlers) replay(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "message")
	m, owner, err := f.findMessage(r, id)
	if err != nil {
		return err
	}
	err = f.Store.Replay(r.Context(), owner, m.Number)
	if errors.Is(err, notify.ErrConflict) {
		return fault.Wrap(err, fault.Conflict, "Only a failed message can be replayed.")
	}
	if err != nil {
		return missing(err, "Message", id)
	}
	f.Kick()
	return web.Answer(w, http.StatusAccepted, map[string]string{"status": string(notify.Queued)}, nil)
}
