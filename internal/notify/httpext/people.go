package httpext

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// registerPeople adds the routes that show and erase what is stored about a recipient.
func (f *handlers) registerPeople(g *web.Group) {
	owner := web.Scope(scopeManage, scopeAdmin)
	long := g.Within(streamLimits)
	long.Handle("GET", "/recipient_data", owner, f.showPerson)
	long.Handle("POST", "/erasures", owner, f.erase)
	g.Handle("GET", "/erasures/{erasure}", owner, f.showErasure)
}

// streamLimits are for answers of any length.
var streamLimits = web.Limits{Body: 1 << 16, Read: 30 * time.Second}

// person returns whose data is meant: the caller's own, or for administrators also that of another client or of all.
func person(r *http.Request, clientID, userID, email, phone string) (notify.Person, error) {
	p := notify.Person{UserID: userID, Email: cmp.Or(email, phone)}
	if phone != "" && (userID != "" || email != "" || !notify.UsablePhone(phone)) {
		return p, fault.Invalid(`"phone" must be a number such as +4915112345678, without "user_id" and "email"`)
	}
	var err error
	if p.ClientID, p.All, err = ownerOf(r, clientID); err != nil {
		return p, err
	}
	return p, p.Check()
}

// personSections are the members of an answer in the order of notify.People.
var personSections = []string{"suppressions", "quiet_hours", "unsubscribed", "topics", "lists", "scheduled", "inbox",
	"push_subscriptions", "messages"}

// personWriter writes what is stored about a person as one JSON object, whose members are lists, one value at a time.
// The last write returns the first error of all.
type personWriter struct {
	out     *bufio.Writer
	section int // in personSections
	open    bool
}

// add writes a value of a section.
func (p *personWriter) add(section string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	for personSections[p.section] != section {
		p.close()
	}
	if p.open {
		_ = p.out.WriteByte(',')
	} else {
		p.begin()
	}
	_, err = p.out.Write(text)
	return err
}

func (p *personWriter) begin() {
	before := byte(',')
	if p.section == 0 {
		before = '{'
	}
	_ = p.out.WriteByte(before)
	_, _ = p.out.WriteString(`"` + personSections[p.section] + `":[`)
	p.open = true
}

// close ends a section, which may be empty.
func (p *personWriter) close() {
	if !p.open {
		p.begin()
	}
	_ = p.out.WriteByte(']')
	p.section, p.open = p.section+1, false
}

func (p *personWriter) end() error {
	for p.section < len(personSections) {
		p.close()
	}
	_, _ = p.out.WriteString("}\n")
	return p.out.Flush()
}

type objectionBody struct {
	ClientID       string `json:"client_id,omitempty"`
	KindID         string `json:"kind_id,omitempty"`
	CampaignTypeID string `json:"campaign_type_id,omitempty"`
	Everything     bool   `json:"everything"`
	// Channels are those that the recipient turned off; absent for all.
	Channels []string `json:"channels,omitzero"`
	// Digest is how the recipient wants them to be collected, if not as the client says.
	Digest notify.DigestChoice `json:"digest,omitzero"`
	// Tracking: the recipient allows that opens and clicks are counted.
	Tracking bool `json:"tracking,omitzero"`
	// Kept: only a hash is stored.
	Kept bool `json:"kept"`
}

func presentObjection(o notify.Objection) objectionBody {
	out := objectionBody{ClientID: o.ClientID, KindID: o.KindID, Kept: o.Kept, Channels: o.Unwanted.Names(),
		Everything: o.KindRef == notify.KindRef{}, Digest: o.Digest, Tracking: o.Choice.Tracking}
	if o.Unwanted == 0 {
		out.Channels = []string{}
	}
	if o.ClientID == "" {
		out.KindID, out.CampaignTypeID = "", o.KindID
	}
	return out
}

