package notifications

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"ingot/internal/console/page"
)

// recurringSend is a send that is repeated, as the API has it.
type recurringSend struct {
	Name     string     `json:"name"`
	ClientID string     `json:"client_id"`
	Status   string     `json:"status"`
	Cron     string     `json:"cron"`
	Zone     string     `json:"zone"`
	Next     []string   `json:"next_times"` // with the offset of Zone
	Runs     int        `json:"runs"`
	Failures int        `json:"failures"`
	LastRun  *time.Time `json:"last_run_at"`
	LastSend string     `json:"last_send_id"`
	Problem  string     `json:"problem"`
	KindID   string     `json:"kind_id"`
	Subject  string     `json:"subject"`
}

type recurringData struct {
	Recurring []recurringSend
	All       bool // of all clients
	Command   string
	Next      string
}

// recurring is GET /console/notifications/recurring: the recurring sends of the console, and for administrators those
// of all clients. ?after= is where the page before ends.
func (c pages) recurring(r *http.Request, s *page.Session) (any, error) {
	d := &recurringData{All: s.Has(scopeNotifyAdmin), Command: page.Command("ingot", "notifications", "repeat", "NAME",
		"KIND", "--cron", "0 9 * * mon", "--zone", "Europe/Berlin", "--everyone", "--text", "TEXT")}
	q := url.Values{"limit": {strconv.Itoa(page.PerPage)}}
	if d.All {
		q.Set("client_id", "*")
	}
	if after := r.URL.Query().Get("after"); after != "" {
		q.Set("after", after)
	}
	var answer struct {
		Recurring []recurringSend `json:"recurring_sends"`
		Links     links           `json:"_links"`
	}
	if err := c.Notifications(r, s).Get(&answer, "/recurring_sends", q); err != nil {
		return nil, err
	}
	d.Recurring = answer.Recurring
	d.Next = answer.Links.nextOf(notificationsPath+"/recurring", "")
	return d, nil
}

// changeRecurring returns the target of a form with the fields client and name.
func (c pages) changeRecurring(method, suffix, said string) page.Handler {
	return func(w http.ResponseWriter, r *http.Request, s *page.Session) error {
		path := "/recurring_sends/" + url.PathEscape(r.PostForm.Get("name")) + suffix + "?" +
			url.Values{"client_id": {r.PostForm.Get("client")}}.Encode()
		if err := c.Notifications(r, s).Do(method, path, nil, nil); err != nil {
			return err
		}
		return toNotifications(w, r, "/recurring", said)
	}
}
