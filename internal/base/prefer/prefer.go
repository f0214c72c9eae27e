package prefer

import (
	"cmp"
	"embed"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
)

// Files has the template "prefer", whose argument is a Form. It contains the fields of the form, and no button.
//
//go:embed pages/*.html
var Files embed.FS

// Preferences are what GET /preferences answers.
type Preferences struct {
	Global  bool              `json:"global_unsubscribe"`
	Quiet   *QuietHours       `json:"quiet_hours"`
	Clients map[string]Client `json:"clients"`
}

// Client has the kinds and campaign types of a client, by their ids.
type Client struct {
	Kinds         map[string]Kind `json:"kinds"`
	CampaignTypes map[string]Kind `json:"campaign_types"`
	// Topics are those that the user may subscribe to or leave, by their names.
	Topics map[string]Topic `json:"topics"`
}

// Topic is whether a user is subscribed to a topic.
type Topic struct {
	Description string `json:"description"`
	Source      string `json:"source_description"`
	Subscribed  bool   `json:"subscribed"`
}

// Kind is what a user receives of a kind.
type Kind struct {
	Description string          `json:"description"`
	Source      string          `json:"source_description"`
	Subscribed  bool            `json:"subscribed"`
	Channels    map[string]bool `json:"channels"`
	// Digest is one of DigestChoices, if the user may choose.
	Digest        string   `json:"digest"`
	DigestChoices []string `json:"digest_choices"`
	// Tracking is whether opens and clicks may be counted; nil if the kind does not count them.
	Tracking *bool `json:"tracking"`
}

// QuietHours are when a user does not want to be disturbed.
type QuietHours struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Zone     string   `json:"zone"`
	Days     []string `json:"days,omitempty"`
	Channels []string `json:"channels,omitempty"`
}

// Form is what the form shows.
type Form struct {
	Problems []string
	// WasNone reports that the user wants nothing, and None that they are to.
	WasNone, None bool
	Sources       []source
	// View is the part that is shown, of Pages. Total counts the kinds and topics of all pages, and All those without a
	// search.
	View
	Pages, Total, All int
	// At is the address of the page; empty is that of the browser. Previous and Next are those of the pages beside this
	// one, or empty, and Whole is without a search.
	At, Previous, Next, Whole string
	// Long reports that there is more than one page, or a search.
	Long bool
	// Command does the same in a terminal, if it is to be shown.
	Command string
	Quiet   quietFields
}

type source struct {
	Name   string
	Kinds  []*kindFields
	Topics []*topicFields
}

type topicFields struct {
	Key, Title string
	// Was reports that the user is subscribed, and On that they want to be.
	Was, On bool
}

type kindFields struct {
	Key, Title string
	// Number is the place of the kind in the form.
	Number int
	// Off reports that the user has unsubscribed from it, and Leave that they want to.
	Off, Leave bool
	Channels   []choice
	// Had is how messages are collected, and Digests are the choices, if there are any; On marks the chosen one.
	Had     string
	Digests []choice
	// Tracks reports that opens and clicks are counted of those who allow it. Allowed reports that the user does, and
	// Allow that they want to.
	Tracks, Allowed, Allow bool
}

type choice struct {
	Name, Label string
	// Was reports that it is on, and On that it is to be.
	Was, On bool
	// Field is the name with the number of the kind.
	Field string
}

type quietFields struct {
	// Had are the quiet hours that the user has, as text; "" if none. On reports that they want some.
	Had            string
	On             bool
	From, To, Zone string
	Days, Channels []choice
}

// PerPage limits the kinds and topics that one form shows.
const PerPage = 100

var (
	channels = []choice{{Name: "email", Label: "by mail"}, {Name: "inbox", Label: "in the inbox"},
		{Name: "push", Label: "in browsers"},
		{Name: "sms", Label: "by text message"}, {Name: "webhook", Label: "by webhook"}}
	days = []choice{{Name: "mon", Label: "Monday"}, {Name: "tue", Label: "Tuesday"}, {Name: "wed", Label: "Wednesday"},
		{Name: "thu", Label: "Thursday"}, {Name: "fri", Label: "Friday"}, {Name: "sat", Label: "Saturday"},
		{Name: "sun", Label: "Sunday"}}
	digests = []choice{{Name: "default", Label: "as the sender says"}, {Name: "at_once", Label: "each one, at once"},
		{Name: "hourly", Label: "together, at most once an hour"}, {Name: "daily", Label: "together, at most once a day"},
		{Name: "weekly", Label: "together, at most once a week"}}
)

// keys of kinds and of campaign types begin with these.
const (
	ofKind  = "kind"
	ofType  = "type"
	ofTopic = "topic"
)

func key(what, client, id string) string {
	return what + "/" + url.PathEscape(client) + "/" + url.PathEscape(id)
}

