package notifications

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/fault"
	"ingot/internal/console/page"
)

// Types of audiences.
const (
	toUser     = "user"
	toSpace    = "space"
	toOrg      = "organization"
	toEveryone = "everyone"
	toScope    = "scope"
	toEmail    = "email"
)

// message is the form of a notification to send.
type message struct {
	Kind, Subject, Text, HTML, ReplyTo string
	To                                 string // the type of the audience
	User, Space, Org, Role             string
	Scope, Email                       string
	// Key identifies the send, so that a form that is sent twice is one send.
	Key string
}

// messageOf reads the form.
func messageOf(r *http.Request) *message {
	get := func(name string) string { return strings.TrimSpace(r.PostForm.Get(name)) }
	return &message{
		Kind: get("kind"), Subject: get("subject"), Text: unix(r.PostForm.Get("text")), HTML: unix(r.PostForm.Get("html")),
		ReplyTo: get("reply_to"),
		To:      get("to"), User: get("user"), Space: get("space"), Org: get("org"), Role: get("role"), Scope: get("scope"),
		Email: get("email"), Key: get("key"),
	}
}

// id returns the id of the audience.
func (m *message) id() string {
	return map[string]string{toUser: m.User, toSpace: m.Space, toOrg: m.Org, toScope: m.Scope, toEmail: m.Email}[m.To]
}

// path returns the path of the API that sends to the audience.
func (m *message) path() string {
	at := map[string]string{toUser: "/users/", toSpace: "/spaces/", toOrg: "/organizations/",
		toScope: "/uaa_scopes/"}[m.To]
	switch m.To {
	case toEveryone:
		return "/everyone"
	case toEmail:
		return "/emails"
	}
	return at + url.PathEscape(m.id())
}

// check returns an error for what is visible in the form alone.
func (m *message) check() error {
	switch m.To {
	case toUser, toSpace, toOrg, toScope, toEmail:
		if m.id() == "" {
			return fault.New(fault.Unprocessable, "Say to which %s it is to be sent.", m.To)
		}
	case toEveryone:
	default:
		return fault.New(fault.Unprocessable, "Choose an audience.")
	}
	if _, _, ok := m.campaign(); ok {
		if err := m.checkCampaign(); err != nil {
			return err
		}
	}
	if m.Kind == "" {
		return fault.New(fault.Unprocessable, "Choose a kind: recipients unsubscribe by kind.")
	}
	if strings.TrimSpace(m.Text) == "" && strings.TrimSpace(m.HTML) == "" {
		return fault.New(fault.Unprocessable, "Write a text or HTML.")
	}
	return nil
}

// command returns the line of the ingot client that sends the same.
func (m *message) command() string {
	if senderID, _, ok := m.campaign(); ok {
		return `curl -X POST "$N/senders/` + url.PathEscape(senderID) +
			`/campaigns" -H "$A" -H 'X-NOTIFICATIONS-VERSION: 2' -d @campaign.json`
	}
	words := []string{"ingot", "notifications", "send", m.Kind}
	switch m.To {
	case toEveryone:
		words = append(words, "--everyone")
	case toOrg:
		words = append(words, "--org", m.Org)
		if m.Role != "" {
			words = append(words, "--role", m.Role)
		}
	default:
		words = append(words, "--"+m.To, m.id())
	}
	if m.Subject != "" {
		words = append(words, "--subject", m.Subject)
	}
	if m.Text != "" {
		words = append(words, "--text", m.Text)
	}
	if m.HTML != "" {
		words = append(words, "--html", m.HTML)
	}
	return page.Command(words...)
}

// place is a space with the name of its org.
type place struct{ GUID, Name string }

type sendData struct {
	*message
	Error       string
	Kinds       []kind
	Senders     []sender
	KindsKnown  bool
	Spaces      []place
	Orgs        []cfapi.Thing
	Roles       []string
	MayWrite    bool
	MayEmail    bool
	MayRegister bool
}

// newSend is GET /console/notifications/send.
func (c pages) newSend(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.sendForm(w, r, s, http.StatusOK, &message{To: toUser, User: s.UserName}, "")
}

