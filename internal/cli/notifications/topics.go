package notifications

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// notifications topics

type topicsFlags struct {
	notifyFlags
	Set         string   `long:"set" value-name:"NAME" description:"Declare a topic, or change what is given of it"`
	Description *string  `long:"description" value-name:"TEXT" description:"With --set: what users see; an empty value removes it"`
	Closed      bool     `long:"closed" description:"With --set: users cannot subscribe themselves"`
	Open        bool     `long:"open" description:"With --set: users can subscribe themselves (default of a new topic)"`
	Delete      string   `long:"delete" value-name:"NAME" description:"Delete a topic with its subscribers"`
	Subscribers string   `long:"subscribers" value-name:"NAME" description:"List who is subscribed to a topic"`
	Subscribe   string   `long:"subscribe" value-name:"NAME" description:"Subscribe those of --user and --email to a topic"`
	Unsubscribe string   `long:"unsubscribe" value-name:"NAME" description:"Remove those of --user and --email from a topic"`
	User        []string `long:"user" value-name:"ID" description:"Guid of a user; may be repeated"`
	Email       []string `long:"email" value-name:"ADDRESS" description:"Address; may be repeated"`
}

type topicRow struct {
	Name          string `json:"name"`
	ClientID      string `json:"client_id"`
	Description   string `json:"description"`
	SelfSubscribe bool   `json:"self_subscribe"`
	Subscribers   int    `json:"subscribers"`
}

func (t *topicRow) Show(p *term.Printer) {
	p.Pairs([2]string{"topic", p.Bold(t.Name)}, [2]string{"description", t.Description},
		[2]string{"users subscribe", yesNo(t.SelfSubscribe)}, [2]string{"subscribers", strconv.Itoa(t.Subscribers)})
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}

// subscriberRow is a user or an address.
type subscriberRow struct {
	User  string `json:"user,omitempty"`
	Email string `json:"email,omitempty"`
	Since string `json:"since,omitempty"`
}

// subscribing is how many were subscribed.
type subscribing struct {
	Subscribed int `json:"subscribed"`
	Already    int `json:"already"`
	Left       int `json:"left"`
}

func (r *subscribing) Show(p *term.Printer) {
	p.Println(fmt.Sprintf("Subscribed: %d, before: %d", r.Subscribed, r.Already))
	if r.Left > 0 {
		p.Println(fmt.Sprintf("Not subscribed, because they left the topic themselves: %d", r.Left))
	}
}

func topicPath(name string) string { return "/topics/" + url.PathEscape(name) }

func changeTopics(ctx context.Context, s *core.Session, _ core.Words, f *topicsFlags) (core.Result, error) {
	actions := 0
	for _, name := range []string{f.Set, f.Delete, f.Subscribers, f.Subscribe, f.Unsubscribe} {
		if name != "" {
			actions++
		}
	}
	named := len(f.User) + len(f.Email)
	switch {
	case actions > 1:
		return nil, core.UsageError("--set, --delete, --subscribers, --subscribe and --unsubscribe cannot be used together")
	case f.Set == "" && (f.Description != nil || f.Closed || f.Open):
		return nil, core.UsageError("--description, --closed and --open need --set")
	case f.Closed && f.Open:
		return nil, core.UsageError("--closed and --open cannot be used together")
	case (f.Subscribe+f.Unsubscribe != "") != (named > 0):
		return nil, core.UsageError("--subscribe and --unsubscribe need --user or --email, and these need one of them")
	case f.Set != "":
		return f.setTopic(ctx, s)
	case f.Subscribers != "":
		s.Say("Getting the subscribers of topic %s...", s.Out.Bold(f.Subscribers))
		return f.listSubscribers(ctx, s)
	case f.Subscribe != "":
		return f.subscribe(ctx, s)
	case f.Unsubscribe != "":
		s.Say("Removing subscribers of topic %s...", s.Out.Bold(f.Unsubscribe))
		for _, r := range f.named() {
			id := r.User
			if r.Email != "" {
				id = "mailto:" + r.Email
			}
			path := topicPath(f.Unsubscribe) + "/subscribers/" + url.PathEscape(id)
			if err := f.call(ctx, s, http.MethodDelete, path, nil, nil); err != nil {
				return nil, err
			}
		}
		s.OK()
		return f.showTopic(ctx, s, f.Unsubscribe)
	case f.Delete != "":
		s.Say("Deleting topic %s...", s.Out.Bold(f.Delete))
		if err := f.call(ctx, s, http.MethodDelete, topicPath(f.Delete), nil, nil); err != nil {
			return nil, err
		}
		s.OK()
	default:
		s.Say("Getting topics...")
	}
	return f.listTopics(ctx, s)
}

