package httpext

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// registerTopics adds the routes of topics, for clients. Users choose topics with their preferences.
func (f *handlers) registerTopics(g *web.Group) {
	reader, manager := web.Scope(scopeWrite, scopeManage, scopeAdmin), web.Scope(scopeManage)
	subscriber := web.Scope(scopeWrite, scopeManage)
	g.Handle("GET", "/topics", reader, f.listTopics)
	g.Handle("GET", "/topics/{topic}", reader, f.showTopic)
	g.Handle("PUT", "/topics/{topic}", manager, f.setTopic)
	g.Handle("DELETE", "/topics/{topic}", web.Scope(scopeManage, scopeAdmin), f.deleteTopic)
	g.Handle("GET", "/topics/{topic}/subscribers", reader, f.listSubscribers)
	g.Handle("POST", "/topics/{topic}/subscribers", subscriber, f.subscribe)
	g.Handle("DELETE", "/topics/{topic}/subscribers/{subscriber}", subscriber, f.removeSubscriber)
	g.Within(sendLimits).Storing().Handle("POST", "/topics/{topic}/sends", web.Scope(scopeWrite), f.sendToTopic)
}

type topicBody struct {
	Name          string          `json:"name"`
	ClientID      string          `json:"client_id"`
	Description   string          `json:"description"`
	SelfSubscribe bool            `json:"self_subscribe"`
	Subscribers   int             `json:"subscribers"`
	Created       time.Time       `json:"created_at"`
	Updated       time.Time       `json:"updated_at"`
	Links         map[string]link `json:"_links"`
}

func presentTopic(t notify.Topic) topicBody {
	self := "/topics/" + url.PathEscape(t.Name)
	return topicBody{t.Name, t.ClientID, t.Description, !t.Closed, t.Subscribers, t.Created.UTC(), t.Updated.UTC(),
		map[string]link{"self": {self}, "subscribers": {self + "/subscribers"}}}
}

// topicOf returns the topic of a request, of the client in client_id for administrators, and its other parameters.
func topicOf(r *http.Request, known ...string) (notify.TopicRef, url.Values, error) {
	q, err := readQuery(r, append(known, "client_id")...)
	if err != nil {
		return notify.TopicRef{}, nil, err
	}
	id, all, err := owner(r, q)
	if err == nil && all {
		err = fault.New(fault.BadQuery, `"client_id" must be one client here.`)
	}
	return notify.TopicRef{ClientID: id, Name: web.Param(r, "topic")}, q, err
}

func (f *handlers) listTopics(w http.ResponseWriter, r *http.Request) error {
	of, q, err := topicOf(r, "limit", "after")
	if err != nil {
		return err
	}
	limit, err := limitOf(q)
	if err != nil {
		return err
	}
	list, err := f.Store.ListTopics(r.Context(), of.ClientID, q.Get("after"), limit)
	if err != nil {
		return err
	}
	return writePage(w, r, "topics", list, presentTopic, limit, func(t topicBody) string { return t.Name })
}

func (f *handlers) showTopic(w http.ResponseWriter, r *http.Request) error {
	ref, _, err := topicOf(r)
	if err != nil {
		return err
	}
	t, err := f.Store.Topic(r.Context(), ref)
	return web.Answer(w, http.StatusOK, presentTopic(t), actions.NoTopic(err, ref.Name))
}

