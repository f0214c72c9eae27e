package httpext

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

// registerPush adds the routes of push subscriptions: those of pages, which have an inbox token of their client, and
// those of users with their own token, who name the client.
func (f *handlers) registerPush(g *web.Group) {
	g.Handle("GET", "/push_key", web.Public("browsers subscribe with this public key, which is not secret"), f.showPushKey)

	page := web.Own("an inbox token, which the client issued for one of its users")
	g.Handle("GET", "/inbox/push_subscriptions", page, f.forUser(f.listPagePush))
	g.Handle("POST", "/inbox/push_subscriptions", page, f.forUser(f.addPagePush))
	g.Handle("DELETE", "/inbox/push_subscriptions/{subscription}", page, f.forUser(f.deletePagePush))
	ask := web.Public("browsers ask it without a token; it reads nothing")
	g.Handle("OPTIONS", "/inbox/push_subscriptions", ask, preflight)
	g.Handle("OPTIONS", "/inbox/push_subscriptions/{subscription}", ask, preflight)

	g.Handle("GET", "/push_subscriptions", web.Scope(scopePrefsRead), f.listOwnPush)
	g.Handle("POST", "/push_subscriptions", web.Scope(scopePrefsWrite), f.addOwnPush)
	g.Handle("DELETE", "/push_subscriptions/{subscription}", web.Scope(scopePrefsWrite), f.deleteOwnPush)
}

// showPushKey answers pages of all origins: the key is public.
func (f *handlers) showPushKey(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	return web.Answer(w, http.StatusOK, map[string]string{"public_key": f.PushKey}, nil)
}

// pushBody is what PushSubscription.toJSON of a browser returns, or the token of a device and the service that gave it;
// with a label, and the client if no inbox token says it.
type pushBody struct {
	ClientID string `json:"client_id"`
	Service  string `json:"service"`
	Token    string `json:"token"`
	Endpoint string `json:"endpoint"`
	Keys     struct {
		P256dh string `json:"p256dh"`
		Auth   string `json:"auth"`
	} `json:"keys"`
	// ExpirationTime is ignored: the push service says when a subscription has ended.
	ExpirationTime *float64 `json:"expirationTime"`
	Label          string   `json:"label"`
}

// pushSubscriptionBody is a subscription as its user sees it, without the endpoint or token.
type pushSubscriptionBody struct {
	ID       string    `json:"id"`
	ClientID string    `json:"client_id"`
	Type     string    `json:"type"` // "browser" or "device"
	Service  string    `json:"service"`
	Label    string    `json:"label"`
	Created  time.Time `json:"created_at"`
	Updated  time.Time `json:"updated_at"`
}

func presentPush(s notify.PushSubscription) pushSubscriptionBody {
	kind := "browser"
	if s.Device() {
		kind = "device"
	}
	return pushSubscriptionBody{s.ID, s.ClientID, kind, s.Service(), s.Label, s.Created.UTC(), s.Updated.UTC()}
}

func answerPush(w http.ResponseWriter, list []notify.PushSubscription, err error) error {
	out := make([]pushSubscriptionBody, 0, len(list))
	for _, s := range list {
		out = append(out, presentPush(s))
	}
	return web.Answer(w, http.StatusOK, map[string]any{"push_subscriptions": out}, err)
}

