package notifications

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// recipientFlags name a recipient.
type recipientFlags struct {
	notifyFlags
	User  string `long:"user" value-name:"ID" description:"Guid of the user"`
	Email string `long:"email" value-name:"ADDRESS" description:"Address of the recipient"`
	Phone string `long:"phone" value-name:"NUMBER" description:"Phone number of a recipient who has nothing else: +4915112345678"`
	All   bool   `long:"all-clients" description:"Of all clients, not only your own; requires the scope notifications.admin"`
}

func (f *recipientFlags) named() error {
	if f.User == "" && f.Email == "" && f.Phone == "" {
		return core.UsageError("--user, --email or both are required, or --phone")
	}
	return nil
}

// name is how messages name the recipient.
func (f *recipientFlags) name() string {
	switch {
	case f.User != "" && f.Email != "":
		return f.User + " (" + f.Email + ")"
	case f.User != "":
		return f.User
	}
	return cmp.Or(f.Email, f.Phone)
}

// fields returns the names of the recipient and the client in requests.
func (f *recipientFlags) fields() map[string]string {
	all := map[string]string{}
	for key, value := range map[string]string{"user_id": f.User, "email": f.Email, "phone": f.Phone} {
		if value != "" {
			all[key] = value
		}
	}
	if f.All {
		f.administers()
		all["client_id"] = "*"
	}
	return all
}

func (f *recipientFlags) query() url.Values {
	q := url.Values{}
	for key, value := range f.fields() {
		q.Set(key, value)
	}
	return q
}

// notifications recipient-data

// recipientData is everything that is stored about a recipient. JSON output is what the service sent.
type recipientData struct {
	raw          json.RawMessage
	Suppressions []struct {
		Email  string
		Source string
		Reason string
	}
	Quiet        []*quietHours `json:"quiet_hours"`
	Unsubscribed []struct {
		ClientID string `json:"client_id"`
		KindID   string `json:"kind_id"`
		Type     string `json:"campaign_type_id"`
		All      bool   `json:"everything"`
		Channels []string
	}
	Lists     []struct{}
	Scheduled []struct{ Subject string }
	Inbox     []struct{ Title string }
	Browsers  []struct{ Label string } `json:"push_subscriptions"`
	Topics    []struct {
		ClientID   string `json:"client_id"`
		Topic      string
		Subscribed bool
	}
	Messages []struct {
		Received time.Time `json:"received_at"`
		ClientID string    `json:"client_id"`
		KindID   string    `json:"kind_id"`
		Status   string
		Subject  string
	}
}

// MarshalJSON returns all of it.
func (d *recipientData) MarshalJSON() ([]byte, error) { return d.raw, nil }

// Show prints what there is, and the messages.
func (d *recipientData) Show(p *term.Printer) {
	for _, one := range []struct {
		what string
		n    int
	}{{"messages", len(d.Messages)}, {"inbox notifications", len(d.Inbox)}, {"scheduled sends", len(d.Scheduled)},
		{"entries in lists of recipients", len(d.Lists)}, {"browsers that get push", len(d.Browsers)},
		{"topics", len(d.Topics)}, {"subscriptions canceled", len(d.Unsubscribed)}} {
		p.Println(fmt.Sprintf("%-31s %d", one.what+":", one.n))
	}
	for _, s := range d.Suppressions {
		p.Println(fmt.Sprintf("suppressed: %s (%s) %s", s.Email, s.Source, s.Reason))
	}
	for _, q := range d.Quiet {
		p.Println("quiet hours: " + q.String())
	}
	for _, t := range d.Topics {
		if t.Subscribed {
			p.Println("subscribed to the topic " + t.ClientID + "/" + t.Topic)
		} else {
			p.Println("left the topic " + t.ClientID + "/" + t.Topic)
		}
	}
	for _, u := range d.Unsubscribed {
		by := ""
		if len(u.Channels) > 0 {
			by = " by " + strings.Join(u.Channels, ", ")
		}
		switch {
		case u.All:
			p.Println("unsubscribed from everything")
		case u.Type != "":
			p.Println("unsubscribed from the campaign type " + u.Type + by)
		default:
			p.Println("unsubscribed from " + u.ClientID + "/" + u.KindID + by)
		}
	}
	if len(d.Messages) == 0 {
		return
	}
	p.Println("")
	table := term.Table{Heading: []string{"received", "client", "kind", "status", "subject"}}
	for _, m := range d.Messages {
		table.Rows = append(table.Rows, term.Cells(m.Received.UTC().Format(time.RFC3339), m.ClientID, m.KindID,
			m.Status, m.Subject))
	}
	p.Table(table)
}