// named returns those of --user and --email.
func (f *topicsFlags) named() (all []subscriberRow) {
	for _, id := range f.User {
		all = append(all, subscriberRow{User: id})
	}
	for _, address := range f.Email {
		all = append(all, subscriberRow{Email: address})
	}
	return all
}

func (f *topicsFlags) showTopic(ctx context.Context, s *core.Session, name string) (core.Result, error) {
	out := &topicRow{}
	return out, f.call(ctx, s, http.MethodGet, topicPath(name), nil, out)
}

// setTopic changes what is given, and keeps the rest: the request replaces the whole topic.
func (f *topicsFlags) setTopic(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Say("Setting topic %s...", s.Out.Bold(f.Set))
	have := &topicRow{SelfSubscribe: true} // of a new topic
	err := f.call(ctx, s, http.MethodGet, topicPath(f.Set), nil, have)
	if err != nil && client.Status(err) != http.StatusNotFound {
		return nil, err
	}
	out := &topicRow{}
	body := map[string]any{"description": *cmp.Or(f.Description, &have.Description),
		"self_subscribe": f.Open || have.SelfSubscribe && !f.Closed}
	if err := f.call(ctx, s, http.MethodPut, topicPath(f.Set), body, out); err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}

func (f *topicsFlags) subscribe(ctx context.Context, s *core.Session) (core.Result, error) {
	s.Say("Subscribing to topic %s...", s.Out.Bold(f.Subscribe))
	out := &subscribing{}
	body := map[string]any{"subscribers": f.named()}
	if err := f.call(ctx, s, http.MethodPost, topicPath(f.Subscribe)+"/subscribers", body, out); err != nil {
		return nil, err
	}
	s.OK()
	return out, nil
}

// nextPage is where a list continues.
type nextPage struct {
	Links struct {
		Next struct {
			Href string `json:"href"`
		} `json:"next"`
	} `json:"_links"`
}

func (f *topicsFlags) listSubscribers(ctx context.Context, s *core.Session) (core.Result, error) {
	list := &core.Listing[subscriberRow]{Key: "subscribers", None: "This topic has no subscribers.",
		Heading: []string{"subscriber", "since"}, Paint: core.Plain,
		Cells: func(r subscriberRow) []string { return []string{r.User + r.Email, r.Since} }}
	for path := topicPath(f.Subscribers) + "/subscribers?limit=1000"; path != ""; {
		var page struct {
			nextPage
			Found []subscriberRow `json:"subscribers"`
		}
		if err := f.call(ctx, s, http.MethodGet, path, nil, &page); err != nil {
			return nil, err
		}
		list.Rows = append(list.Rows, page.Found...)
		path = page.Links.Next.Href
	}
	return list, nil
}

func (f *topicsFlags) listTopics(ctx context.Context, s *core.Session) (core.Result, error) {
	list := &core.Listing[topicRow]{Key: "topics", None: "No topics found.",
		Heading: []string{"topic", "description", "users subscribe", "subscribers"},
		Cells: func(t topicRow) []string {
			return []string{t.Name, t.Description, yesNo(t.SelfSubscribe), strconv.Itoa(t.Subscribers)}
		}}
	var page struct {
		Found []topicRow `json:"topics"`
	}
	// A client has no more.
	if err := f.call(ctx, s, http.MethodGet, "/topics?limit=1000", nil, &page); err != nil {
		return nil, err
	}
	list.Rows = page.Found
	return list, nil
}
