package httpext

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

const (
	scopePrefsRead  = "notification_preferences.read"
	scopePrefsWrite = "notification_preferences.write"
	scopePrefsAdmin = "notification_preferences.admin"
)

// registerPreferences adds the routes of what users want to receive, by kind and channel.
func (f *handlers) registerPreferences(g *web.Group) {
	g.Handle("GET", "/preferences", web.Scope(scopePrefsRead), f.showPreferences(ownUser))
	g.Handle("PATCH", "/preferences", web.Scope(scopePrefsWrite), f.changePreferences(ownUser))
	g.Handle("GET", "/preferences/{user}", web.Scope(scopePrefsAdmin), f.showPreferences(namedUser))
	g.Handle("PATCH", "/preferences/{user}", web.Scope(scopePrefsAdmin), f.changePreferences(namedUser))
}

// ownUser returns the user of the token.
func ownUser(r *http.Request) (string, error) {
	if id := token.FromContext(r.Context()).UserID; id != "" {
		return id, nil
	}
	return "", fault.New(fault.Unprocessable,
		"The token belongs to no user: log in as a user, or name one with /preferences/USER")
}

// namedUser returns the user of the path, which may be mailto:ADDRESS.
func namedUser(r *http.Request) (string, error) {
	id, problem := notify.NamedUser(web.Param(r, "user"))
	if problem != "" {
		return "", fault.Invalid(problem)
	}
	return id, nil
}

type preferencesBody struct {
	UserID string `json:"user_id"`
	Global bool   `json:"global_unsubscribe"`
	// Quiet is left out if the user has none.
	Quiet   *notify.QuietHours                `json:"quiet_hours,omitempty"`
	Clients map[string]*clientPreferencesBody `json:"clients"`
}

type clientPreferencesBody struct {
	Kinds         map[string]kindPreferencesBody `json:"kinds"`
	CampaignTypes map[string]kindPreferencesBody `json:"campaign_types"`
	// Topics are those that the user is subscribed to, left, or may subscribe to.
	Topics map[string]topicPreferencesBody `json:"topics,omitempty"`
}

type topicPreferencesBody struct {
	Description string `json:"description"`
	Source      string `json:"source_description"`
	Subscribed  bool   `json:"subscribed"`
}

type kindPreferencesBody struct {
	Description string `json:"description"`
	Source      string `json:"source_description"`
	// Subscribed is false if the user unsubscribed from all channels, also those that the kind gets later.
	Subscribed bool `json:"subscribed"`
	// Channels are those of the kind that reach the user.
	Channels map[string]bool `json:"channels"`
	// Digest is one of DigestChoices, if the user may choose.
	Digest        string   `json:"digest,omitempty"`
	DigestChoices []string `json:"digest_choices,omitempty"`
	// Tracking is whether opens and clicks may be counted, if the kind counts them.
	Tracking *bool `json:"tracking,omitempty"`
}

// of returns the preferences about a client, which it adds.
func (b *preferencesBody) of(client string) *clientPreferencesBody {
	of := b.Clients[client]
	if of == nil {
		of = &clientPreferencesBody{map[string]kindPreferencesBody{}, map[string]kindPreferencesBody{},
			map[string]topicPreferencesBody{}}
		b.Clients[client] = of
	}
	return of
}

func presentPreferences(user string, global bool, all []notify.Preference) preferencesBody {
	out := preferencesBody{UserID: user, Global: global, Clients: map[string]*clientPreferencesBody{}}
	for i := range all {
		p := &all[i]
		of := out.of(p.ClientID)
		body := kindPreferencesBody{Description: p.Description, Source: p.SourceDescription,
			Subscribed: p.Unwanted != notify.UnwantedAll, Channels: map[string]bool{}}
		for _, id := range p.Travels().Personal(!strings.HasPrefix(user, notify.AddressScheme)) {
			body.Channels[id.String()] = !p.Unwanted.Has(id)
		}
		for _, c := range p.Choices() {
			body.DigestChoices = append(body.DigestChoices, c.String())
			if c == notify.DigestDefault || c == p.Digest { // what is no longer offered has no effect
				body.Digest = c.String()
			}
		}
		if p.Kind.Tracking != 0 || p.Choice.Tracking {
			body.Tracking = &p.Choice.Tracking
		}
		if p.CampaignType {
			of.CampaignTypes[p.ID] = body
		} else {
			of.Kinds[p.ID] = body
		}
	}
	return out
}

