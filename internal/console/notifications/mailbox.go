package notifications

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// mailEntry is a mail in the list of the mailbox.
type mailEntry struct {
	Number   int64     `json:"number"`
	ID       string    `json:"id"` // the message's
	From     string    `json:"from"`
	To       string    `json:"to"`
	Subject  string    `json:"subject"`
	Received time.Time `json:"received"`
	Size     int64     `json:"size"`
}

type mailboxData struct {
	Query string
	Total int
	Mails []mailEntry
	None  string // why there is no mailbox
}

// shownMails is how many mails the page lists; others are found by searching.
const shownMails = 100

// liveMailbox returns the search that the live part of the mailbox repeats. Without a mailbox the
// page is not live.
func liveMailbox(_ *http.Request, data any) (string, bool) {
	shown, _ := data.(notificationsPage)
	d, ok := shown.More.(*mailboxData)
	if !ok || d.None != "" {
		return "", false
	}
	return url.Values{"q": {d.Query}}.Encode(), true
}

// loadMailbox is GET /console/notifications/mailbox: ?q= searches recipient, sender and subject.
func (c pages) loadMailbox(r *http.Request, s *page.Session) (any, error) {
	d := &mailboxData{Query: strings.TrimSpace(r.URL.Query().Get("q"))}
	var answer struct {
		Total    int
		Messages []mailEntry
	}
	err := c.Notifications(r, s).Get(&answer, "/mailbox/messages",
		url.Values{"q": {d.Query}, "limit": {strconv.Itoa(shownMails)}})
	if page.Gone(err) {
		d.None, _ = forUsers(err)
		return d, nil
	}
	d.Total, d.Mails = answer.Total, answer.Messages
	return d, err
}

type mailData struct {
	mailEntry
	Headers []struct{ Name, Value string }
	Text    string
	HTML    string
	View    string
	Source  string
	Dark    bool
	Tabs    []page.Tab
}

// mail is GET /console/notifications/mailbox/NUMBER: ?view= is html, text, headers or source.
func (c pages) mail(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d, path, err := c.loadMail(r, s)
	if err != nil {
		return err
	}
	d.View = r.URL.Query().Get("view")
	if d.View == "" {
		d.View = "html"
		if d.HTML == "" {
			d.View = "text"
		}
	}
	here := notificationsPath + "/mailbox/" + strconv.FormatInt(d.Number, 10)
	for _, one := range []string{"HTML", "Text", "Headers", "Source"} {
		view := strings.ToLower(one)
		if view == "html" && d.HTML == "" {
			continue
		}
		d.Tabs = append(d.Tabs, page.Tab{Name: one, Link: here + "?view=" + view, Current: view == d.View})
	}
	if d.View == "source" {
		raw, err := c.Notifications(r, s).Raw(nil, http.MethodGet, path+"/source", nil)
		if err != nil {
			return err
		}
		d.Source = strings.ToValidUTF8(string(raw), "\ufffd")
	}
	d.Dark = r.URL.Query().Get("dark") != ""
	title := d.Subject
	if title == "" {
		title = "Mail " + strconv.FormatInt(d.Number, 10)
	}
	return c.showNotifications(w, r, s, http.StatusOK, "mail.html", "Mailbox", page.Page{Title: title, Data: d})
}

// loadMail returns the mail of the path, and its path in the API.
func (c pages) loadMail(r *http.Request, s *page.Session) (*mailData, string, error) {
	if _, err := strconv.ParseInt(web.Param(r, "number"), 10, 64); err != nil {
		return nil, "", fault.New(fault.NotFound, "There is no such mail.")
	}
	path, d := "/mailbox/messages/"+web.Param(r, "number"), &mailData{}
	return d, path, c.Notifications(r, s).Get(d, path, nil)
}

// mailHTML is GET /console/notifications/mailbox/NUMBER/html: a document for a frame.
func (c pages) mailHTML(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d, _, err := c.loadMail(r, s)
	if err != nil {
		return err
	}
	writeFrame(w, r, r.URL.Query().Get("dark") != "", []byte(d.HTML))
	return nil
}

// mailSource is GET /console/notifications/mailbox/NUMBER/source: a download.
func (c pages) mailSource(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	d, path, err := c.loadMail(r, s)
	if err != nil {
		return err
	}
	raw, err := c.Notifications(r, s).Raw(nil, http.MethodGet, path+"/source", nil)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "message/rfc822")
	h.Set("Content-Disposition", `attachment; filename="message-`+strconv.FormatInt(d.Number, 10)+`.eml"`)
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	_, _ = w.Write(raw) //nolint:gosec // a download that no browser shows: attachment, nosniff, sandbox
	return nil
}
