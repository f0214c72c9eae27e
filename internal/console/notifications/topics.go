package notifications

import (
	"cmp"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
	"ingot/internal/base/web"
	"ingot/internal/console/page"
)

// topic is an audience that users subscribe to.
type topic struct {
	Name          string    `json:"name"`
	ClientID      string    `json:"client_id"`
	Description   string    `json:"description"`
	SelfSubscribe bool      `json:"self_subscribe"`
	Subscribers   int       `json:"subscribers"`
	Updated       time.Time `json:"updated_at"`
	Link          string    `json:"-"` // the address of its page
}

// ofClient returns the address of something that belongs to a client.
func ofClient(path, client string) string {
	if client != "" && client != page.ClientID {
		path += "?" + url.Values{"client": {client}}.Encode()
	}
	return path
}

// listQuery returns the query of a request for a part of a list, of the client and after the place that the address of
// the page has.
func listQuery(r *http.Request) url.Values {
	q := url.Values{"limit": {strconv.Itoa(page.PerPage)}}
	for name, from := range map[string]string{"client_id": "client", "after": "after"} {
		if value := r.URL.Query().Get(from); value != "" {
			q.Set(name, value)
		}
	}
	return q
}

// nextOf returns the address of the next part of a list, or "" after the last one.
func (l links) nextOf(path, client string) string {
	next, err := url.Parse(l.Next.Href)
	if err != nil || l.Next.Href == "" {
		return ""
	}
	q := url.Values{"after": {next.Query().Get("after")}}
	if client != "" {
		q.Set("client", client)
	}
	return path + "?" + q.Encode()
}

type topicsData struct {
	Topics []topic
	Client string // whose they are
	// MayManage reports that the user may declare topics of the console, and MayOthers see those of other clients.
	MayManage, MayOthers bool
	Command, Next        string
}

// topics is GET /console/notifications/topics: those of the console, or for administrators of ?client=. ?after= is the
// name of the last one of the page before.
func (c pages) topics(r *http.Request, s *page.Session) (any, error) {
	if err := need(s, topicScopes...); err != nil {
		return nil, err
	}
	client := strings.TrimSpace(r.URL.Query().Get("client"))
	d := &topicsData{Client: cmp.Or(client, page.ClientID), MayManage: s.Has(scopeNotifyManage),
		MayOthers: s.Has(scopeNotifyAdmin), Command: page.Command("ingot", "notifications", "topics", "--set", "releases",
			"--description", "TEXT")}
	var answer struct {
		Topics []topic
		Links  links `json:"_links"`
	}
	if err := c.Notifications(r, s).Get(&answer, "/topics", listQuery(r)); err != nil {
		return nil, err
	}
	for i := range answer.Topics {
		t := &answer.Topics[i]
		t.Link = ofClient(notificationsPath+"/topics/"+url.PathEscape(t.Name), t.ClientID)
	}
	d.Topics, d.Next = answer.Topics, answer.Links.nextOf(notificationsPath+"/topics", client)
	return d, nil
}

type subscriber struct {
	User  string
	Email string
	Since time.Time
}

type topicData struct {
	topic
	Members []subscriber
	// Own reports that it belongs to the console: only a topic's client changes it and its subscribers.
	Own                                         bool
	MayManage, MaySubscribe, MayDelete, MayLook bool
	Typed                                       url.Values
	Command, Subscribe, Send, Delete, Next      string
}

// topic is GET /console/notifications/topics/TOPIC, with ?client= of another client: its subscribers. ?after= is where
// the page before ends.
func (c pages) topic(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.showTopic(w, r, s, http.StatusOK, "")
}

func (c pages) showTopic(w http.ResponseWriter, r *http.Request, s *page.Session, status int, problem string) error {
	if err := need(s, topicScopes...); err != nil {
		return err
	}
	client := cmp.Or(r.PostForm.Get("client"), r.URL.Query().Get("client"))
	path, q := "/topics/"+url.PathEscape(web.Param(r, "topic")), listQuery(r)
	if client != "" {
		q.Set("client_id", client)
	}
	d := &topicData{Typed: r.PostForm}
	var answer struct {
		Subscribers []subscriber
		Links       links `json:"_links"`
	}
	call := c.Notifications(r, s)
	whose := url.Values{}
	if client != "" {
		whose.Set("client_id", client)
	}
	if err := call.Get(&d.topic, path, whose); err != nil {
		return err
	}
	if err := call.Get(&answer, path+"/subscribers", q); err != nil {
		return err
	}
	d.Members, d.Next = answer.Subscribers, answer.Links.nextOf(notificationsPath+path, client)
	d.Own = d.ClientID == page.ClientID
	d.MayManage = d.Own && s.Has(scopeNotifyManage)
	d.MaySubscribe = d.Own && s.Has(scopeNotifyManage, scopeNotifyWrite)
	d.MayDelete = d.MayManage || s.Has(scopeNotifyAdmin)
	d.MayLook = s.Has(scopeNotifyAdmin)
	words := []string{"ingot", "notifications", "topics"}
	command := func(more ...string) string { return page.Command(append(words[:len(words):len(words)], more...)...) }
	d.Command, d.Delete = command("--set", d.Name, "--description", "TEXT"), command("--delete", d.Name)
	if !d.Own {
		d.Delete = `curl -X DELETE "$N` + path + "?" + whose.Encode() + `" -H "$A"`
	}
	d.Subscribe = command("--subscribe", d.Name, "--email", "ADDRESS")
	d.Send = page.Command("ingot", "notifications", "send", "KIND", "--topic", d.Name, "--text", "TEXT")
	return c.showNotifications(w, r, s, status, "topic.html", "Topics",
		page.Page{Title: "Topic " + d.Name, Data: d, Problem: problem})
}

