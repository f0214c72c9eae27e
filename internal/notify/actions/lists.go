package actions

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// listsAtOnce limits the lists that a client sends at the same time: each takes memory until all
// of it was read.
const listsAtOnce = 4

// uploads counts the lists that are being read, by client.
type uploads struct {
	mu sync.Mutex
	of map[string]int
}

// begin counts a list until end is called; false if there are too many.
func (u *uploads) begin(client string) (end func(), ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.of[client] >= listsAtOnce {
		return nil, false
	}
	if u.of == nil {
		u.of = map[string]int{}
	}
	u.of[client]++
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		if u.of[client]--; u.of[client] == 0 {
			delete(u.of, client)
		}
	}, true
}

// sendList stores the members of a request, then accepts it. Without a send, the list is
// deleted again.
func (s *Service) sendList(ctx context.Context, r Request, n notify.NewSend, now time.Time) (receipt Receipt,
	err error) {
	end, ok := s.uploads.begin(r.Client)
	if !ok {
		return Receipt{}, fault.New(fault.RateLimited,
			"The client %q is sending %d lists of recipients already; nothing was sent, try again when one is accepted",
			r.Client, listsAtOnce).After(time.Second)
	}
	defer end()
	id := rand.Text()
	if err := s.o.Store.CreateList(ctx, r.Client, id); err != nil {
		return Receipt{}, fmt.Errorf("begin the list of recipients of a send: %w", err)
	}
	used := false
	defer func() {
		if used {
			return
		}
		// Also when the caller went away.
		if err := s.o.Store.DeleteList(context.WithoutCancel(ctx), id); err != nil {
			s.o.Log.WarnContext(ctx, "the recipients of a refused send were not deleted, which happens later", "error", err)
		}
	}()
	check, err := s.dataCheck(ctx, notify.KindRef{ClientID: r.Client, KindID: r.KindID}, r.Data)
	if err != nil {
		return Receipt{}, err
	}
	added, duplicates, err := s.storeList(ctx, id, r, &n, check)
	if err != nil {
		return Receipt{}, err
	}
	if added == 0 {
		return Receipt{}, fault.Invalid(`"recipients" is empty: name at least one user or email`)
	}
	if r.MembersHash != nil {
		r.Hash = r.MembersHash()
	}
	n.Audiences = []notify.Audience{{Type: notify.ToList, ID: id}}
	n.Planned = added
	receipt, err = s.accept(ctx, r, n, now)
	used = err == nil && !receipt.Replayed
	receipt.Members, receipt.Duplicates = added, duplicates
	return receipt, err
}

// storeList stores the members of a request in blocks. A recipient that is named again is left
// out: no one gets a message twice.
func (s *Service) storeList(ctx context.Context, id string, r Request, of *notify.NewSend,
	check *dataCheck) (added, duplicates int, err error) {
	block := make([]notify.Member, 0, notify.ListBlock)
	seen := map[string]bool{}
	store := func() error {
		if len(block) == 0 {
			return nil
		}
		if err := s.o.Store.AddToList(ctx, r.Client, id, added-len(block), block); err != nil {
			return fmt.Errorf("store the recipients of a send: %w", err)
		}
		block = block[:0]
		return nil
	}
	number := 0
	for m, err := range r.Members {
		if err != nil {
			return 0, 0, err
		}
		number++
		if why := checkMember(m); why != "" {
			return 0, 0, fault.Invalid(fmt.Sprintf("recipient %d %s; nothing was sent", number, why))
		}
		if why := unreachable(m, r.KindID, of.Channels); why != "" {
			if r.Occurrence != nil {
				continue // the kind has lost the channel since; the others get the message
			}
			return 0, 0, fault.Invalid(fmt.Sprintf("recipient %d %s; nothing was sent", number, why))
		}
		if err := check.member(number, m); err != nil {
			return 0, 0, err
		}
		key := strings.ToLower(m.Email)
		if m.UserID != "" {
			key = " " + m.UserID // no address begins with a space
		}
		if seen[key] {
			duplicates++
			continue
		}
		if added == notify.MaxList {
			return 0, 0, fault.Invalid(fmt.Sprintf(
				"the request has more than the %d recipients allowed: send it in several requests; nothing was sent",
				notify.MaxList))
		}
		seen[key] = true
		block = append(block, m)
		if added++; len(block) == notify.ListBlock {
			if err := store(); err != nil {
				return 0, 0, err
			}
		}
	}
	return added, duplicates, store()
}

// unreachable returns why a recipient cannot get messages of a kind with these channels, or "".
func unreachable(m notify.Member, kind string, channels notify.Channels) string {
	if !m.OnlyPhone() || channels.Has(notify.SMS) {
		return ""
	}
	return fmt.Sprintf("has only a phone number, and the kind %q has no channel %s", kind, notify.SMS)
}

// checkMember returns what is wrong with a recipient, or "".
func checkMember(m notify.Member) string {
	switch {
	case (m.UserID == "") == (m.Email == ""):
		return `needs either "user" or "email", or only "phone"`
	case len(m.UserID) > maxAudienceID:
		return fmt.Sprintf("has a user of %d bytes, at most %d are allowed", len(m.UserID), maxAudienceID)
	case m.Email != "" && !m.OnlyPhone() && !notify.UsableAddress(m.Email):
		return fmt.Sprintf("has the email %q, which is not a valid address", m.Email)
	case clean(notify.Recipient{UserID: m.UserID}).UserID != m.UserID:
		return "has a user with characters that cannot be stored"
	}
	if m.Phone != "" && !notify.UsablePhone(m.Phone) {
		return fmt.Sprintf("has the phone %.40q, which is not a number with its country code, such as +4915112345678",
			m.Phone)
	}
	if why := notify.CheckLocale(m.Locale); why != "" {
		return `has a "locale" that ` + why
	}
	if why := notify.CheckData(m.Data, notify.MaxMemberData); why != "" {
		return `has "data" that ` + why
	}
	return ""
}
