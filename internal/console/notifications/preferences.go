package notifications

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/prefer"
	"ingot/internal/console/page"
)

type preferencesData struct {
	Form     prefer.Form
	Browsers []pushBrowser
	Command  string // lists the browsers and devices
}

// pushBrowser is a browser or a device that gets push notifications of a client.
type pushBrowser struct {
	ID       string    `json:"id"`
	Type     string    `json:"type"` // "browser" or "device"
	ClientID string    `json:"client_id"`
	Service  string    `json:"service"`
	Label    string    `json:"label"`
	Updated  time.Time `json:"updated_at"`
}

// preferences is GET /console/preferences: the user's own.
func (c pages) preferences(r *http.Request, s *page.Session) (any, error) {
	var answer prefer.Preferences
	var browsers struct {
		List []pushBrowser `json:"push_subscriptions"`
	}
	call := c.Notifications(r, s)
	if err := page.Together(
		func() error { return call.Get(&answer, "/preferences", nil) },
		func() error { return call.Get(&browsers, "/push_subscriptions", nil) },
	); err != nil {
		return nil, err
	}
	view := prefer.ViewOf(r.URL.Query())
	if r.Method == http.MethodPost {
		view = prefer.ViewOf(r.PostForm)
	}
	d := &preferencesData{prefer.New(answer, view, preferencesPath), browsers.List,
		page.Command("ingot", "notifications", "browsers")}
	d.Form.Command = page.Command("ingot", "notifications", "preferences")
	return d, nil
}

const preferencesPath = page.Path + "/preferences"

// savePreferences is POST /console/preferences/save. The page that follows is the one that was saved.
func (c pages) savePreferences(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	change, err := prefer.Read(r.PostForm)
	if err == nil {
		err = c.Notifications(r, s).Do(http.MethodPatch, "/preferences", change, nil)
	}
	if err != nil {
		return c.preferencesRefused(w, r, s, err)
	}
	return page.GoBack(w, r, preferencesPath+prefer.ViewOf(r.PostForm).Query(), "preferences")
}

// preferencesRefused shows the form again, with what was entered.
func (c pages) preferencesRefused(w http.ResponseWriter, r *http.Request, s *page.Session, err error) error {
	status, text, ok := page.ProblemOf(err)
	if !ok {
		return err
	}
	data, failed := c.preferences(r, s)
	if failed != nil {
		return failed
	}
	d := data.(*preferencesData) //nolint:forcetypeassert // the line above
	d.Form.Refused(r.PostForm, text)
	return c.Show(w, r, s, status, "preferences.html", page.Page{Title: preferencesTitle, Data: d})
}

const preferencesTitle = "Notification preferences"

// suppression is an address to which nothing is sent.
type suppression struct {
	Email   string    `json:"email"`
	Reason  string    `json:"reason"`
	Source  string    `json:"source"`
	Created time.Time `json:"created_at"`
}

type suppressionsData struct {
	Suppressions []suppression
	Next         string
	Add, Remove  string
}

// suppressions is GET /console/notifications/suppressions: ?after= is the last address of the page
// before.
func (c pages) suppressions(r *http.Request, s *page.Session) (any, error) {
	var answer struct {
		Suppressions []suppression
		Links        links `json:"_links"`
	}
	q := url.Values{"limit": {strconv.Itoa(page.PerPage)}}
	if after := r.URL.Query().Get("after"); after != "" {
		q.Set("after", after)
	}
	if err := c.Notifications(r, s).Get(&answer, "/suppressions", q); err != nil {
		return nil, err
	}
	d := &suppressionsData{
		Suppressions: answer.Suppressions,
		Add:          page.Command("ingot", "notifications", "suppressions", "--add", "ADDRESS"),
		Remove:       page.Command("ingot", "notifications", "suppressions", "--remove", "ADDRESS"),
	}
	if answer.Links.Next.Href != "" {
		d.Next = notificationsPath + "/suppressions?after=" + url.QueryEscape(d.Suppressions[len(d.Suppressions)-1].Email)
	}
	return d, nil
}

// suppress is POST /console/notifications/suppressions/add, with the field email.
func (c pages) suppress(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.changeSuppression(w, r, s, http.MethodPut, "suppressed")
}

// unsuppress is POST /console/notifications/suppressions/remove, with the field email.
func (c pages) unsuppress(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.changeSuppression(w, r, s, http.MethodDelete, "unsuppressed")
}

func (c pages) changeSuppression(w http.ResponseWriter, r *http.Request, s *page.Session, method, done string) error {
	email := strings.TrimSpace(r.PostForm.Get("email"))
	if email == "" {
		return fault.New(fault.Unprocessable, "Enter an address.")
	}
	if err := c.Notifications(r, s).Do(method, "/suppressions/"+url.PathEscape(email), nil, nil); err != nil {
		return err
	}
	return toNotifications(w, r, "/suppressions", done)
}
