package httpext

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/recurring"
)

// registerRecurring adds the routes of sends that are repeated.
func (f *handlers) registerRecurring(g *web.Group) {
	reader, writer := web.Scope(scopeWrite, scopeAdmin), web.Scope(scopeWrite)
	g.Handle("GET", "/recurring_sends", reader, f.listRecurring)
	g.Handle("GET", "/recurring_sends/{name}", reader, f.showRecurring)
	g.Handle("PUT", "/recurring_sends/{name}", writer, f.setRecurring)
	g.Handle("DELETE", "/recurring_sends/{name}", reader, f.deleteRecurring)
	g.Handle("POST", "/recurring_sends/{name}/pause", reader, f.pauseRecurring)
	g.Handle("POST", "/recurring_sends/{name}/resume", reader, f.resumeRecurring)
}

const (
	nextTimes   = 5
	maxInterval = 366 * 24 * time.Hour
)

// recurringName matches the names of recurring sends, which clients choose, so that creating one can be repeated.
var recurringName = pattern.OnUse(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

type recurringBody struct {
	Name     string      `json:"name"`
	ClientID string      `json:"client_id"`
	Status   string      `json:"status"`
	Cron     string      `json:"cron"`
	Zone     string      `json:"zone"`
	Starts   *time.Time  `json:"starts_at,omitempty"`
	Ends     *time.Time  `json:"ends_at,omitempty"`
	Count    int         `json:"count,omitempty"`
	Next     []time.Time `json:"next_times"`
	Runs     int         `json:"runs"`
	Failures int         `json:"failures"`
	LastDue  *time.Time  `json:"last_due_at,omitempty"`
	LastRun  *time.Time  `json:"last_run_at,omitempty"`
	LastSend string      `json:"last_send_id,omitempty"`
	Problem  string      `json:"problem,omitempty"`
	KindID   string      `json:"kind_id"`
	Subject  string      `json:"subject"`
	Created  time.Time   `json:"created_at"`
	Updated  time.Time   `json:"updated_at"`
	// Send is what each occurrence sends; lists do not have it.
	Send  *recurringSend  `json:"send,omitempty"`
	Links map[string]link `json:"_links"`
}

// recurringSend is what POST /sends takes, without what is about time.
type recurringSend struct {
	KindID     string          `json:"kind_id"`
	TemplateID string          `json:"template_id,omitempty"`
	Subject    string          `json:"subject,omitempty"`
	Text       string          `json:"text,omitempty"`
	HTML       string          `json:"html,omitempty"`
	ReplyTo    string          `json:"reply_to,omitempty"`
	Thread     string          `json:"thread,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Locale     string          `json:"locale,omitempty"`
	Audience   *audienceBody   `json:"audience,omitempty"`
	Recipients []recipientBody `json:"recipients,omitempty"`
	TTL        string          `json:"ttl,omitempty"`
}

// newRecurring is the body that creates or replaces one.
type newRecurring struct {
	Cron   string        `json:"cron"`
	Zone   string        `json:"zone"`
	Starts string        `json:"starts_at"`
	Ends   string        `json:"ends_at"`
	Count  int           `json:"count"`
	Send   recurringSend `json:"send"`
}

func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func (f *handlers) presentRecurring(r notify.Recurring) recurringBody {
	self := "/recurring_sends/" + url.PathEscape(r.Name)
	out := recurringBody{
		Name: r.Name, ClientID: r.ClientID, Status: string(r.State), Cron: r.Cron, Zone: r.Zone,
		Starts: optionalTime(r.Starts), Ends: optionalTime(r.Ends), Count: r.Count, Next: []time.Time{}, Runs: r.Runs,
		Failures: r.Failures, LastDue: optionalTime(r.LastDue), LastRun: optionalTime(r.LastRun), Problem: r.Problem,
		KindID: r.Message.KindID, Subject: r.Message.Content.Subject, Created: r.Created.UTC(), Updated: r.Updated.UTC(),
		Links: map[string]link{"self": {self}},
	}
	out.Next = append(out.Next, recurring.Times(&r, nextTimes)...)
	if r.LastSend != 0 {
		out.LastSend = f.Service.IDs().Send(r.LastSend)
		out.Links["last_send"] = link{"/sends/" + out.LastSend}
	}
	return out
}

func (f *handlers) presentWholeRecurring(r notify.Recurring) recurringBody {
	out, m := f.presentRecurring(r), r.Message
	s := &recurringSend{KindID: m.KindID, TemplateID: m.Template, Subject: m.Content.Subject, Text: m.Content.Text,
		HTML: m.Content.HTML, ReplyTo: m.Content.ReplyTo, Thread: m.Content.Thread, Data: m.Data, Locale: m.Locale}
	if m.TTL > 0 {
		s.TTL = m.TTL.String()
	}
	if a := m.Audience; a != nil {
		s.Audience = &audienceBody{a.Type, a.ID, a.Role}
	}
	for _, to := range m.Members {
		s.Recipients = append(s.Recipients, recipientBody{to.UserID, to.Address(), to.Phone, to.Locale, to.Data})
	}
	out.Send = s
	return out
}

func (f *handlers) listRecurring(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "client_id", "limit", "after")
	if err != nil {
		return err
	}
	var query notify.RecurringQuery
	if query.ClientID, query.All, err = owner(r, q); err != nil {
		return err
	}
	query.After = notify.RecurringRef{ClientID: query.ClientID, Name: q.Get("after")}
	idOf := func(b recurringBody) string { return b.Name }
	if query.All {
		// Names are unique within a client; no client's id has a line break.
		if query.After, err = splitRecurring(q.Get("after")); err != nil {
			return err
		}
		idOf = func(b recurringBody) string { return b.ClientID + "\n" + b.Name }
	}
	if query.Limit, err = limitOf(q); err != nil {
		return err
	}
	list, err := f.Store.ListRecurring(r.Context(), query)
	if err != nil {
		return err
	}
	return writePage(w, r, "recurring_sends", list, f.presentRecurring, query.Limit, idOf)
}

// refOf returns the recurring send of a request: of the caller, or for administrators of the client in client_id.
func refOf(r *http.Request) (notify.RecurringRef, error) {
	q, err := readQuery(r, "client_id")
	if err != nil {
		return notify.RecurringRef{}, err
	}
	id, all, err := owner(r, q)
	if err == nil && all {
		err = fault.New(fault.BadQuery, `"client_id" must be one client here.`)
	}
	return notify.RecurringRef{ClientID: id, Name: web.Param(r, "name")}, err
}

// answerRecurring responds with a recurring send as it is now.
func (f *handlers) answerRecurring(w http.ResponseWriter, r *http.Request, status int, ref notify.RecurringRef) error {
	found, err := f.Store.Recurring(r.Context(), ref)
	if err != nil {
		return missing(err, "Recurring send", ref.Name)
	}
	return web.Answer(w, status, f.presentWholeRecurring(found), nil)
}

func (f *handlers) showRecurring(w http.ResponseWriter, r *http.Request) error {
	ref, err := refOf(r)
	if err != nil {
		return err
	}
	return f.answerRecurring(w, r, http.StatusOK, ref)
}

// setRecurring creates or replaces one. Repeating the request changes nothing, also not when it is due.
func (f *handlers) setRecurring(w http.ResponseWriter, r *http.Request) error {
	ref := notify.RecurringRef{ClientID: client(r), Name: web.Param(r, "name")}
	if !recurringName().MatchString(ref.Name) {
		return fault.Invalid("the name of a recurring send may have 1 to 100 " +
			"characters: A-Z, a-z, digits, dots, hyphens and underscores")
	}
	var body newRecurring
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	made, err := body.recurring(r, ref)
	if err != nil {
		return err
	}
	if err := f.Service.CheckRecurring(r.Context(), &made); err != nil {
		return err
	}
	status, err := f.storeRecurring(r, &made)
	for range recurringTries {
		if !errors.Is(err, notify.ErrSuperseded) {
			break
		}
		status, err = f.storeRecurring(r, &made) // it was due at this moment
	}
	if err != nil {
		return err
	}
	f.KickRecurring()
	return f.answerRecurring(w, r, status, ref)
}

// recurringTries is how often a recurring send is stored again that is sent meanwhile.
const recurringTries = 5

// storeRecurring creates or replaces a recurring send. What is sent meanwhile makes it ErrSuperseded.
func (f *handlers) storeRecurring(r *http.Request, made *notify.Recurring) (status int, err error) {
	status = http.StatusCreated
	earlier, err := f.Store.Recurring(r.Context(), made.RecurringRef)
	switch {
	case err == nil:
		status = http.StatusOK
		made.Runs, made.LastDue = earlier.Runs, earlier.LastDue
	case !errors.Is(err, notify.ErrNotFound):
		return 0, err
	}
	if err := recurring.Begin(made, made.Updated); err != nil {
		return 0, err
	}
	if earlier.State == notify.RecurringActive && earlier.Timetable.Equal(made.Timetable) {
		made.State, made.Next = earlier.State, earlier.Next // which may be due at this moment
	}
	if status == http.StatusCreated && made.State == notify.RecurringEnded {
		return 0, fault.Invalid(`it would never be sent: no time of "cron" is between "starts_at", or now, and "ends_at"`)
	}
	if earlier.State == notify.RecurringPaused {
		made.State, made.Next = notify.RecurringPaused, time.Time{}
	}
	err = f.Store.SetRecurring(r.Context(), *made)
	if errors.Is(err, notify.ErrTooMany) {
		err = fault.New(fault.Unprocessable, "The client %q has %d recurring sends, which is the limit: delete one first",
			made.ClientID, notify.MaxRecurring)
	}
	return status, err
}

// recurring returns what a body asks for.
func (b *newRecurring) recurring(r *http.Request, ref notify.RecurringRef) (notify.Recurring, error) {
	now := time.Now()
	out := notify.Recurring{RecurringRef: ref, Timetable: notify.Timetable{Cron: b.Cron, Zone: b.Zone, Count: b.Count},
		Created: now, Updated: now}
	if out.Zone == "" {
		out.Zone = "UTC"
	}
	var err error
	if out.Starts, err = timeOf("starts_at", b.Starts, "", "", now); err != nil {
		return out, err
	}
	if out.Ends, err = timeOf("ends_at", b.Ends, "", "", now); err != nil {
		return out, err
	}
	if _, err := recurring.NewPlan(out.Timetable); err != nil {
		return out, err
	}
	s := b.Send
	out.Message = notify.RecurringMessage{KindID: s.KindID, Template: s.TemplateID, Data: present(s.Data),
		Locale:      s.Locale,
		Content:     notify.Content{Subject: s.Subject, Text: s.Text, HTML: s.HTML, ReplyTo: s.ReplyTo, Thread: s.Thread},
		MayCritical: token.FromContext(r.Context()).HasAny(scopeCritical),
		Holder:      &notify.Holder{UserID: token.FromContext(r.Context()).UserID}}
	if s.TTL != "" {
		ttl, err := time.ParseDuration(s.TTL)
		if out.Message.TTL = ttl; err != nil || ttl <= 0 || ttl > maxInterval {
			return out, fault.Invalid(fmt.Sprintf(`"send.ttl" must be a duration such as 15m or 36h, at most %s`, maxInterval))
		}
	}
	switch {
	case s.Recipients != nil && s.Audience != nil:
		return out, fault.Invalid(`give either "recipients" or "audience", not both`)
	case s.Recipients == nil && s.Audience == nil:
		return out, fault.Invalid(`"recipients" or "audience" is required`)
	case s.Audience != nil:
		audiences, err := (&newSendBody{Audience: s.Audience}).audiences()
		if err != nil {
			return out, err
		}
		out.Message.Audience = &audiences[0]
	}
	for _, one := range s.Recipients {
		out.Message.Members = append(out.Message.Members, one.member())
	}
	return out, nil
}

func (f *handlers) deleteRecurring(w http.ResponseWriter, r *http.Request) error {
	ref, err := refOf(r)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusNoContent, nil,
		missing(f.Store.DeleteRecurring(r.Context(), ref), "Recurring send", ref.Name))
}

// pauseRecurring is no error for one that is paused, or has ended.
func (f *handlers) pauseRecurring(w http.ResponseWriter, r *http.Request) error {
	return f.changeRecurring(w, r, func(one *notify.Recurring, _ time.Time) error {
		if one.State == notify.RecurringActive {
			one.State, one.Next = notify.RecurringPaused, time.Time{}
		}
		return nil
	})
}

// resumeRecurring is no error for one that is active, or has ended. What it missed is not sent.
func (f *handlers) resumeRecurring(w http.ResponseWriter, r *http.Request) error {
	return f.changeRecurring(w, r, func(one *notify.Recurring, now time.Time) error {
		if one.State != notify.RecurringPaused {
			return nil
		}
		return recurring.Begin(one, now)
	})
}

func (f *handlers) changeRecurring(w http.ResponseWriter, r *http.Request,
	change func(one *notify.Recurring, now time.Time) error) error {
	ref, err := refOf(r)
	if err != nil {
		return err
	}
	one, err := f.Store.Recurring(r.Context(), ref)
	if err != nil {
		return missing(err, "Recurring send", ref.Name)
	}
	now, before := time.Now(), one.State
	if err := change(&one, now); err != nil {
		return err
	}
	if one.State != before {
		if err := f.Store.SetRecurringState(r.Context(), ref, one.State, one.Next, now); err != nil {
			return missing(err, "Recurring send", ref.Name)
		}
		f.KickRecurring()
	}
	return f.answerRecurring(w, r, http.StatusOK, ref)
}

// splitRecurring is the inverse of what a page of the recurring sends of all clients ends with.
func splitRecurring(after string) (ref notify.RecurringRef, err error) {
	if after == "" {
		return ref, nil
	}
	id, name, ok := strings.Cut(after, "\n")
	if ok {
		return notify.RecurringRef{ClientID: id, Name: name}, nil
	}
	return ref, fault.New(fault.BadQuery, `"after" must be that of the link to the next page.`)
}