// editSend is POST /console/notifications/send/edit: back from the review to the form.
func (c pages) editSend(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return c.sendForm(w, r, s, http.StatusOK, messageOf(r), "")
}

// sendForm shows the form of a message.
func (c pages) sendForm(w http.ResponseWriter, r *http.Request, s *page.Session, status int, m *message,
	problem string) error {
	if err := need(s, scopeNotifyWrite, scopeEmailsWrite); err != nil {
		return err
	}
	d := &sendData{
		message: m, Error: problem, Roles: []string{"OrgManager", "OrgAuditor", "BillingManager"},
		MayWrite: s.Has(scopeNotifyWrite), MayEmail: s.Has(scopeEmailsWrite), MayRegister: s.Has(scopeNotifyManage),
		KindsKnown: s.Has(scopeNotifyManage),
	}
	var spaces []cfapi.Space
	platform := c.Platform(r, s)
	err := page.Together(
		func() error {
			if !d.KindsKnown {
				return nil
			}
			sources, err := sourcesOf(c.Notifications(r, s))
			d.Kinds = kindsOf(sources, page.ClientID)
			return err
		},
		func() (err error) {
			if d.MayWrite {
				d.Senders, err = sendersOf(c.Notifications(r, s))
			}
			return err
		},
		page.List(platform, &spaces, "/v3/spaces", nil),
		page.List(platform, &d.Orgs, "/v3/organizations", nil),
	)
	if err != nil {
		return err
	}
	d.Spaces = placesOf(spaces, d.Orgs)
	return c.showNotifications(w, r, s, status, "send.html", "Sends", page.Page{Title: "Send a notification", Data: d})
}

