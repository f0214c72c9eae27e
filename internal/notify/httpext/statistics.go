package httpext

import (
	"net/http"
	"strconv"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// countedAtMost is how many recipients of an audience are counted.
const countedAtMost = 10_000

// audience returns how many recipients an audience has now, before anything is
// sent to it.
func (f *handlers) audience(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "type", "id", "role")
	if err != nil {
		return err
	}
	a := notify.Audience{Type: notify.AudienceType(q.Get("type")), ID: q.Get("id"), Role: q.Get("role")}
	switch a.Type {
	case notify.ToUser, notify.ToSpace, notify.ToOrg, notify.ToScope, notify.ToTopic, notify.ToEmail:
		if a.ID == "" {
			return fault.New(fault.BadQuery, "An audience of the type %s needs an id.", a.Type)
		}
	case notify.ToEveryone:
	default:
		return fault.New(fault.BadQuery, "type must be user, space, organization, everyone, scope, topic or email.")
	}
	resolved, n, more, err := f.Service.Count(r.Context(), client(r), a, countedAtMost)
	return web.Answer(w, http.StatusOK, map[string]any{"audience": resolved, "recipients": n, "more": more}, err)
}

// Limits of the days of statistics.
const (
	defaultDays = 7
	maxDays     = 31
)

type kindVolume struct {
	ClientID string `json:"client_id"`
	KindID   string `json:"kind_id"`
	Sends    []int  `json:"sends"`
	Messages []int  `json:"messages"`
}

// statistics returns how much of each kind was sent on the last days.
func (f *handlers) statistics(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "days")
	if err != nil {
		return err
	}
	n := defaultDays
	if text := q.Get("days"); text != "" {
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxDays {
			return fault.New(fault.BadQuery, "days must be a number from 1 to %d.", maxDays)
		}
	}
	const day = 24 * time.Hour
	first := time.Now().UTC().Truncate(day).Add(-time.Duration(n-1) * day)
	volumes, err := f.Store.Volumes(r.Context(), first)
	if err != nil {
		return err
	}
	days := make([]string, n)
	for i := range days {
		days[i] = first.Add(time.Duration(i) * day).Format(time.DateOnly)
	}
	kinds, at := []*kindVolume{}, map[notify.KindRef]*kindVolume{}
	for _, v := range volumes {
		ref := notify.KindRef{ClientID: v.ClientID, KindID: v.KindID}
		if at[ref] == nil {
			at[ref] = &kindVolume{v.ClientID, v.KindID, make([]int, n), make([]int, n)}
			kinds = append(kinds, at[ref])
		}
		if i := int(v.Day.Sub(first) / day); i >= 0 && i < n {
			at[ref].Sends[i] += v.Sends
			at[ref].Messages[i] += v.Messages
		}
	}
	return web.Answer(w, http.StatusOK, map[string]any{"days": days, "kinds": kinds}, nil)
}

// mailbox returns the handler of a route of the built-in mailbox.
func (f *handlers) mailbox(method, pattern string) web.Handler {
	if f.Mailbox == nil {
		return func(http.ResponseWriter, *http.Request) error {
			return fault.New(fault.NotFound, "There is no mailbox: mail is sent to a mail server.")
		}
	}
	switch {
	case method == http.MethodDelete:
		return f.Mailbox.ClearJSON
	case pattern == "":
		return f.Mailbox.ListJSON
	case pattern == "/{number}":
		return f.Mailbox.ShowJSON
	default:
		return f.Mailbox.Source
	}
}

// senderDomain returns what receivers find when they check mail of this service.
func (f *handlers) senderDomain(w http.ResponseWriter, r *http.Request) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	if f.CheckDomain == nil {
		return fault.New(fault.NotFound, "This service has no sender's domain.")
	}
	return web.Answer(w, http.StatusOK, f.CheckDomain(r.Context()), nil)
}

// mailState returns what the server that answers knows of the mail servers and of receiving domains.
func (f *handlers) mailState(w http.ResponseWriter, r *http.Request) error {
	if _, err := readQuery(r); err != nil {
		return err
	}
	if f.MailState == nil {
		return fault.New(fault.NotFound, "No mail server is set: mail is kept in the mailbox.")
	}
	return web.Answer(w, http.StatusOK, f.MailState(), nil)
}