type listedBody struct {
	SendID string `json:"send_id,omitempty"`
	// RecurringSend is the name of a recurring send that names the recipient.
	RecurringSend string          `json:"recurring_send,omitempty"`
	UserID        string          `json:"user_id,omitempty"`
	Email         string          `json:"email,omitempty"`
	Phone         string          `json:"phone,omitempty"`
	Locale        string          `json:"locale,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
}

// contentBody is what was sent to the person alone.
type contentBody struct {
	Text string          `json:"text,omitempty"`
	HTML string          `json:"html,omitempty"`
	Data json.RawMessage `json:"data,omitempty"`

	Attachments []attachedBody     `json:"attachments,omitempty"`
	Event       *notify.Invitation `json:"event,omitempty"`
	// Digest is what a digest has collected, and the number that it goes to if its senders gave one.
	Digest *notify.Digest `json:"digest,omitempty"`
}

type personMessage struct {
	messageBody
	ClientID       string       `json:"client_id"`
	KindID         string       `json:"kind_id,omitempty"`
	CampaignTypeID string       `json:"campaign_type_id,omitempty"`
	Subject        string       `json:"subject"`
	Received       time.Time    `json:"received_at"`
	Content        *contentBody `json:"content,omitempty"`
	// Opened and Clicked are what was counted of it.
	Opened  *reactionBody `json:"opened,omitempty"`
	Clicked *reactionBody `json:"clicked,omitempty"`
}

type reactionBody struct {
	First time.Time `json:"first_at"`
	Last  time.Time `json:"last_at"`
	Total int       `json:"total"`
}

type inboxRecord struct {
	ID       string    `json:"id"`
	ClientID string    `json:"client_id"`
	KindID   string    `json:"kind_id,omitempty"`
	Title    string    `json:"title"`
	Text     string    `json:"text"`
	Created  time.Time `json:"created_at"`
}

// write presents a value of notify.People.
func (f *handlers) writePerson(p notify.Person, w *personWriter, v any) error {
	ids := f.Service.IDs()
	switch v := v.(type) {
	case notify.Suppression:
		return w.add("suppressions", suppressionBody(v))
	case *notify.QuietHours:
		return w.add("quiet_hours", v)
	case notify.Objection:
		return w.add("unsubscribed", presentObjection(v))
	case notify.TopicChoice:
		return w.add("topics", presentChoice(v))
	case notify.ListedMember:
		m := listedBody{RecurringSend: v.Recurring.Name, UserID: v.Member.UserID, Email: v.Member.Address(),
			Phone: v.Member.Phone, Locale: v.Member.Locale, Data: v.Member.Data}
		if v.Send != 0 {
			m.SendID = ids.Send(v.Send)
		}
		return w.add("lists", m)
	case notify.Send:
		return w.add("scheduled", f.presentSend(v))
	case notify.Notification:
		return w.add("inbox", inboxRecord{ID: ids.Message(v.Number), ClientID: v.ClientID, KindID: v.KindID, Title: v.Title,
			Text: v.Text, Created: v.Created.UTC()})
	case notify.PushSubscription:
		return w.add("push_subscriptions", presentPush(v))
	case notify.Claimed:
		m := personMessage{messageBody: f.presentMessage(v.Message), ClientID: v.Send.ClientID, KindID: v.Send.KindID,
			CampaignTypeID: v.Send.CampaignTypeID, Subject: v.Send.Content.Subject, Received: v.Send.Received}
		if p.OnlyTo(v.Send) {
			m.Content = &contentBody{Text: v.Send.Content.Text, HTML: v.Send.Content.HTML, Data: v.Send.Data,
				Attachments: presentAttachments(v.Send.Attachments), Event: v.Send.Content.Event, Digest: v.Send.Digest}
		}
		for _, did := range v.Reactions {
			of := &m.Opened
			if did.Type == notify.Clicked {
				of = &m.Clicked
			}
			*of = &reactionBody{did.First.UTC(), did.Last.UTC(), did.Total}
		}
		return w.add("messages", m)
	}
	return nil
}

// showPerson writes everything that is stored about a recipient.
func (f *handlers) showPerson(w http.ResponseWriter, r *http.Request) error {
	q, err := readQuery(r, "client_id", "user_id", "email", "phone")
	if err != nil {
		return err
	}
	p, err := person(r, q.Get("client_id"), q.Get("user_id"), q.Get("email"), q.Get("phone"))
	if err != nil {
		return err
	}
	return f.stream(w, r, "application/json", func(out *bufio.Writer) error {
		pw := &personWriter{out: out}
		if err := f.Store.ShowPerson(r.Context(), p, func(v any) error { return f.writePerson(p, pw, v) }); err != nil {
			return err
		}
		return pw.end()
	})
}

// stream writes an answer of any length. After an error the connection breaks, so that the answer does not look
// complete, unless nothing was written yet.
func (f *handlers) stream(w http.ResponseWriter, r *http.Request, kind string, write func(*bufio.Writer) error) error {
	w.Header().Set("Content-Type", kind)
	w.Header().Set("Cache-Control", "no-store")
	c := &counted{w: w}
	out := bufio.NewWriterSize(c, 1<<15)
	err := write(out)
	switch {
	case err == nil:
		return out.Flush()
	case c.n == 0:
		return err
	case r.Context().Err() == nil:
		f.Log.ErrorContext(r.Context(), "an answer broke off", "path", r.URL.Path, "error", err)
	}
	panic(http.ErrAbortHandler)
}

type counted struct {
	w http.ResponseWriter
	n int
}

func (c *counted) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += n
	return n, err
}

type erasureBody struct {
	ID       string     `json:"id"`
	Status   string     `json:"status"`              // "finished" or "pending"
	ClientID string     `json:"client_id,omitempty"` // "" for all
	Created  time.Time  `json:"created_at"`
	Finished *time.Time `json:"finished_at"`
	Erased   erasedBody `json:"erased"`
	Kept     keptBody   `json:"kept_as_hash"`
}

type erasedBody struct {
	Messages      int `json:"messages"`
	Canceled      int `json:"canceled"`
	Contents      int `json:"contents"`
	Listed        int `json:"list_entries"`
	Notifications int `json:"inbox_notifications"`
	Calls         int `json:"webhook_calls"`
	Browsers      int `json:"push_subscriptions"`
	Topics        int `json:"topics"`
}

type keptBody struct {
	Unsubscribed int `json:"unsubscribed"`
	Suppressions int `json:"suppressions"`
}

func presentErasure(e notify.Erasure) erasureBody {
	out := erasureBody{ID: e.ID, Status: "pending", ClientID: e.ClientID, Created: e.Created.UTC(),
		Erased: erasedBody{e.Messages, e.Canceled, e.Contents, e.Listed, e.Notifications, e.Calls, e.Browsers,
			e.Topics},
		Kept: keptBody{e.Preferences, e.Suppressions}}
	if !e.Finished.IsZero() {
		finished := e.Finished.UTC()
		out.Status, out.Finished = "finished", &finished
	}
	return out
}

// eraseAtOnce is how long a request may take; what is left is done in the background.
const eraseAtOnce = 20 * time.Second

// erase erases what is stored about a recipient.
func (f *handlers) erase(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		ClientID string `json:"client_id"`
		UserID   string `json:"user_id"`
		Email    string `json:"email"`
		Phone    string `json:"phone"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	p, err := person(r, body.ClientID, body.UserID, body.Email, body.Phone)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(r.Context(), eraseAtOnce)
	defer cancel()
	e, err := f.Store.Erase(ctx, notify.Erasure{ID: uuid.NewString(), Person: p})
	if errors.Is(err, notify.ErrTooMany) {
		return fault.Wrap(err, fault.RateLimited, "%d erasures are not finished: wait and try again", notify.MaxErasures).
			After(time.Minute)
	}
	if err != nil {
		return err
	}
	if f.Hub != nil {
		for _, of := range e.Inboxes {
			f.Hub.Changed(of)
		}
	}
	status := http.StatusOK
	if e.Finished.IsZero() {
		status = http.StatusAccepted
	}
	w.Header().Set("Location", "/erasures/"+e.ID)
	return web.Answer(w, status, presentErasure(e), nil)
}

// showErasure says what was erased. Administrators see all, clients their own.
func (f *handlers) showErasure(w http.ResponseWriter, r *http.Request) error {
	id := web.Param(r, "erasure")
	e, err := f.Store.Erasure(r.Context(), id)
	if err == nil && e.ClientID != client(r) && !administers(r) {
		err = notify.ErrNotFound
	}
	return web.Answer(w, http.StatusOK, presentErasure(e), missing(err, "Erasure", id))
}