func showRecipient(ctx context.Context, s *core.Session, _ core.Words, f *recipientFlags) (core.Result, error) {
	if err := f.named(); err != nil {
		return nil, err
	}
	s.Say("Getting what is stored about %s...", s.Out.Bold(f.name()))
	d := &recipientData{}
	if err := f.call(ctx, s, http.MethodGet, "/recipient_data?"+f.query().Encode(), nil, &d.raw); err != nil {
		return nil, err
	}
	return d, json.Unmarshal(d.raw, &struct{ *recipientData }{d})
}

// notifications erase-recipient

type eraseFlags struct {
	recipientFlags
	Force bool `short:"f" long:"force" description:"Do not ask for confirmation"`
}

// erased is what was erased of a recipient.
type erased struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Erased struct {
		Messages      int `json:"messages"`
		Canceled      int `json:"canceled"`
		Contents      int `json:"contents"`
		Listed        int `json:"list_entries"`
		Notifications int `json:"inbox_notifications"`
		Calls         int `json:"webhook_calls"`
		Browsers      int `json:"push_subscriptions"`
		Topics        int `json:"topics"`
	} `json:"erased"`
	Kept struct {
		Unsubscribed int `json:"unsubscribed"`
		Suppressions int `json:"suppressions"`
	} `json:"kept_as_hash"`
}

// Show prints what was erased and what stays.
func (e *erased) Show(p *term.Printer) {
	n := e.Erased
	p.Println(fmt.Sprintf("Erased: messages: %d (not out yet: %d), contents: %d, list entries: %d, "+
		"inbox notifications: %d, browsers: %d, topics: %d", n.Messages, n.Canceled, n.Contents, n.Listed, n.Notifications,
		n.Browsers, n.Topics))
	if k := e.Kept; k.Unsubscribed+k.Suppressions > 0 {
		p.Println(fmt.Sprintf("Kept as hashes, so that they stay in effect: canceled subscriptions: %d, suppressed "+
			"addresses: %d", k.Unsubscribed, k.Suppressions))
	}
	if e.Status != "finished" {
		p.Println("Some messages are being delivered at this moment; the server erases them as soon as they are out.")
	}
}

func eraseRecipient(ctx context.Context, s *core.Session, _ core.Words, f *eraseFlags) (core.Result, error) {
	if err := f.named(); err != nil {
		return nil, err
	}
	if err := s.Confirm(ctx, f.Force, "Really erase everything that is stored about "+f.name()); err != nil {
		return nil, err
	}
	s.Say("Erasing what is stored about %s...", s.Out.Bold(f.name()))
	out := &erased{}
	if err := f.call(ctx, s, http.MethodPost, "/erasures", f.fields(), out); err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}

// notifications messages

type messagesFlags struct {
	recipientFlags
	Kind    string `long:"kind" value-name:"ID" description:"Only messages of this kind"`
	Channel string `long:"channel" value-name:"NAME" description:"Only messages on this channel: email, inbox, webhook, chat, sms or push"`
	Status  string `long:"status" value-name:"STATUS" description:"Only messages with this status, such as failed"`
	Since   string `long:"since" value-name:"TIME" description:"Only messages that changed at this time or later, as 2026-11-18T12:00:00Z"`
	Before  string `long:"before" value-name:"TIME" description:"Only messages that changed before this time"`
	Limit   int    `long:"limit" value-name:"N" default:"50" description:"At most so many, up to 1000"`
}

type messageRow struct {
	ID       string    `json:"id"`
	SendID   string    `json:"send_id"`
	Status   string    `json:"status"`
	UserID   string    `json:"user_id,omitempty"`
	Email    string    `json:"email,omitempty"`
	Phone    string    `json:"phone,omitempty"`
	Channel  string    `json:"channel,omitempty"`
	Attempts int       `json:"attempts"`
	Updated  time.Time `json:"updated_at"`
	Reason   string    `json:"reason,omitempty"`
}

func findMessages(ctx context.Context, s *core.Session, _ core.Words, f *messagesFlags) (core.Result, error) {
	q := f.query()
	for key, value := range map[string]string{"kind_id": f.Kind, "channel": f.Channel, "status": f.Status,
		"since": f.Since, "before": f.Before, "limit": strconv.Itoa(f.Limit)} {
		if value != "" {
			q.Set(key, value)
		}
	}
	s.Say("Getting messages...")
	var found struct{ Messages []messageRow }
	if err := f.call(ctx, s, http.MethodGet, "/messages?"+q.Encode(), nil, &found); err != nil {
		return nil, err
	}
	return &core.Listing[messageRow]{Key: "messages", None: "No messages found.", Paint: core.Plain,
		Heading: []string{"updated", "status", "recipient", "channel", "id", "reason"}, Rows: found.Messages,
		Cells: func(m messageRow) []string {
			to, channel := m.UserID, m.Channel
			if address := cmp.Or(m.Email, m.Phone); address != "" {
				to = address
			}
			if channel == "" {
				channel = "email"
			}
			return []string{m.Updated.UTC().Format(time.RFC3339), m.Status, to, channel, m.ID, m.Reason}
		}}, nil
}
