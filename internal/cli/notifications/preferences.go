package notifications

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// preferencesFlags say which subscriptions to change, and whose.
type preferencesFlags struct {
	notifyFlags
	User        string   `long:"user" value-name:"ID" description:"Another user's, or mailto:ADDRESS; requires the scope notification_preferences.admin"`
	Unsubscribe []string `long:"unsubscribe" value-name:"CLIENT/KIND" description:"Unsubscribe from this kind; 'all' means every kind that is not critical"`
	Subscribe   []string `long:"subscribe" value-name:"CLIENT/KIND" description:"Subscribe to this kind; 'all' reverts --unsubscribe all"`
	Off         []string `long:"off" value-name:"CLIENT/KIND/CHANNEL" description:"Turn one channel of this kind off, such as email"`
	On          []string `long:"on" value-name:"CLIENT/KIND/CHANNEL" description:"Turn one channel of this kind on"`
	Digest      []string `long:"digest" value-name:"CLIENT/KIND=CHOICE" description:"How to get this kind: default, at_once, hourly, daily or weekly, if its client lets you choose"`
	Track       []string `long:"allow-tracking" value-name:"CLIENT/KIND" description:"Allow that your opens and clicks of this kind are counted"`
	Untrack     []string `long:"refuse-tracking" value-name:"CLIENT/KIND" description:"Do not allow that any more"`
	Join        []string `long:"join" value-name:"CLIENT/TOPIC" description:"Subscribe to this topic"`
	Leave       []string `long:"leave" value-name:"CLIENT/TOPIC" description:"Leave this topic; its client cannot subscribe you again"`
	Quiet       string   `long:"quiet-hours" value-name:"FROM-TO" description:"Set quiet hours such as 22:00-07:00; 'off' deletes them"`
	Zone        string   `long:"zone" value-name:"ZONE" description:"Time zone for --quiet-hours, such as Europe/Berlin"`
	Days        string   `long:"quiet-days" value-name:"LIST" description:"Days on which the quiet hours begin, such as mon,tue (default: all)"`
	Channels    string   `long:"quiet-channels" value-name:"LIST" description:"Channels that wait in quiet hours (default: all but inbox)"`
}

type preference struct {
	Description string          `json:"description"`
	Source      string          `json:"source_description"`
	Subscribed  bool            `json:"subscribed"`
	Channels    map[string]bool `json:"channels"`
	// Digest is one of DigestChoices, if the user may choose.
	Digest        string   `json:"digest,omitempty"`
	DigestChoices []string `json:"digest_choices,omitempty"`
	// Tracking is whether opens and clicks may be counted, if the kind counts them.
	Tracking *bool `json:"tracking,omitempty"`
}

// quietHours are when messages wait.
type quietHours struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Zone     string   `json:"zone"`
	Days     []string `json:"days,omitempty"`
	Channels []string `json:"channels,omitempty"`
}

func (q *quietHours) String() string {
	text := q.From + " to " + q.To + " (" + q.Zone + ")"
	if len(q.Days) > 0 {
		text += " on " + strings.Join(q.Days, ", ")
	}
	if len(q.Channels) > 0 {
		text += ", only " + strings.Join(q.Channels, ", ")
	}
	return text
}

type preferences struct {
	UserID  string      `json:"user_id"`
	Global  bool        `json:"global_unsubscribe"`
	Quiet   *quietHours `json:"quiet_hours,omitempty"`
	Clients map[string]struct {
		Kinds         map[string]preference `json:"kinds"`
		CampaignTypes map[string]preference `json:"campaign_types"`
		Topics        map[string]topicState `json:"topics,omitempty"`
	} `json:"clients"`
}

// topicState is whether the user is subscribed to a topic.
type topicState struct {
	Description string `json:"description"`
	Source      string `json:"source_description"`
	Subscribed  bool   `json:"subscribed"`
}

