package actions

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// Reader reads the members of audiences, in chunks, from a Directory. Users and
// addresses that are named individually need no Directory.
type Reader struct {
	Directory notify.Directory
	Lists     notify.Lists
	// Topics has the topics of Client, which sends.
	Topics notify.Topics
	Client string
	// Channels are those of the send: there is one recipient for each member and channel.
	Channels notify.Channels
	// Page is the number of members per request.
	Page int
	// Near stops before the first audience that needs the Directory.
	Near bool
	// Lenient skips audiences that do not exist and calls Skipped. Otherwise
	// they are errors.
	Lenient bool
	Skipped func(a notify.Audience, err error)
}

// Read returns the members that follow from, at least want of them unless the
// audiences end, the position after them, and whether that is the end. A member
// appears once per chunk, attributed to the last audience that contains it. An
// error is returned alone: members read before it are returned first, without
// it.
func (r Reader) Read(ctx context.Context, audiences []notify.Audience, from notify.Cursor, want int) (
	members []notify.Recipient, to notify.Cursor, done bool, err error) {
	seen := map[notify.Recipient]int{}
	to = from
	for to.Audience < len(audiences) && len(members) < want {
		a := audiences[to.Audience]
		if r.Near && !near(a) {
			break
		}
		page, next, err := r.page(ctx, a, to.Page)
		switch {
		case err == nil:
		case r.Lenient && (fault.Is(err, fault.NotFound) || fault.Is(err, fault.NotAcceptable)):
			if r.Skipped != nil {
				r.Skipped(a, err)
			}
			page, next = nil, ""
		case len(members) > 0:
			return r.Channels.Messages(members), to, false, nil
		default:
			return nil, to, false, err
		}
		for _, m := range page {
			if a.Type != notify.ToList {
				m.Audience = to.Audience
			}
			if m = clean(m); m.UserID == "" && m.Email == "" {
				continue
			}
			key := notify.Recipient{UserID: m.UserID}
			if m.UserID == "" {
				key.Email = strings.ToLower(m.Email)
			}
			if at, ok := seen[key]; ok {
				members[at].Audience = m.Audience
				continue
			}
			seen[key] = len(members)
			members = append(members, m)
		}
		to.Page = next
		if next == "" {
			to.Audience++
		}
	}
	return r.Channels.Messages(members), to, to.Audience >= len(audiences), nil
}

func (r Reader) page(ctx context.Context, a notify.Audience, cursor string) ([]notify.Recipient, string, error) {
	switch a.Type {
	case notify.ToUser:
		return []notify.Recipient{{UserID: a.ID}}, "", nil
	case notify.ToEmail:
		return []notify.Recipient{{Email: a.ID}}, "", nil
	case notify.ToList:
		return listPage(ctx, r.Lists, a.ID, cursor)
	case notify.ToTopic:
		return r.topicPage(ctx, a.ID, cursor)
	}
	return r.Directory.Page(ctx, a, cursor, r.Page)
}

func (r Reader) topicPage(ctx context.Context, name, cursor string) ([]notify.Recipient, string, error) {
	found, err := r.Topics.TopicMembers(ctx, notify.TopicRef{ClientID: r.Client, Name: name}, cursor, r.Page)
	if err != nil {
		return nil, "", NoTopic(err, name)
	}
	members := make([]notify.Recipient, len(found))
	for i, m := range found {
		members[i] = notify.Recipient{UserID: m.UserID, Email: m.Email}
	}
	if len(found) < r.Page {
		return members, "", nil
	}
	return members, found[len(found)-1].ID, nil
}

// NoTopic returns the error for a topic that does not exist.
func NoTopic(err error, name string) error {
	if errors.Is(err, notify.ErrNotFound) {
		return fault.Wrap(err, fault.NotFound, "The topic %q could not be found: declare it with PUT /topics/TOPIC first",
			name)
	}
	return err
}

// clean removes text that no database can store, so that one malformed entry of
// a directory does not prevent the delivery to all others.
func clean(m notify.Recipient) notify.Recipient {
	for _, s := range []*string{&m.UserID, &m.Email} {
		if strings.ContainsRune(*s, 0) || !utf8.ValidString(*s) {
			*s = ""
		}
	}
	return m
}

// near reports whether the members of an audience are known without a
// Directory.
func near(a notify.Audience) bool {
	return a.Type == notify.ToUser || a.Type == notify.ToEmail || a.Type == notify.ToList
}

// listPage returns the recipients of a block of a list, as a page of an audience.
func listPage(ctx context.Context, lists notify.Lists, id, cursor string) ([]notify.Recipient, string, error) {
	position := 0
	if cursor != "" {
		var err error
		if position, err = strconv.Atoi(cursor); err != nil {
			return nil, "", fmt.Errorf("position in a list of recipients: %w", err)
		}
	}
	members, err := lists.ListedMembers(ctx, id, position)
	if err != nil {
		return nil, "", err
	}
	page := make([]notify.Recipient, 0, len(members))
	for i, m := range members {
		if m.UserID == "" && m.Email == "" {
			continue // erased
		}
		page = append(page, notify.Recipient{UserID: m.UserID, Email: m.Email, Audience: position + i})
	}
	if len(members) < notify.ListBlock {
		return page, "", nil
	}
	return page, strconv.Itoa(position + notify.ListBlock), nil
}
