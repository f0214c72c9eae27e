package notifications

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

// recipientData is everything that is stored about a recipient.
type recipientData struct {
	Suppressions []suppression
	Unsubscribed []struct {
		ClientID       string `json:"client_id"`
		KindID         string `json:"kind_id"`
		CampaignTypeID string `json:"campaign_type_id"`
		Everything     bool
		Kept           bool
	}
	Lists     []struct{ Data map[string]any }
	Scheduled []send
	Inbox     []struct {
		ClientID string `json:"client_id"`
		Title    string
		Created  time.Time `json:"created_at"`
	}
	Topics []struct {
		ClientID   string `json:"client_id"`
		Topic      string
		Subscribed bool
		Kept       bool
	}
	Browsers []pushBrowser `json:"push_subscriptions"`
	Messages []struct {
		sentMessage
		ClientID string `json:"client_id"`
		KindID   string `json:"kind_id"`
		Subject  string
	}
	More int // messages that are not shown
}

type recipientPage struct {
	User, Email  string
	Data         *recipientData // nil before something was asked for
	Show, Delete string         // commands
}

// recipient is GET /console/notifications/recipients: everything that is stored about ?user= or ?email= or both.
func (c pages) recipient(r *http.Request, s *page.Session) (any, error) {
	q := r.URL.Query()
	d := &recipientPage{
		User: strings.TrimSpace(q.Get("user")), Email: strings.TrimSpace(q.Get("email")),
		Show:   "ingot notifications recipient-data --email ADDRESS --all-clients",
		Delete: "ingot notifications erase-recipient --email ADDRESS --all-clients",
	}
	if d.User == "" && d.Email == "" {
		return d, nil
	}
	d.Data = &recipientData{}
	if err := c.Notifications(r, s).Get(d.Data, "/recipient_data", recipientQuery(d.User, d.Email)); err != nil {
		return nil, err
	}
	if n := len(d.Data.Messages); n > shownMessages {
		d.Data.Messages, d.Data.More = d.Data.Messages[:shownMessages], n-shownMessages
	}
	return d, nil
}

func recipientQuery(user, email string) url.Values {
	q := url.Values{"client_id": {"*"}}
	for key, value := range map[string]string{"user_id": user, "email": email} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return q
}

// eraseRecipient is POST /console/notifications/recipients/erase, with the fields user, email and sure.
func (c pages) eraseRecipient(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	body := map[string]string{"client_id": "*"}
	user, email := strings.TrimSpace(r.PostForm.Get("user")), strings.TrimSpace(r.PostForm.Get("email"))
	for key, value := range map[string]string{"user_id": user, "email": email} {
		if value != "" {
			body[key] = value
		}
	}
	if r.PostForm.Get("sure") == "" {
		return fault.New(fault.Unprocessable, "Confirm that the data is to be erased.")
	}
	var answer struct{ Status string }
	if err := c.Notifications(r, s).Do(http.MethodPost, "/erasures", body, &answer); err != nil {
		return err
	}
	said := "erased"
	if answer.Status != "finished" {
		said = "erasing"
	}
	return toNotifications(w, r, "/recipients", said)
}