func (f *handlers) showPreferences(of func(*http.Request) (string, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		user, err := of(r)
		if err != nil {
			return err
		}
		return f.answerPreferences(w, r, user)
	}
}

func (f *handlers) answerPreferences(w http.ResponseWriter, r *http.Request, user string) error {
	body, err := f.preferencesOf(r.Context(), user)
	return web.Answer(w, http.StatusOK, body, err)
}

func (f *handlers) preferencesOf(ctx context.Context, user string) (preferencesBody, error) {
	global, kinds, err := f.Store.Preferences(ctx, user)
	if err != nil {
		return preferencesBody{}, err
	}
	types, err := f.Store.CampaignPreferences(ctx, user)
	if err != nil {
		return preferencesBody{}, err
	}
	quiet, err := f.Store.QuietHours(ctx, []string{user})
	if err != nil {
		return preferencesBody{}, err
	}
	topics, err := f.Store.TopicsOf(ctx, user)
	body := presentPreferences(user, global, append(kinds, types...))
	body.Quiet = quiet[user]
	for _, t := range topics {
		body.of(t.ClientID).Topics[t.Name] = topicPreferencesBody{t.Description, t.SourceDescription, t.Subscribed}
	}
	return body, err
}

// preferenceChange is the body of a PATCH. What it does not mention stays.
type preferenceChange struct {
	Global *bool `json:"global_unsubscribe"`
	// Quiet deletes the quiet hours if it is null.
	Quiet   json.RawMessage `json:"quiet_hours"`
	Clients map[string]struct {
		Kinds         map[string]kindChange `json:"kinds"`
		CampaignTypes map[string]kindChange `json:"campaign_types"`
		Topics        map[string]struct {
			Subscribed *bool `json:"subscribed"`
		} `json:"topics"`
	} `json:"clients"`
}

type kindChange struct {
	Subscribed *bool            `json:"subscribed"`
	Channels   map[string]*bool `json:"channels"`
	Digest     *string          `json:"digest"`
	Tracking   *bool            `json:"tracking"`
}

// maxPreferences limits the kinds that one request changes.
const maxPreferences = 1000

// changePreferences applies all changes or none, and answers with what is stored then.
func (f *handlers) changePreferences(of func(*http.Request) (string, error)) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		user, err := of(r)
		if err != nil {
			return err
		}
		var body preferenceChange
		if err := web.DecodeStrict(r, &body); err != nil {
			return err
		}
		change, err := f.wishes(r, user, body)
		if err != nil {
			return err
		}
		if err := readQuiet(&change, body.Quiet); err != nil {
			return err
		}
		if err := f.storePreferences(r.Context(), user, change); err != nil {
			return err
		}
		return f.answerPreferences(w, r, user)
	}
}

// storePreferences stores a change that was checked.
func (f *handlers) storePreferences(ctx context.Context, user string, change notify.PreferenceChange) error {
	err := f.Store.ChangePreferences(ctx, user, change)
	switch {
	case errors.Is(err, notify.ErrNotFound):
		return fault.Wrap(err, fault.Unprocessable, "A topic was deleted or closed meanwhile; nothing was changed: try again")
	case errors.Is(err, notify.ErrTooMany):
		return fault.Wrap(err, fault.Unprocessable, "A topic takes no more subscribers; nothing was changed")
	}
	return err
}

// readQuiet reads the change of the quiet hours.
func readQuiet(to *notify.PreferenceChange, text json.RawMessage) (err error) {
	if len(text) == 0 {
		return nil
	}
	if to.NoQuiet = string(text) == "null"; to.NoQuiet {
		return nil
	}
	var body struct {
		From     string   `json:"from"`
		To       string   `json:"to"`
		Zone     string   `json:"zone"`
		Days     []string `json:"days"`
		Channels []string `json:"channels"`
	}
	if err := web.DecodeLine(text, &body); err != nil {
		return err
	}
	to.Quiet, err = notify.NewQuietHours(body.From, body.To, body.Zone, body.Days, body.Channels)
	return err
}