func (r *preferences) Show(p *term.Printer) {
	if r.Global {
		p.Println("Unsubscribed from all notifications that are not critical.")
	}
	if r.Quiet != nil {
		p.Println("Quiet hours: " + r.Quiet.String())
	}
	if len(r.Clients) == 0 {
		p.Println("No notifications received yet.")
		return
	}
	t := term.Table{Heading: []string{"client", "kind", "description", "subscribed", "channels", "turned off"}}
	digests := term.Table{Heading: []string{"client", "kind", "digest", "choices"}}
	for _, id := range core.SortedKeys(r.Clients) {
		for _, all := range []map[string]preference{r.Clients[id].Kinds, r.Clients[id].CampaignTypes} {
			for _, kind := range core.SortedKeys(all) {
				k := all[kind]
				by := map[bool][]string{}
				for _, name := range core.SortedKeys(k.Channels) {
					by[k.Channels[name]] = append(by[k.Channels[name]], name)
				}
				t.Rows = append(t.Rows, term.Cells(id, kind, k.Description, yesNo(k.Subscribed), strings.Join(by[true], ", "),
					strings.Join(by[false], ", ")))
				if len(k.DigestChoices) > 0 {
					digests.Rows = append(digests.Rows, term.Cells(id, kind, k.Digest, strings.Join(k.DigestChoices, ", ")))
				}
			}
		}
	}
	counted := term.Table{Heading: []string{"client", "kind", "opens and clicks may be counted"}}
	for _, id := range core.SortedKeys(r.Clients) {
		for _, kind := range core.SortedKeys(r.Clients[id].Kinds) {
			if may := r.Clients[id].Kinds[kind].Tracking; may != nil {
				counted.Rows = append(counted.Rows, term.Cells(id, kind, yesNo(*may)))
			}
		}
	}
	topics := term.Table{Heading: []string{"client", "topic", "description", "subscribed"}}
	for _, id := range core.SortedKeys(r.Clients) {
		for _, name := range core.SortedKeys(r.Clients[id].Topics) {
			one := r.Clients[id].Topics[name]
			topics.Rows = append(topics.Rows, term.Cells(id, name, one.Description, yesNo(one.Subscribed)))
		}
	}
	for _, table := range []term.Table{t, digests, counted, topics} {
		if len(table.Rows) > 0 {
			p.Println("")
			p.Table(table)
		}
	}
}

// kindWish is what to change about a kind.
type kindWish struct {
	Subscribed *bool           `json:"subscribed,omitempty"`
	Channels   map[string]bool `json:"channels,omitempty"`
	Digest     string          `json:"digest,omitempty"`
	Tracking   *bool           `json:"tracking,omitempty"`
}

type clientWishes struct {
	Kinds         map[string]*kindWish `json:"kinds,omitempty"`
	CampaignTypes map[string]*kindWish `json:"campaign_types,omitempty"`
	Topics        map[string]topicWish `json:"topics,omitempty"`
}

// topicWish subscribes to a topic or leaves it.
type topicWish struct {
	Subscribed bool `json:"subscribed"`
}

// wishes is the body of a change.
type wishes struct {
	Global *bool `json:"global_unsubscribe,omitempty"`
	// Quiet is null to delete the quiet hours.
	Quiet   json.RawMessage          `json:"quiet_hours,omitempty"`
	Clients map[string]*clientWishes `json:"clients,omitempty"`
}

// client returns the wishes about what a client sends.
func (w *wishes) client(id string) *clientWishes {
	if w.Clients[id] == nil {
		w.Clients[id] = &clientWishes{map[string]*kindWish{}, map[string]*kindWish{}, map[string]topicWish{}}
	}
	return w.Clients[id]
}

// of returns the wish about a kind of now, or about a campaign type.
func (w *wishes) of(now *preferences, client, kind string) *kindWish {
	all := w.client(client).Kinds
	if _, ok := now.Clients[client].CampaignTypes[kind]; ok {
		all = w.client(client).CampaignTypes
	}
	if all[kind] == nil {
		all[kind] = &kindWish{Channels: map[string]bool{}}
	}
	return all[kind]
}

