package actions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

// OccurrenceRequest returns the request of an occurrence of a recurring send.
func OccurrenceRequest(r *notify.Recurring, now time.Time) Request {
	m := r.Message
	out := Request{
		Client: r.ClientID, MayCritical: m.MayCritical, KindID: m.KindID, Template: m.Template, Content: m.Content,
		Data: m.Data, Locale: m.Locale, WithData: true, Async: true, Holder: m.Holder,
	}
	if m.TTL > 0 {
		out.ExpiresAt = now.Add(m.TTL)
	}
	if m.Audience != nil {
		out.Audiences = []notify.Audience{*m.Audience}
		return out
	}
	out.Audiences = []notify.Audience{{Type: notify.ToList}}
	out.Members = func(yield func(notify.Member, error) bool) {
		for _, one := range m.Members {
			if !yield(one, nil) {
				return
			}
		}
	}
	return out
}

// The scopes that a recurring send needs each time.
const (
	scopeWrite    = "notifications.write"
	scopeCritical = "critical_notifications.write"
)

// stillMay decides what an occurrence may do now: there is no token that would say it.
func (s *Service) stillMay(ctx context.Context, r *Request) error {
	if r.Holder != nil && r.Holder.Erased {
		return fault.New(fault.Forbidden, "The data of the user who set it was erased on request, so nothing was sent: set "+
			"it again, or delete this recurring send")
	}
	if s.o.Rights != nil {
		held, err := s.o.Rights.Held(ctx, r.Client, r.Holder, []string{scopeWrite, scopeCritical})
		if err != nil {
			return err
		}
		if !slices.Contains(held, scopeWrite) {
			return fault.New(fault.Forbidden, "%s no longer has the scope %s, so nothing was sent: grant it again, or delete "+
				"this recurring send", holderName(r), scopeWrite)
		}
		r.MayCritical = r.MayCritical && slices.Contains(held, scopeCritical)
	}
	return s.CheckTemplate(ctx, r.Template)
}

func holderName(r *Request) string {
	if r.Holder != nil && r.Holder.UserID != "" {
		return fmt.Sprintf("The user %q, who set it with the client %q,", r.Holder.UserID, r.Client)
	}
	return fmt.Sprintf("The client %q", r.Client)
}

// CheckTemplate finds out that the template of a request is missing, before it would be replaced by another.
func (s *Service) CheckTemplate(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	t, err := s.o.Store.Template(ctx, id)
	if err == nil && t.Owner != "" {
		err = notify.ErrNotFound // it is a template of campaigns
	}
	if errors.Is(err, notify.ErrNotFound) {
		return fault.Wrap(err, fault.NotFound, "Template with ID %q could not be found", id)
	}
	return err
}

// CheckRecurring returns the error that an occurrence would have if it were due now.
func (s *Service) CheckRecurring(ctx context.Context, r *notify.Recurring) error {
	now := time.Now()
	if err := s.quotas.request(r.ClientID, now); err != nil {
		return err
	}
	if n := len(r.Message.Members); n > notify.MaxRecurringMembers {
		return fault.Invalid(fmt.Sprintf(
			`"recipients" has %d entries, at most %d are allowed in a recurring send: use an audience`, n, notify.MaxRecurringMembers))
	}
	if text, err := json.Marshal(r.Message); err != nil || len(text) > notify.MaxRecurringBytes {
		return fault.Invalid(fmt.Sprintf("a recurring send with its recipients and data may have %d bytes, this one has %d",
			notify.MaxRecurringBytes, len(text)))
	}
	request := OccurrenceRequest(r, now)
	if err := s.check(request, now); err != nil {
		return err
	}
	if err := s.CheckTemplate(ctx, request.Template); err != nil {
		return err
	}
	send := notify.Send{ClientID: r.ClientID}
	if err := s.describe(ctx, request, &send); err != nil {
		return err
	}
	check, err := s.dataCheck(ctx, notify.KindRef{ClientID: request.Client, KindID: request.KindID}, request.Data)
	if err != nil {
		return err
	}
	if request.Members == nil {
		if a := request.Audiences[0]; !near(a) {
			if _, err := s.resolve(ctx, r.ClientID, a); err != nil {
				return err
			}
		}
		return check.all()
	}
	if len(r.Message.Members) == 0 {
		return fault.Invalid(`"recipients" is empty: name at least one user or email`)
	}
	for i, m := range r.Message.Members {
		if why := checkMember(m); why != "" {
			return fault.Invalid(fmt.Sprintf("recipient %d %s", i+1, why))
		}
		if why := unreachable(m, request.KindID, send.Channels); why != "" {
			return fault.Invalid(fmt.Sprintf("recipient %d %s", i+1, why))
		}
		if err := check.member(i+1, m); err != nil {
			return err
		}
	}
	return nil
}
