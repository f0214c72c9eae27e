package inbox

import (
	"context"
	"errors"
	"slices"
	"strings"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
	"ingot/internal/notify/template"
)

const (
	// atOnce is the number of notifications per transaction.
	atOnce = 100
	// maxText limits the text of a notification; the rest is cut off.
	maxText = 16 << 10

	ellipsis = "…"
)

// Channel delivers messages to inboxes. It implements notify.Channel.
type Channel struct {
	store notify.Inboxes
	hub   *Hub
}

var _ notify.Channel = (*Channel)(nil)

// NewChannel returns a channel that stores notifications and tells a hub.
func NewChannel(store notify.Inboxes, hub *Hub) *Channel { return &Channel{store, hub} }

// Deliver implements notify.Channel.
func (c *Channel) Deliver(ctx context.Context, batch []notify.Outgoing, done func(i int, r notify.Result)) {
	byClient := map[string][]int{}
	var clients []string
	for i := range batch {
		if why := unusable(batch[i].UserID); why != "" {
			done(i, notify.Result{Verdict: notify.Permanent, Reason: why})
			continue
		}
		id := batch[i].ClientID
		if byClient[id] == nil {
			clients = append(clients, id)
		}
		byClient[id] = append(byClient[id], i)
	}
	for _, id := range clients {
		for part := range slices.Chunk(byClient[id], atOnce) {
			r := c.add(ctx, id, batch, part)
			for _, i := range part {
				done(i, r)
			}
		}
	}
}

// unusable returns why a user cannot have an inbox.
func unusable(user string) string {
	if user == "" {
		return "the recipient has no user, and only users have an inbox"
	}
	return notify.UserProblem(user)
}

// add stores a part of a batch. The result is that of all: they are stored together or not at all.
func (c *Channel) add(ctx context.Context, client string, batch []notify.Outgoing, part []int) notify.Result {
	if err := ctx.Err(); err != nil {
		return notify.Result{Verdict: notify.Temporary, Reason: "not stored: the server was stopping"}
	}
	all := make([]notify.Notification, 0, len(part))
	for _, i := range part {
		all = append(all, notification(&batch[i]))
	}
	// A commit that has begun is not canceled: it would not be known whether it took place.
	err := background.Do("inbox", func() error {
		return c.store.AddNotifications(context.WithoutCancel(ctx), client, all)
	})
	var f *fault.Error
	switch {
	case err == nil:
	case errors.As(err, &f) && f.Code == fault.InsufficientStorage:
		return notify.Result{Verdict: notify.Temporary, Reason: "the client has too much stored: " + f.Message}
	case errors.As(err, &f):
		return notify.Result{Verdict: notify.Permanent, Reason: f.Message}
	default:
		return notify.Result{Verdict: notify.Temporary, Reason: "the database was unavailable"}
	}
	owners := map[notify.Owner]struct{}{}
	for i := range all {
		owners[all[i].Owner] = struct{}{}
	}
	for of := range owners {
		c.hub.Changed(of)
	}
	return notify.Result{Verdict: notify.Accepted}
}

func notification(o *notify.Outgoing) notify.Notification {
	title, text := content(o.Body, o.Unsubscribe)
	return notify.Notification{Number: o.Number, Owner: notify.Owner{ClientID: o.ClientID, UserID: o.UserID},
		KindID: o.KindID, Title: title, Text: text}
}

// content returns what an inbox shows of a body: text, never HTML, which would be another page inside the page of an
// app.
func content(b *notify.Body, unsubscribe string) (title, text string) {
	title, text = template.AsText(b, unsubscribe)
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText-len(ellipsis)], "") + ellipsis
	}
	return title, text
}
