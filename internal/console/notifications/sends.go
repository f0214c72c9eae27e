package notifications

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// send is a send as the API has it.
type send struct {
	ID             string     `json:"id"`
	ClientID       string     `json:"client_id"`
	Status         string     `json:"status"`
	KindID         string     `json:"kind_id"`
	CampaignTypeID string     `json:"campaign_type_id"`
	Audiences      []audience `json:"audiences"`
	Subject        string     `json:"subject"`
	Received       time.Time  `json:"received_at"`
	Finished       *time.Time `json:"completed_at"`
	Counts         struct {
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
	} `json:"counts"`
}

// Done is how many messages have a final status.
func (s send) Done() int {
	c := s.Counts
	return c.Delivered + c.Failed + c.Undeliverable + c.Unsubscribed + c.Canceled + c.Skipped + c.Digested +
		c.Throttled
}

// to describes the audiences.
func (s send) to() string {
	const shown = 3
	words := make([]string, 0, shown)
	for i, a := range s.Audiences {
		if i == shown {
			words = append(words, strconv.Itoa(len(s.Audiences)-shown)+" more")
			break
		}
		words = append(words, a.Words())
	}
	return strings.Join(words, ", ")
}

// sentMessage is a send to one recipient.
type sentMessage struct {
	ID       string     `json:"id"`
	SendID   string     `json:"send_id"`
	Status   string     `json:"status"`
	UserID   string     `json:"user_id"`
	Email    string     `json:"email"`
	Phone    string     `json:"phone"`
	Channel  string     `json:"channel"` // "" for mail
	Attempts int        `json:"attempts"`
	Next     *time.Time `json:"next_attempt_at"`
	Updated  time.Time  `json:"updated_at"`
	Reason   string     `json:"reason"`
	Parked   bool       `json:"parked"`
}

type links struct {
	Next struct{ Href string }
}

type sendsData struct {
	Sends   []send
	All     bool // of all clients
	MaySend bool
	Next    string
}

// loadSends is GET /console/notifications/sends: what the console sent, and for administrators what
// all clients sent. ?after= is the id of the last one of the page before.
func (c pages) loadSends(r *http.Request, s *page.Session) (any, error) {
	d := &sendsData{All: s.Has(scopeNotifyAdmin), MaySend: s.Has(scopeNotifyWrite, scopeEmailsWrite)}
	q := url.Values{"limit": {strconv.Itoa(page.PerPage)}}
	if d.All {
		q.Set("client_id", "*")
	}
	if after := r.URL.Query().Get("after"); after != "" {
		q.Set("after", after)
	}
	var answer struct {
		Sends []send
		Links links `json:"_links"`
	}
	if err := c.Notifications(r, s).Get(&answer, "/sends", q); err != nil {
		return nil, err
	}
	if d.Sends = answer.Sends; answer.Links.Next.Href != "" {
		d.Next = notificationsPath + "/sends?after=" + url.QueryEscape(d.Sends[len(d.Sends)-1].ID)
	}
	return d, nil
}

type sendPage struct {
	Send     send
	Problems []sentMessage // failed and undeliverable
	Failed   int           // of Problems
	Waiting  []sentMessage
	Sent     []sentMessage
	// Unsubscribed were not mailed because their recipients unsubscribed.
	Unsubscribed []sentMessage
}

// send is GET /console/notifications/sends/ID.
func (c pages) send(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	id := web.Param(r, "send")
	d, err := c.loadSend(r, s, id)
	if err != nil {
		return err
	}
	return c.showNotifications(w, r, s, http.StatusOK, "sent.html", "Sends", page.Page{Title: d.Send.Subject,
		Live: "notifications/sends/" + url.PathEscape(id), Data: d})
}

// shownMessages is how many messages of a status a page lists.
const shownMessages = 50

func (c pages) loadSend(r *http.Request, s *page.Session, id string) (*sendPage, error) {
	call, d := c.Notifications(r, s), &sendPage{}
	if err := call.Get(&d.Send, "/sends/"+url.PathEscape(id), nil); err != nil {
		return nil, err
	}
	with := func(status string, n int) ([]sentMessage, error) {
		if n == 0 {
			return nil, nil
		}
		var answer struct{ Messages []sentMessage }
		err := call.Get(&answer, "/messages", url.Values{"send": {id}, "status": {status},
			"limit": {strconv.Itoa(shownMessages)}})
		return answer.Messages, err
	}
	counts := d.Send.Counts
	failed, err := with("failed", counts.Failed)
	if err != nil {
		return nil, err
	}
	undeliverable, err := with("undeliverable", counts.Undeliverable)
	if err != nil {
		return nil, err
	}
	d.Problems, d.Failed = slices.Concat(failed, undeliverable), len(failed)
	if d.Waiting, err = with("retry", counts.Retry); err != nil {
		return nil, err
	}
	if d.Unsubscribed, err = with("unsubscribed", counts.Unsubscribed); err != nil {
		return nil, err
	}
	d.Sent, err = with("delivered", counts.Delivered)
	return d, err
}

// retrySend is POST /console/notifications/sends/ID/retry: it sends the failed messages that the
// page shows again.
func (c pages) retrySend(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	id := web.Param(r, "send")
	d, err := c.loadSend(r, s, id)
	if err != nil {
		return err
	}
	for _, m := range d.Problems[:d.Failed] {
		// A message that is no longer failed needs no retry.
		if err := c.replay(r, s, m.ID); err != nil && !fault.Is(err, fault.Unprocessable) {
			return err
		}
	}
	return toNotifications(w, r, "/sends/"+url.PathEscape(id), "retry")
}

func (c pages) replay(r *http.Request, s *page.Session, message string) error {
	return c.Notifications(r, s).Do(http.MethodPost, "/messages/"+url.PathEscape(message)+"/replay", nil, nil)
}

type messagePage struct {
	Message  sentMessage
	Send     send
	Timeline []event
	Command  string
}

// message is GET /console/notifications/messages/ID.
func (c pages) message(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	id := web.Param(r, "message")
	d, err := c.loadMessage(r, s, id)
	if err != nil {
		return err
	}
	return c.showNotifications(w, r, s, http.StatusOK, "message.html", "Sends", page.Page{
		Title: "Message to " + d.Message.recipient(), Live: "notifications/messages/" + url.PathEscape(id), Data: d,
		Crumbs: []page.Crumb{{Name: d.Send.Subject, Link: notificationsPath + "/sends/" + url.PathEscape(d.Send.ID)}},
	})
}

// recipient returns the address, or the user if there is none.
func (m sentMessage) recipient() string {
	if address := cmp.Or(m.Email, m.Phone); address != "" {
		return address
	}
	return cmp.Or(m.UserID, m.Channel)
}

func (c pages) loadMessage(r *http.Request, s *page.Session, id string) (*messagePage, error) {
	call := c.Notifications(r, s)
	var answer struct{ Messages []sentMessage }
	if err := call.Get(&answer, "/messages", url.Values{"id": {id}}); err != nil {
		return nil, err
	}
	if len(answer.Messages) == 0 {
		return nil, fault.New(fault.NotFound, "There is no such message.")
	}
	d := &messagePage{Message: answer.Messages[0], Command: page.Command("ingot", "notifications", "timeline", id)}
	if err := call.Get(&d.Send, "/sends/"+url.PathEscape(d.Message.SendID), nil); err != nil {
		return nil, err
	}
	var err error
	d.Timeline, err = timelineOf(call, id)
	return d, err
}