// wishes returns the changes of a request, or all problems with their paths.
func (f *handlers) wishes(r *http.Request, user string, body preferenceChange) (notify.PreferenceChange, error) {
	change := notify.PreferenceChange{Global: body.Global, Wishes: map[notify.KindRef]notify.Wish{}}
	n := 0
	for _, c := range body.Clients {
		n += len(c.Kinds) + len(c.CampaignTypes) + len(c.Topics)
	}
	if n > maxPreferences {
		return change, fault.Invalid(fmt.Sprintf("clients: %d kinds are too many for a request, at most %d", n,
			maxPreferences))
	}
	var problems []string
	for _, client := range slices.Sorted(maps.Keys(body.Clients)) {
		for id, wish := range sortedPairs(body.Clients[client].Kinds) {
			ref := notify.KindRef{ClientID: client, KindID: id}
			k, err := f.Store.Kind(r.Context(), ref)
			path := "clients." + client + ".kinds." + id
			if err := f.wish(&change, ref, user, k, err, wish, path, &problems); err != nil {
				return change, err
			}
		}
		for id, wish := range sortedPairs(body.Clients[client].CampaignTypes) {
			t, err := f.Store.CampaignType(r.Context(), id)
			if err == nil && t.ClientID != client {
				err = notify.ErrNotFound
			}
			k := notify.Kind{Critical: t.Critical, Channels: t.Channels}
			path := "clients." + client + ".campaign_types." + id
			if err := f.wish(&change, notify.KindRef{KindID: id}, user, k, err, wish, path, &problems); err != nil {
				return change, err
			}
		}
	}
	if err := f.topicWishes(r.Context(), &change, user, body, &problems); err != nil {
		return change, err
	}
	return change, fault.Invalid(problems...)
}

// sortedPairs yields a map in order of its keys.
func sortedPairs[V any](m map[string]V) func(yield func(string, V) bool) {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if !yield(key, m[key]) {
				return
			}
		}
	}
}

// wish adds the change of a kind, which was looked up with err, or its problems.
func (f *handlers) wish(to *notify.PreferenceChange, ref notify.KindRef, user string, k notify.Kind, err error,
	asked kindChange, path string, problems *[]string) error {
	switch {
	case errors.Is(err, notify.ErrNotFound):
		*problems = append(*problems, path+": there is no such kind")
		return nil
	case err != nil:
		return err
	case k.Critical:
		*problems = append(*problems, path+": the kind is critical, so every user receives it on all channels")
		return nil
	}
	there := k.Travels().Personal(!strings.HasPrefix(user, notify.AddressScheme))
	made := notify.Wish{Subscribe: asked.Subscribed, Channels: map[notify.ChannelID]bool{}}
	for name, on := range sortedPairs(asked.Channels) {
		i := slices.IndexFunc(there, func(id notify.ChannelID) bool { return id.String() == name })
		switch {
		case i < 0:
			*problems = append(*problems, path+".channels."+name+": "+channelProblem(name, there))
		case on == nil:
			*problems = append(*problems, path+".channels."+name+": it must be true or false")
		default:
			made.Channels[there[i]] = *on
		}
	}
	if asked.Digest != nil {
		choices := k.Choices()
		i := slices.IndexFunc(choices, func(c notify.DigestChoice) bool { return c.String() == *asked.Digest })
		if i < 0 {
			*problems = append(*problems, path+".digest: "+digestProblem(choices))
		} else {
			made.Digest = &choices[i]
		}
	}
	if made.Tracking = asked.Tracking; made.Tracking != nil && *made.Tracking && k.Tracking == 0 {
		*problems = append(*problems, path+".tracking: this kind counts neither opens nor clicks")
	}
	to.Wishes[ref] = made
	return nil
}

// digestProblem says what users may choose.
func digestProblem(choices []notify.DigestChoice) string {
	if len(choices) == 0 {
		return "this kind does not let users choose how notifications are collected"
	}
	names := make([]string, len(choices))
	for i, c := range choices {
		names[i] = c.String()
	}
	return "this kind lets users choose one of " + strings.Join(names, ", ")
}

// channelProblem says why a channel cannot be turned on or off.
func channelProblem(name string, there []notify.ChannelID) string {
	if name == notify.Chat.String() {
		return "a chat is a room that others read: it cannot be turned off by one of them"
	}
	names := make([]string, len(there))
	for i, id := range there {
		names[i] = id.String()
	}
	if len(names) == 0 {
		return "this kind has no channel that a user can turn off"
	}
	return "this kind does not have this channel, but " + strings.Join(names, ", ")
}