// placesOf returns spaces with the names of their orgs, in order.
func placesOf(spaces []cfapi.Space, orgs []cfapi.Thing) []place {
	names := cfapi.Names(orgs)
	list := make([]place, 0, len(spaces))
	for _, s := range spaces {
		list = append(list, place{s.GUID, names[s.Relationships.Organization.GUID()] + " / " + s.Name})
	}
	slices.SortFunc(list, func(a, b place) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// reviewData is what is shown before a message is sent.
type reviewData struct {
	*message
	KindName   string
	Audience   string
	Recipients int
	More       bool
	Confirm    string // what has to be typed; empty if nothing has
	Problem    string
	Command    string
}

// confirmEveryone is what has to be typed before a message to everyone is sent.
const confirmEveryone = "everyone"

// audience is an audience with its names.
type audience struct {
	Type      string `json:"type"`
	ID        string `json:"id"`
	Role      string `json:"role"`
	SpaceName string `json:"space_name"`
	OrgName   string `json:"org_name"`
}

// Words describes the audience.
func (a audience) Words() string {
	switch a.Type {
	case toEveryone:
		return "everyone"
	case toSpace:
		return "the space " + cmp.Or(a.SpaceName, a.ID) + " in " + a.OrgName
	case toOrg:
		if a.Role != "" {
			return "users with the role " + a.Role + " in the organization " + cmp.Or(a.OrgName, a.ID)
		}
		return "the organization " + cmp.Or(a.OrgName, a.ID)
	case toScope:
		return "users with the scope " + a.ID
	case toEmail:
		return "the address " + a.ID
	}
	return "the " + a.Type + " " + a.ID
}

// reviewSend is POST /console/notifications/send/check: it shows how many recipients a message has
// before it is sent.
func (c pages) reviewSend(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	m := messageOf(r)
	m.Key = page.RandomText()
	d, err := c.review(r, s, m)
	if err != nil {
		return c.orForm(w, r, s, m, err)
	}
	return c.showNotifications(w, r, s, http.StatusOK, "review.html", "Sends",
		page.Page{Title: "Check before sending", Data: d})
}

// orForm shows an error in the form of the message, which keeps what was written.
func (c pages) orForm(w http.ResponseWriter, r *http.Request, s *page.Session, m *message, err error) error {
	text, ok := forUsers(err)
	if !ok {
		return err
	}
	return c.sendForm(w, r, s, http.StatusUnprocessableEntity, m, text)
}

func (c pages) review(r *http.Request, s *page.Session, m *message) (*reviewData, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	name := m.User
	if m.To == toUser {
		guid, err := c.userGUID(r, s, m.User)
		if err != nil {
			return nil, err
		}
		m.User = guid
	}
	var answer struct {
		Audience   audience
		Recipients int
		More       bool
	}
	q := url.Values{"type": {m.To}}
	if id := m.id(); id != "" {
		q.Set("id", id)
	}
	if m.To == toOrg {
		q.Set("role", m.Role)
	}
	if err := c.Notifications(r, s).Get(&answer, "/audience", q); err != nil {
		m.User = name
		return nil, err
	}
	d := &reviewData{message: m, KindName: m.Kind, Audience: answer.Audience.Words(), Recipients: answer.Recipients,
		More: answer.More, Command: m.command()}
	if m.To == toUser {
		d.Audience = "the user " + name
	}
	if m.To == toEveryone {
		d.Confirm = confirmEveryone
	}
	if _, _, ok := m.campaign(); ok {
		senders, err := sendersOf(c.Notifications(r, s))
		if err != nil {
			return nil, err
		}
		d.KindName = campaignName(senders, m.Kind)
	}
	return d, nil
}

// campaignName returns the names of the sender and the type of a campaign.
func campaignName(senders []sender, key string) string {
	for _, one := range senders {
		for _, t := range one.Types {
			if t.Key == key {
				return one.Name + " / " + t.Name
			}
		}
	}
	return key
}

// userGUID returns the guid of a user by name or guid.
func (c pages) userGUID(r *http.Request, s *page.Session, name string) (string, error) {
	if name == s.UserName {
		return s.UserID, nil
	}
	type user struct {
		GUID string `json:"guid"`
	}
	found, err := page.All[user](c.Platform(r, s), "/v3/users", url.Values{"usernames": {name}})
	switch {
	case err != nil:
		return "", err
	case len(found) > 1:
		return "", fault.New(fault.Unprocessable, "Several users are named %s. Use a guid.", name)
	case len(found) == 1:
		return found[0].GUID, nil
	}
	return name, nil // it may be a guid; the count tells
}

// deliver is POST /console/notifications/send/deliver.
func (c pages) deliver(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	m := messageOf(r)
	if err := m.check(); err != nil {
		return c.orForm(w, r, s, m, err)
	}
	if m.To == toEveryone && strings.TrimSpace(r.PostForm.Get("confirm")) != confirmEveryone {
		d, err := c.review(r, s, m)
		if err != nil {
			return c.orForm(w, r, s, m, err)
		}
		d.Problem = "Nothing was sent. Type the word " + confirmEveryone + " to send to everyone."
		return c.showNotifications(w, r, s, http.StatusUnprocessableEntity, "review.html", "Sends",
			page.Page{Title: "Check before sending", Data: d})
	}
	id, err := sendMessage(c.Notifications(r, s), m)
	if err != nil {
		return c.orForm(w, r, s, m, err)
	}
	http.Redirect(w, r, notificationsPath+"/sends/"+url.PathEscape(id), http.StatusSeeOther)
	return nil
}

// sendMessage sends a message and returns the id of the send.
func sendMessage(c *page.Caller, m *message) (string, error) {
	var made struct{ ID string }
	header := map[string]string{"Prefer": "respond-async"}
	if m.Key != "" {
		header["Idempotency-Key"] = m.Key
	}
	if senderID, typeID, ok := m.campaign(); ok {
		maps.Copy(header, secondVersion)
		err := c.With(header, http.MethodPost, "/senders/"+url.PathEscape(senderID)+"/campaigns",
			m.campaignBody(typeID), &made)
		return made.ID, err
	}
	body := map[string]string{"kind_id": m.Kind, "subject": m.Subject, "text": m.Text, "html": m.HTML,
		"reply_to": m.ReplyTo}
	if m.To == toOrg {
		body["role"] = m.Role
	}
	if m.To == toEmail {
		body["to"] = m.Email
	}
	err := c.With(header, http.MethodPost, m.path(), body, &made)
	return made.ID, err
}