// New returns the part of the form that a view shows, for what is stored, on the page at an address, which may be empty
// for that of the browser.
func New(p Preferences, v View, at string) Form {
	f := Form{WasNone: p.Global, None: p.Global, View: v, At: at}
	var found []source
	for _, client := range slices.Sorted(maps.Keys(p.Clients)) {
		from := sourceOf(client, p.Clients[client])
		f.All += len(from.Kinds) + len(from.Topics)
		from.keep(v.Find)
		f.Total += len(from.Kinds) + len(from.Topics)
		found = append(found, from)
	}
	f.Pages = max(1, (f.Total+PerPage-1)/PerPage)
	f.Page = min(max(1, f.Page), f.Pages)
	f.cut(found)
	f.Previous, f.Next, f.Whole = f.beside(-1), f.beside(1), at+"?page=1"
	f.Long = f.All > PerPage || f.Find != ""
	q := p.Quiet
	if f.Quiet.On = q != nil; q == nil {
		q = &QuietHours{From: "22:00", To: "07:00"}
	}
	f.Quiet.set(*q)
	if f.Quiet.On {
		f.Quiet.Had = f.Quiet.text()
	}
	return f
}

// sourceOf returns all kinds and topics of a client.
func sourceOf(client string, of Client) source {
	from := source{Name: client}
	for _, group := range []struct {
		what  string
		kinds map[string]Kind
	}{{ofKind, of.Kinds}, {ofType, of.CampaignTypes}} {
		for _, id := range slices.Sorted(maps.Keys(group.kinds)) {
			k := group.kinds[id]
			if len(k.Channels) == 0 { // it is for rooms only
				continue
			}
			if group.what == ofKind {
				from.Name = cmp.Or(k.Source, from.Name)
			}
			from.Kinds = append(from.Kinds, k.fields(key(group.what, client, id), id))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of.Topics)) {
		t := of.Topics[name]
		if len(from.Kinds) == 0 {
			from.Name = cmp.Or(t.Source, from.Name)
		}
		from.Topics = append(from.Topics, &topicFields{key(ofTopic, client, name), cmp.Or(t.Description, name),
			t.Subscribed, t.Subscribed})
	}
	return from
}

// keep keeps what has a text in its title or id, or in the name of its source, in any case.
func (s *source) keep(text string) {
	has := func(all ...string) bool {
		return strings.Contains(strings.ToLower(strings.Join(all, "\n")), strings.ToLower(text))
	}
	id := func(key string) string {
		client, id, _ := split(key, ofKind, ofType, ofTopic) // of key
		return client + "\n" + id
	}
	s.Kinds = slices.DeleteFunc(s.Kinds, func(k *kindFields) bool { return !has(s.Name, k.Title, id(k.Key)) })
	s.Topics = slices.DeleteFunc(s.Topics, func(t *topicFields) bool { return !has(s.Name, t.Title, id(t.Key)) })
}

// cut adds the part of the sources that the page shows.
func (f *Form) cut(found []source) {
	skip, left, number := (f.Page-1)*PerPage, PerPage, 0
	part := func(n int) (from, to int) {
		from = min(skip, n)
		to = min(n, from+left)
		skip, left = skip-from, left-(to-from)
		return from, to
	}
	for _, s := range found {
		from, to := part(len(s.Kinds))
		s.Kinds = s.Kinds[from:to]
		from, to = part(len(s.Topics))
		if s.Topics = s.Topics[from:to]; len(s.Kinds)+len(s.Topics) == 0 {
			continue
		}
		for _, k := range s.Kinds {
			k.number(number)
			number++
		}
		f.Sources = append(f.Sources, s)
	}
}

// text returns the quiet hours as text, to see whether a form changes them.
func (f *quietFields) text() string {
	var parts []string
	for _, list := range [][]choice{f.Days, f.Channels} {
		for _, c := range list {
			if c.On {
				parts = append(parts, c.Name)
			}
		}
	}
	return strings.Join(append(parts, f.From, f.To, f.Zone), " ")
}

func (k Kind) fields(key, id string) *kindFields {
	f := &kindFields{Key: key, Title: cmp.Or(k.Description, id), Off: !k.Subscribed, Had: k.Digest}
	add := func(c choice) {
		if on, has := k.Channels[c.Name]; has {
			c.Was, c.On = on, on
			f.Channels = append(f.Channels, c)
		}
	}
	for _, c := range channels {
		add(c)
	}
	for _, name := range slices.Sorted(maps.Keys(k.Channels)) {
		if !slices.ContainsFunc(channels, func(c choice) bool { return c.Name == name }) {
			add(choice{Name: name, Label: "by " + name})
		}
	}
	for _, c := range digests {
		if slices.Contains(k.DigestChoices, c.Name) {
			f.Digests = append(f.Digests, c)
		}
	}
	f.choose(k.Digest)
	if k.Tracking != nil {
		f.Tracks, f.Allowed, f.Allow = true, *k.Tracking, *k.Tracking
	}
	return f
}

