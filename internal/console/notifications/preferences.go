package notifications

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

// preference is a kind that a user receives, or not.
type preference struct {
	Client, Kind, Description string
	On                        bool
}

// Key identifies the kind in a form.
func (p preference) Key() string { return url.PathEscape(p.Client) + "/" + url.PathEscape(p.Kind) }

type preferenceSource struct {
	Name  string
	Kinds []preference
}

type preferencesData struct {
	Global  bool // unsubscribed from everything
	Sources []preferenceSource
	Command string
}

// preferences is GET /console/preferences: the user's own.
func (c pages) preferences(r *http.Request, s *page.Session) (any, error) {
	var answer struct {
		Global  bool `json:"global_unsubscribe"`
		Clients map[string]map[string]struct {
			Email  bool
			Kind   string `json:"kind_description"`
			Source string `json:"source_description"`
		}
	}
	if err := c.Notifications(r, s).Get(&answer, "/user_preferences", nil); err != nil {
		return nil, err
	}
	d := &preferencesData{Global: answer.Global, Command: page.Command("ingot", "notifications", "preferences")}
	for _, client := range slices.Sorted(maps.Keys(answer.Clients)) {
		src := preferenceSource{Name: client}
		for _, kind := range slices.Sorted(maps.Keys(answer.Clients[client])) {
			p := answer.Clients[client][kind]
			src.Name = cmp.Or(p.Source, client)
			src.Kinds = append(src.Kinds, preference{client, kind, p.Kind, p.Email})
		}
		d.Sources = append(d.Sources, src)
	}
	return d, nil
}

// preferenceChange reads the form of the preferences: the field kind has the keys of all kinds that
// it shows, on those to receive, and none is set to receive nothing.
func preferenceChange(form url.Values) (map[string]any, error) {
	clients := map[string]map[string]map[string]bool{}
	for _, key := range form["kind"] {
		a, b, ok := strings.Cut(key, "/")
		client, err := url.PathUnescape(a)
		kind, err2 := url.PathUnescape(b)
		if !ok || cmp.Or(err, err2) != nil {
			return nil, fault.New(fault.BadRequest, "The form cannot be read.")
		}
		if clients[client] == nil {
			clients[client] = map[string]map[string]bool{}
		}
		clients[client][kind] = map[string]bool{"email": slices.Contains(form["on"], key)}
	}
	change := map[string]any{"global_unsubscribe": form.Get("none") != ""}
	if len(clients) > 0 {
		change["clients"] = clients
	}
	return change, nil
}

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
		Suppressions: answer.Suppressions, Add: `curl -X PUT "$N/suppressions/ADDRESS" -H "$A"`,
		Remove: `curl -X DELETE "$N/suppressions/ADDRESS" -H "$A"`,
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