// addPush stores the subscription of a browser or a device.
func (f *handlers) addPush(w http.ResponseWriter, r *http.Request, of notify.Owner, body *pushBody) error {
	now := time.Now()
	s := notify.PushSubscription{ID: notify.PushSubscriptionID(of.ClientID, body.Endpoint), Owner: of,
		Endpoint: body.Endpoint, P256dh: notify.DecodePushKey(body.Keys.P256dh), Auth: notify.DecodePushKey(body.Keys.Auth),
		Token: body.Token, TokenOf: body.Service, Label: body.Label, Created: now, Updated: now}
	if s.Device() {
		s.ID = notify.PushDeviceID(of.ClientID, s.TokenOf, s.Token)
	}
	if err := s.Check(); err != nil {
		return err
	}
	if s.Device() {
		if err := f.checkService(r, of.ClientID, s.TokenOf); err != nil {
			return err
		}
	} else if f.CheckWebhook != nil {
		if err := f.CheckWebhook(r.Context(), s.Endpoint); err != nil {
			return fault.Invalid(fmt.Sprintf(`"endpoint" cannot be called: %s`, err))
		}
	}
	if err := f.Store.AddPushSubscription(r.Context(), s); err != nil {
		return err
	}
	list, err := f.pushOf(r, of)
	for _, one := range list {
		if one.ID == s.ID {
			s = one
		}
	}
	return web.Answer(w, http.StatusCreated, presentPush(s), err)
}

// checkService returns an error if no provider delivers to devices of a service: its name is probably misspelled.
func (f *handlers) checkService(r *http.Request, client, service string) error {
	list, err := f.Store.ProvidersFor(r.Context(), client, notify.Push)
	if err != nil {
		return err
	}
	for i := range list {
		if list[i].TokenOf() == service {
			return nil
		}
	}
	return fault.Invalid(fmt.Sprintf(`"service" must be one to whose devices a provider of the client delivers: there is `+
		`none for %q, which PUT /providers/NAME declares with "channel": %q`, service, notify.Push))
}

func (f *handlers) pushOf(r *http.Request, of notify.Owner) ([]notify.PushSubscription, error) {
	all, err := f.Store.PushSubscriptions(r.Context(), of.ClientID, []string{of.UserID})
	return all[of.UserID], err
}

func (f *handlers) deletePush(w http.ResponseWriter, r *http.Request, of notify.Owner) error {
	id := web.Param(r, "subscription")
	if err := f.Store.DeletePushSubscription(r.Context(), of, id); err != nil {
		return missing(err, "Push subscription", id)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (f *handlers) listPagePush(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	list, err := f.pushOf(r, u.Owner)
	return answerPush(w, list, err)
}

func (f *handlers) addPagePush(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	var body pushBody
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if cmp.Or(body.ClientID, u.ClientID) != u.ClientID {
		return fault.Invalid(`"client_id" is not that of the inbox token: leave it out`)
	}
	return f.addPush(w, r, u.Owner, &body)
}

func (f *handlers) deletePagePush(w http.ResponseWriter, r *http.Request, u inboxUser) error {
	return f.deletePush(w, r, u.Owner)
}

func (f *handlers) listOwnPush(w http.ResponseWriter, r *http.Request) error {
	user, err := ownUser(r)
	if err != nil {
		return err
	}
	list, err := f.Store.PushSubscriptionsOf(r.Context(), user)
	return answerPush(w, list, err)
}

func (f *handlers) addOwnPush(w http.ResponseWriter, r *http.Request) error {
	user, err := ownUser(r)
	if err != nil {
		return err
	}
	var body pushBody
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	_, err = f.Store.Client(r.Context(), body.ClientID)
	if errors.Is(err, notify.ErrNotFound) {
		return fault.Invalid(fmt.Sprintf(`"client_id" must be a client that sends notifications; there is no %.100q`,
			body.ClientID))
	}
	if err != nil {
		return err
	}
	return f.addPush(w, r, notify.Owner{ClientID: body.ClientID, UserID: user}, &body)
}

func (f *handlers) deleteOwnPush(w http.ResponseWriter, r *http.Request) error {
	user, err := ownUser(r)
	if err != nil {
		return err
	}
	id := web.Param(r, "subscription")
	list, err := f.Store.PushSubscriptionsOf(r.Context(), user)
	if err != nil {
		return err
	}
	for _, s := range list {
		if s.ID == id {
			return f.deletePush(w, r, s.Owner)
		}
	}
	return missing(notify.ErrNotFound, "Push subscription", id)
}