// number sets the number of the kind in the form.
func (k *kindFields) number(n int) {
	k.Number = n
	for i := range k.Channels {
		k.Channels[i].Field = strconv.Itoa(n) + "." + k.Channels[i].Name
	}
}

// choose marks how messages are to be collected.
func (k *kindFields) choose(name string) {
	for i := range k.Digests {
		k.Digests[i].On = k.Digests[i].Name == name
	}
}

// digestChange returns the choice of the kind with a number, and whether it is not the one that the page showed.
func digestChange(form url.Values, n string) (name string, changed bool) {
	name = form.Get("digest." + n)
	return name, name != "" && name != form.Get("digested."+n)
}

// trackingChange returns whether the kind with a number may count opens and clicks, and whether that is not what the
// page showed. A page that did not ask changes nothing.
func trackingChange(form url.Values, n string) (on, changed bool) {
	on, changed = ticked(form, n, "track", "tracked")
	return on, changed && slices.Contains(form["tracks"], n)
}

func (f *quietFields) set(q QuietHours) {
	f.From, f.To, f.Zone = q.From, q.To, q.Zone
	f.Days, f.Channels = chosen(days, q.Days), chosen(channels, q.Channels)
}

func chosen(all []choice, on []string) []choice {
	all = slices.Clone(all)
	for i := range all {
		all[i].On = slices.Contains(on, all[i].Name)
	}
	return all
}

// Refused shows what was sent again, with why it was not saved: what is stored now, with the changes of the form.
func (f *Form) Refused(form url.Values, why ...string) {
	for _, text := range why {
		f.Problems = append(f.Problems, strings.ReplaceAll(text, "quiet_hours.", "Quiet hours, "))
	}
	f.None = f.None != flipped(form, "none", "wasnone")
	numbers := map[string]string{}
	for i, key := range form["kind"] {
		numbers[key] = strconv.Itoa(i)
	}
	for _, from := range f.Sources {
		for _, k := range from.Kinds {
			n, sent := numbers[k.Key]
			if !sent {
				continue
			}
			k.Leave = slices.Contains(form["off"], n)
			if name, changed := digestChange(form, n); changed {
				k.choose(name)
			}
			if on, changed := trackingChange(form, n); changed {
				k.Allow = on
			}
			for i := range k.Channels {
				if on, changed := ticked(form, n+"."+k.Channels[i].Name, "on", "lit"); changed {
					k.Channels[i].On = on
				}
			}
		}
	}
	for _, from := range f.Sources {
		for _, t := range from.Topics {
			if on, changed := ticked(form, t.Key, "in", "inside"); changed {
				t.On = on
			}
		}
	}
	if changed, on := quietChange(form); changed {
		f.Quiet.On = on
		f.Quiet.set(quietOf(form))
	}
}

// flipped reports whether a box has another state than the page showed.
func flipped(form url.Values, name, was string) bool {
	return (form.Get(name) != "") != (form.Get(was) != "")
}

// ticked returns whether one of the boxes of a name is ticked, and whether that is not what the page showed.
func ticked(form url.Values, value, name, was string) (on, changed bool) {
	on = slices.Contains(form[name], value)
	return on, on != slices.Contains(form[was], value)
}

// quietChange reports whether a form changes the quiet hours, and whether the user wants some.
func quietChange(form url.Values) (changed, on bool) {
	on = form.Get("quiet") != ""
	if !on {
		return form.Get("had") != "", false
	}
	var sent quietFields
	sent.set(quietOf(form))
	return sent.text() != form.Get("had"), true
}

func quietOf(form url.Values) QuietHours {
	return QuietHours{From: form.Get("from"), To: form.Get("to"), Zone: strings.TrimSpace(form.Get("zone")),
		Days: form["day"], Channels: form["wait"]}
}

// Change is the body of PATCH /preferences.
type Change struct {
	Global  *bool                    `json:"global_unsubscribe,omitempty"`
	Clients map[string]*ClientChange `json:"clients,omitempty"`
	// Quiet is left out, null, or *QuietHours.
	Quiet any `json:"quiet_hours,omitempty"`
}

// ClientChange changes kinds and campaign types, by their ids.
type ClientChange struct {
	Kinds         map[string]KindChange `json:"kinds,omitempty"`
	CampaignTypes map[string]KindChange `json:"campaign_types,omitempty"`
	Topics        map[string]Choice     `json:"topics,omitempty"`
}

// Choice subscribes to a topic or leaves it.
type Choice struct {
	Subscribed bool `json:"subscribed"`
}