// wishes returns what the flags change.
func (f *preferencesFlags) wishes(now *preferences) (*wishes, error) {
	change := &wishes{Clients: map[string]*clientWishes{}}
	for _, one := range []struct {
		names []string
		on    bool
	}{{f.Unsubscribe, false}, {f.Subscribe, true}} {
		for _, name := range one.names {
			if name == "all" {
				off := !one.on
				change.Global = &off
				continue
			}
			id, kind, ok := strings.Cut(name, "/")
			if !ok {
				return nil, core.UsageError("expected CLIENT/KIND, got " + name)
			}
			change.of(now, id, kind).Subscribed = &one.on
		}
	}
	for _, one := range []struct {
		names []string
		on    bool
	}{{f.Off, false}, {f.On, true}} {
		for _, name := range one.names {
			parts := strings.Split(name, "/")
			if len(parts) != 3 {
				return nil, core.UsageError("expected CLIENT/KIND/CHANNEL, got " + name)
			}
			change.of(now, parts[0], parts[1]).Channels[parts[2]] = one.on
		}
	}
	for _, text := range f.Digest {
		name, choice, ok := strings.Cut(text, "=")
		id, kind, slash := strings.Cut(name, "/")
		if !ok || !slash || choice == "" {
			return nil, core.UsageError("expected CLIENT/KIND=CHOICE, got " + text)
		}
		change.of(now, id, kind).Digest = choice
	}
	for _, one := range []struct {
		names []string
		may   bool
	}{{f.Untrack, false}, {f.Track, true}} {
		for _, name := range one.names {
			id, kind, ok := strings.Cut(name, "/")
			if !ok {
				return nil, core.UsageError("expected CLIENT/KIND, got " + name)
			}
			change.of(now, id, kind).Tracking = &one.may
		}
	}
	return change, f.rest(change)
}

// rest adds what the flags change about topics and quiet hours.
func (f *preferencesFlags) rest(change *wishes) error {
	for _, one := range []struct {
		names []string
		on    bool
	}{{f.Leave, false}, {f.Join, true}} {
		for _, name := range one.names {
			id, topic, ok := strings.Cut(name, "/")
			if !ok {
				return core.UsageError("expected CLIENT/TOPIC, got " + name)
			}
			change.client(id).Topics[topic] = topicWish{one.on}
		}
	}
	return f.quiet(change)
}

// quiet adds what the flags change about quiet hours.
func (f *preferencesFlags) quiet(to *wishes) (err error) {
	switch {
	case f.Quiet == "" && f.Zone+f.Days+f.Channels != "":
		return core.UsageError("--zone, --quiet-days and --quiet-channels need --quiet-hours")
	case f.Quiet == "":
		return nil
	case f.Quiet == "off":
		to.Quiet = json.RawMessage("null")
		return nil
	}
	from, until, ok := strings.Cut(f.Quiet, "-")
	if !ok || f.Zone == "" {
		return core.UsageError("--quiet-hours needs two times and --zone, such as " +
			"--quiet-hours 22:00-07:00 --zone Europe/Berlin")
	}
	q := quietHours{From: from, To: until, Zone: f.Zone}
	if f.Days != "" {
		q.Days = strings.Split(f.Days, ",")
	}
	if f.Channels != "" {
		q.Channels = strings.Split(f.Channels, ",")
	}
	to.Quiet, err = json.Marshal(q)
	return err
}

// preferences sends a request about the preferences of the user: as the logged-in user for their own, otherwise
// as the client, if there is one.
func (f *preferencesFlags) preferences(ctx context.Context, s *core.Session, method string, body any,
	into *preferences) error {
	base, err := f.base(ctx, s)
	if err != nil {
		return err
	}
	call := client.Call{Method: method, URL: base + "/preferences", Body: body, Into: into}
	if f.User != "" {
		call.URL += "/" + url.PathEscape(f.User)
		if cmp.Or(f.Client, s.Env.Getenv("INGOT_NOTIFICATIONS_CLIENT")) != "" {
			if call.Token, err = f.token(ctx, s); err != nil {
				return err
			}
		}
	}
	if call.Token == "" {
		if err := s.Check(core.NeedsLogin); err != nil {
			return err
		}
	}
	_, err = s.API.Do(ctx, call)
	return f.explain(base, err)
}

func changePreferences(ctx context.Context, s *core.Session, _ core.Words, f *preferencesFlags) (core.Result, error) {
	if f.Client != "" && f.User == "" {
		return nil, core.UsageError("--client needs --user: a client has no preferences")
	}
	now := &preferences{}
	if err := f.preferences(ctx, s, http.MethodGet, nil, now); err != nil {
		return nil, err
	}
	if len(f.Subscribe)+len(f.Unsubscribe)+len(f.Off)+len(f.On)+len(f.Digest)+len(f.Join)+len(f.Leave)+
		len(f.Track)+len(f.Untrack)+
		len(f.Quiet+f.Zone+f.Days+f.Channels) > 0 {
		change, err := f.wishes(now)
		if err != nil {
			return nil, err
		}
		now = &preferences{}
		if err := f.preferences(ctx, s, http.MethodPatch, change, now); err != nil {
			return nil, err
		}
		s.OK()
	}
	return now, nil
}