// topicChange changes a topic, whose path in the API it gets, and returns where the browser is sent, and what the next
// page says.
type topicChange func(r *http.Request, s *page.Session, path string) (to, said string, err error)

// onTopic returns the target of a form on the page of a topic. An error is shown on that page.
func (c pages) onTopic(change topicChange) page.Handler {
	return func(w http.ResponseWriter, r *http.Request, s *page.Session) error {
		to, what, err := change(r, s, "/topics/"+url.PathEscape(web.Param(r, "topic")))
		if status, text, ok := page.ProblemOf(err); ok {
			return c.showTopic(w, r, s, status, text)
		}
		if err != nil {
			return err
		}
		return toNotifications(w, r, to, what)
	}
}

// topicOf reads the form of a topic.
func topicOf(form url.Values) map[string]any {
	return map[string]any{"description": strings.TrimSpace(form.Get("description")),
		"self_subscribe": form.Get("self") != ""}
}

// addTopic is POST /console/notifications/topics, with the fields name, description and self.
func (c pages) addTopic(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	name, call := strings.TrimSpace(r.PostForm.Get("name")), c.Notifications(r, s)
	if name == "" {
		return fault.New(fault.Unprocessable, "The topic needs a name.")
	}
	path := "/topics/" + url.PathEscape(name)
	switch err := call.Get(&topic{}, path, nil); {
	case err == nil:
		return fault.New(fault.Conflict, "There is a topic %s already. Open it to change it.", name)
	case !page.Gone(err):
		return err
	}
	if err := call.Do(http.MethodPut, path, topicOf(r.PostForm), nil); err != nil {
		return err
	}
	return toNotifications(w, r, path, "topic")
}

// changeTopic is POST /console/notifications/topics/TOPIC/change, with the fields description and self.
func (c pages) changeTopic(r *http.Request, s *page.Session, path string) (to, said string, err error) {
	return path, "topic", c.Notifications(r, s).Do(http.MethodPut, path, topicOf(r.PostForm), nil)
}

// deleteTopic is POST /console/notifications/topics/TOPIC/delete, with the name in the field confirm, and client.
func (c pages) deleteTopic(r *http.Request, s *page.Session, path string) (to, said string, err error) {
	if err := page.Confirmed(r, web.Param(r, "topic")); err != nil {
		return "", "", err
	}
	list := "/topics"
	if client := r.PostForm.Get("client"); client != "" && client != page.ClientID {
		path += "?" + url.Values{"client_id": {client}}.Encode()
	}
	return list, "topic-deleted", c.Notifications(r, s).Do(http.MethodDelete, path, nil, nil)
}

var guidForm = pattern.OnUse(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// subscribe is POST /console/notifications/topics/TOPIC/subscribe, with the fields user or email.
func (c pages) subscribe(r *http.Request, s *page.Session, path string) (to, said string, err error) {
	user, email := strings.TrimSpace(r.PostForm.Get("user")), strings.TrimSpace(r.PostForm.Get("email"))
	who := map[string]string{"email": email}
	if (user == "") == (email == "") {
		return "", "", fault.New(fault.Unprocessable, "Enter either a user or an address.")
	}
	if user != "" {
		guid, err := c.userGUID(r, s, user)
		if err != nil {
			return "", "", err
		}
		if !guidForm().MatchString(guid) {
			return "", "", fault.New(fault.Unprocessable, "There is no user %s that you can see. Enter a name or a guid.", user)
		}
		who = map[string]string{"user": guid}
	}
	var did struct{ Already, Left int }
	err = c.Notifications(r, s).Do(http.MethodPost, path+"/subscribers",
		map[string]any{"subscribers": []any{who}}, &did)
	switch {
	case err != nil:
		return "", "", err
	case did.Left > 0:
		return "", "", fault.New(fault.Conflict, "%s left this topic, and only they can subscribe to it again.",
			cmp.Or(user, email))
	case did.Already > 0:
		return path, "subscribed-before", nil
	}
	return path, "subscribed", nil
}

// removeSubscriber is POST /console/notifications/topics/TOPIC/remove, with the fields user or email.
func (c pages) removeSubscriber(r *http.Request, s *page.Session, path string) (to, said string, err error) {
	id := r.PostForm.Get("user")
	if email := r.PostForm.Get("email"); email != "" {
		id = "mailto:" + email
	}
	return path, "removed-subscriber", c.Notifications(r, s).Do(http.MethodDelete,
		path+"/subscribers/"+url.PathEscape(id), nil, nil)
}