// KindChange changes what a user receives of a kind.
type KindChange struct {
	Subscribed *bool           `json:"subscribed,omitempty"`
	Channels   map[string]bool `json:"channels,omitempty"`
	Digest     *string         `json:"digest,omitempty"`
	Tracking   *bool           `json:"tracking,omitempty"`
}

// null is null in JSON.
type null struct{}

// MarshalJSON implements json.Marshaler.
func (null) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// fields is what the field "form" has: the meaning of the others. It changes with them.
const fields = "3"

// Read returns what the user changed, which is the difference to what the page showed: everything else may have changed
// since the page was loaded, by one click in a mail program for example, and stays. A kind that the user has
// unsubscribed from stays so until they tick a channel.
func Read(form url.Values) (Change, error) {
	c := Change{Clients: map[string]*ClientChange{}}
	if form.Get("form") != fields {
		return c, fault.New(fault.BadRequest, "The page is older than the service. Open it again.")
	}
	if flipped(form, "none", "wasnone") {
		none := form.Get("none") != ""
		c.Global = &none
	}
	if changed, on := quietChange(form); changed && on {
		q := quietOf(form)
		c.Quiet = &q
	} else if changed {
		c.Quiet = null{}
	}
	kinds := form["kind"]
	if len(kinds)+len(form["topic"]) > PerPage {
		return c, fault.New(fault.BadRequest, "The form has too many kinds of notifications or topics.")
	}
	for _, key := range form["topic"] {
		on, changed := ticked(form, key, "in", "inside")
		if !changed {
			continue
		}
		client, name, err := split(key, ofTopic)
		if err != nil {
			return c, err
		}
		c.of(client).Topics[name] = Choice{on}
	}
	shown := boxes(form)
	for i, key := range kinds {
		n := strconv.Itoa(i)
		change, some := kindChange(form, n, shown[n])
		if !some {
			continue
		}
		if err := c.add(key, change); err != nil {
			return c, err
		}
	}
	return c, nil
}

// box is one for a channel of a kind.
type box struct{ was, on bool }

// boxes returns those of all kinds, by the number of the kind and the name of the channel.
func boxes(form url.Values) map[string]map[string]*box {
	all := map[string]map[string]*box{}
	for _, field := range form["shown"] {
		n, name, _ := strings.Cut(field, ".")
		if all[n] == nil {
			all[n] = map[string]*box{}
		}
		all[n][name] = &box{}
	}
	set := func(field string, set func(*box)) {
		for _, field := range form[field] {
			n, name, _ := strings.Cut(field, ".")
			if b := all[n][name]; b != nil {
				set(b)
			}
		}
	}
	set("on", func(b *box) { b.on = true })
	set("lit", func(b *box) { b.was = true })
	return all
}

// kindChange is the change of the kind with a number; some is false if it stays as it is.
func kindChange(form url.Values, n string, shown map[string]*box) (c KindChange, some bool) {
	yes, no := true, false
	name, some := digestChange(form, n)
	if some {
		c.Digest = &name
	}
	if on, changed := trackingChange(form, n); changed {
		c.Tracking, some = &on, true
	}
	left := slices.Contains(form["was"], n)
	if !left && slices.Contains(form["off"], n) {
		c.Subscribed = &no
		return c, true
	}
	c.Channels = map[string]bool{}
	turned := false
	for name, b := range shown {
		// Subscribing again turns on what was ticked, and nothing else.
		if left || b.on != b.was {
			c.Channels[name] = b.on
		}
		turned = turned || b.on != b.was
	}
	if left && !turned { // it stays unsubscribed
		c.Channels = nil
	} else if left {
		c.Subscribed = &yes
	}
	return c, some || turned
}

// of returns the changes of a client, which it adds.
func (c *Change) of(client string) *ClientChange {
	of := c.Clients[client]
	if of == nil {
		of = &ClientChange{map[string]KindChange{}, map[string]KindChange{}, map[string]Choice{}}
		c.Clients[client] = of
	}
	return of
}

// split returns the client and the id of a key that begins with one of some words.
func split(key string, words ...string) (client, id string, err error) {
	what, rest, _ := strings.Cut(key, "/")
	a, b, ok := strings.Cut(rest, "/")
	client, err = url.PathUnescape(a)
	id, err2 := url.PathUnescape(b)
	if !ok || cmp.Or(err, err2) != nil || !slices.Contains(words, what) {
		return "", "", fault.New(fault.BadRequest, "The form cannot be read.")
	}
	return client, id, nil
}

// add adds the change of a kind.
func (c *Change) add(key string, change KindChange) error {
	client, id, err := split(key, ofKind, ofType)
	if err != nil {
		return err
	}
	if strings.HasPrefix(key, ofKind) {
		c.of(client).Kinds[id] = change
	} else {
		c.of(client).CampaignTypes[id] = change
	}
	return nil
}