// setTopic creates a topic, or changes it. Its subscribers stay.
func (f *handlers) setTopic(w http.ResponseWriter, r *http.Request) error {
	ref := notify.TopicRef{ClientID: client(r), Name: web.Param(r, "topic")}
	if !recurringName().MatchString(ref.Name) {
		return fault.Invalid("the name of a topic may have 1 to 100 characters: A-Z, a-z, digits, dots, hyphens and " +
			"underscores")
	}
	var body struct {
		Description   string `json:"description"`
		SelfSubscribe *bool  `json:"self_subscribe"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	now := time.Now()
	t := notify.Topic{TopicRef: ref, Description: body.Description, Created: now, Updated: now,
		Closed: body.SelfSubscribe != nil && !*body.SelfSubscribe}
	if err := t.Check(); err != nil {
		return err
	}
	created, err := f.Store.SetTopic(r.Context(), t)
	if errors.Is(err, notify.ErrTooMany) {
		return fault.Wrap(err, fault.Unprocessable, "The client %q has %d topics, which is the limit: delete one first",
			ref.ClientID, notify.MaxTopics)
	}
	if err != nil {
		return err
	}
	status := http.StatusOK
	if created {
		status = http.StatusCreated
	}
	t, err = f.Store.Topic(r.Context(), ref)
	return web.Answer(w, status, presentTopic(t), actions.NoTopic(err, ref.Name))
}

func (f *handlers) deleteTopic(w http.ResponseWriter, r *http.Request) error {
	ref, _, err := topicOf(r)
	if err != nil {
		return err
	}
	return web.Answer(w, http.StatusNoContent, nil, actions.NoTopic(f.Store.DeleteTopic(r.Context(), ref), ref.Name))
}

type subscriberBody struct {
	User  string     `json:"user,omitempty"`
	Email string     `json:"email,omitempty"`
	Since *time.Time `json:"since,omitempty"`
}

func (f *handlers) listSubscribers(w http.ResponseWriter, r *http.Request) error {
	ref, q, err := topicOf(r, "limit", "after")
	if err != nil {
		return err
	}
	limit, err := limitOf(q)
	if err != nil {
		return err
	}
	list, err := f.Store.TopicMembers(r.Context(), ref, q.Get("after"), limit)
	if err != nil {
		return actions.NoTopic(err, ref.Name)
	}
	present := func(m notify.TopicMember) subscriberBody {
		since := m.Since.UTC()
		return subscriberBody{m.UserID, m.Email, &since}
	}
	last := ""
	if len(list) > 0 {
		last = list[len(list)-1].ID
	}
	return writePage(w, r, "subscribers", list, present, limit, func(subscriberBody) string { return last })
}

// subscribe subscribes users and addresses in the name of the client.
func (f *handlers) subscribe(w http.ResponseWriter, r *http.Request) error {
	ref := notify.TopicRef{ClientID: client(r), Name: web.Param(r, "topic")}
	var body struct {
		Subscribers []subscriberBody `json:"subscribers"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if n := len(body.Subscribers); n == 0 || n > notify.MaxSubscribing {
		return fault.Invalid(fmt.Sprintf(`"subscribers" must have 1 to %d entries, and has %d`, notify.MaxSubscribing, n))
	}
	all := make([]string, len(body.Subscribers))
	var problems []string
	for i, s := range body.Subscribers {
		var why string
		if all[i], why = s.id(); why != "" {
			problems = append(problems, fmt.Sprintf("subscriber %d %s", i+1, why))
		}
	}
	if err := fault.Invalid(problems...); err != nil {
		return err
	}
	did, err := f.Store.Subscribe(r.Context(), ref, all)
	if errors.Is(err, notify.ErrTooMany) {
		return fault.Wrap(err, fault.Unprocessable,
			"The topics of the client %q may have %d subscribers together, with those who left; no one was subscribed",
			ref.ClientID, notify.MaxSubscribers)
	}
	return web.Answer(w, http.StatusOK, map[string]int{"subscribed": did.Added, "already": did.Already, "left": did.Left},
		actions.NoTopic(err, ref.Name))
}

// id returns what the subscriber is stored under, or what is wrong with it.
func (s *subscriberBody) id() (id, why string) {
	switch {
	case (s.User == "") == (s.Email == ""):
		return "", `needs either "user" or "email"`
	case s.Since != nil:
		return "", `has "since", which the service sets`
	case s.Email != "" && !notify.UsableAddress(s.Email):
		return "", fmt.Sprintf("has the email %.300q, which is not a valid address", s.Email)
	case s.Email != "":
		return notify.AddressSubscriber(s.Email), ""
	case strings.HasPrefix(s.User, notify.AddressScheme):
		return "", `has an address as "user": use "email"`
	}
	return s.User, notify.UserProblem(s.User)
}

func (f *handlers) removeSubscriber(w http.ResponseWriter, r *http.Request) error {
	ref := notify.TopicRef{ClientID: client(r), Name: web.Param(r, "topic")}
	named := web.Param(r, "subscriber")
	id := named
	if address, ok := strings.CutPrefix(named, notify.AddressScheme); ok {
		id = notify.AddressSubscriber(address)
	}
	err := f.Store.RemoveSubscriber(r.Context(), ref, id)
	if errors.Is(err, notify.ErrNotFound) {
		err = fault.Wrap(err, fault.NotFound, "%.300q is not subscribed to the topic %q", named, ref.Name)
	}
	return web.Answer(w, http.StatusNoContent, nil, err)
}

// topicWishes adds what a request changes about topics, or its problems. Closed topics that the user has nothing to do
// with do not exist for them.
func (f *handlers) topicWishes(ctx context.Context, to *notify.PreferenceChange, user string, body preferenceChange,
	problems *[]string) error {
	to.Topics = map[notify.TopicRef]bool{}
	var chosen map[notify.TopicRef]bool // looked up when it is needed
	for clientID, of := range sortedPairs(body.Clients) {
		for name, wish := range sortedPairs(of.Topics) {
			ref := notify.TopicRef{ClientID: clientID, Name: name}
			path := "clients." + clientID + ".topics." + name
			if chosen == nil {
				list, err := f.Store.TopicsOf(ctx, user)
				if err != nil {
					return err
				}
				chosen = map[notify.TopicRef]bool{}
				for _, t := range list {
					chosen[t.TopicRef] = true
				}
			}
			there := chosen[ref]
			if !there && !strings.HasPrefix(user, notify.AddressScheme) {
				t, err := f.Store.Topic(ctx, ref)
				if err != nil && !errors.Is(err, notify.ErrNotFound) {
					return err
				}
				there = err == nil && !t.Closed && clientID != ""
			}
			switch {
			case !there:
				*problems = append(*problems, path+": there is no such topic")
			case wish.Subscribed == nil:
				*problems = append(*problems, path+".subscribed: it must be true or false")
			default:
				to.Topics[ref] = *wish.Subscribed
			}
		}
	}
	return nil
}

// choiceBody is what a recipient chose about a topic.
type choiceBody struct {
	ClientID   string    `json:"client_id"`
	Topic      string    `json:"topic"`
	Subscribed bool      `json:"subscribed"`
	Since      time.Time `json:"since"`
	// Kept: only a hash is stored.
	Kept bool `json:"kept"`
}

func presentChoice(c notify.TopicChoice) choiceBody {
	return choiceBody{c.ClientID, c.Name, c.Subscribed, c.Since.UTC(), c.Kept}
}
