package httpv2

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

const (
	scopeWrite      = "notifications.write"
	scopeCritical   = "critical_notifications.write"
	scopeAdmin      = "notifications.admin"
	scopePrefsWrite = "notification_preferences.write"
	scopePrefsAdmin = "notification_preferences.admin"
)

// Options configure Register.
type Options struct {
	Store     notify.Store
	Service   *actions.Service
	Directory notify.Directory
	Log       *slog.Logger
}

type handlers struct {
	Options
}

// Register adds the routes to a group.
func Register(g *web.Group, o Options) {
	f := &handlers{o}
	sends := web.Scope(scopeWrite)

	g.Handle("GET", "/", web.Public("links to the resources"), f.root)
	g.Handle("GET", "/info", web.Public("shows the API version"), f.info)

	g.Handle("POST", "/senders", sends, write(http.StatusCreated, invalidJSON, f.createSender, presentSender))
	g.Handle("GET", "/senders", sends, f.listSenders)
	g.Handle("GET", "/senders/{sender}", sends, show(f.sender, presentSender))
	g.Handle("PUT", "/senders/{sender}", sends, write(http.StatusOK, invalidJSON, f.updateSender, presentSender))
	g.Handle("DELETE", "/senders/{sender}", sends, remove(f.sender, f.deleteSender))

	g.Handle("POST", "/senders/{sender}/campaign_types", sends,
		write(http.StatusCreated, invalidJSON, f.createType, presentType))
	g.Handle("GET", "/senders/{sender}/campaign_types", sends, f.listTypes)
	g.Handle("GET", "/campaign_types/{type}", sends, show(f.typeOf, presentType))
	g.Handle("PUT", "/campaign_types/{type}", sends, write(http.StatusOK, invalidJSON, f.updateType, presentType))
	g.Handle("DELETE", "/campaign_types/{type}", sends, remove(f.typeOf, f.deleteType))

	const malformed = "malformed JSON request"
	g.Handle("POST", "/templates", sends, write(http.StatusCreated, invalidJSON, f.createTemplate, presentTemplate))
	g.Handle("GET", "/templates", sends, f.listTemplates)
	g.Handle("GET", "/templates/{template}", sends, show(f.template, presentTemplate))
	g.Handle("PUT", "/templates/{template}", sends, write(http.StatusOK, malformed, f.updateTemplate, presentTemplate))
	g.Handle("PUT", "/templates/default", web.Scope(scopeAdmin),
		write(http.StatusOK, malformed, f.updateTemplate, presentTemplate))
	g.Handle("DELETE", "/templates/{template}", sends, remove(f.template, f.deleteTemplate))

	g.Storing().Handle("POST", "/senders/{sender}/campaigns", sends, f.createCampaign)
	g.Handle("GET", "/campaigns/{campaign}", sends, show(f.campaign, f.presentCampaign))
	g.Handle("GET", "/campaigns/{campaign}/status", sends, f.campaignStatus)

	unsubscribe := web.Scope(scopePrefsWrite, scopePrefsAdmin)
	g.Handle("PUT", "/campaign_types/{type}/unsubscribers/{user}", unsubscribe, f.unsubscribe(true))
	g.Handle("DELETE", "/campaign_types/{type}/unsubscribers/{user}", unsubscribe, f.unsubscribe(false))
}

type link struct {
	Href string `json:"href"`
}

type links map[string]link

// linksOf pairs names with addresses.
func linksOf(pairs ...string) links {
	out := links{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[pairs[i]] = link{pairs[i+1]}
	}
	return out
}

func (f *handlers) root(w http.ResponseWriter, _ *http.Request) error {
	return web.Answer(w, http.StatusOK, map[string]any{
		"_links": linksOf("self", "/", "senders", "/senders", "templates", "/templates")}, nil)
}

func (f *handlers) info(w http.ResponseWriter, _ *http.Request) error {
	return web.Answer(w, http.StatusOK, map[string]int{"version": 2}, nil)
}

// show handles GET of what find returns.
func show[T, B any](find func(*http.Request) (T, error), present func(T) B) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		item, err := find(r)
		if err != nil {
			return err
		}
		return web.Answer(w, http.StatusOK, present(item), nil)
	}
}

// remove handles DELETE of what find returns.
func remove[T any](find func(*http.Request) (T, error), do func(context.Context, T) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		item, err := find(r)
		if err == nil {
			err = do(r.Context(), item)
		}
		return web.Answer(w, http.StatusNoContent, nil, err)
	}
}

// write handles POST and PUT: save gets the decoded body. A body that is not JSON is the complaint.
func write[Q, T, B any](status int, complaint string, save func(*http.Request, *Q) (T, error), present func(T) B,
) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body := new(Q)
		if _, err := read(w, r, body, complaint); err != nil {
			return err
		}
		item, err := save(r, body)
		return web.Answer(w, status, present(item), err)
	}
}

// presentAll presents a list, which is never null.
func presentAll[T, B any](list []T, present func(T) B) []B {
	out := make([]B, 0, len(list))
	for _, item := range list {
		out = append(out, present(item))
	}
	return out
}

func caller(r *http.Request) *token.Claims { return token.FromContext(r.Context()) }

func mayCritical(r *http.Request) bool { return caller(r).HasAny(scopeCritical) }

// read decodes the body into v, warns of fields that v does not have, and returns
// the body unchanged. An empty body is an error.
func read(w http.ResponseWriter, r *http.Request, v any, complaint string) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	web.WarnUnknown(w, actions.WarningsHeader, raw, v, "id", "_links")
	if err := json.Unmarshal(raw, v); err != nil {
		return nil, fault.Wrap(err, fault.MessageParse, "%s", complaint)
	}
	return raw, nil
}

const invalidJSON = "invalid json body"

// missing returns the error for a resource that does not exist or belongs to
// another client.
func missing(err error, noun, id string) error {
	if errors.Is(err, notify.ErrNotFound) {
		return fault.Wrap(err, fault.NotFound, "%s with id %q could not be found", noun, id)
	}
	return err
}

// owned returns ErrNotFound for a resource of another client.
func owned(err error, owner, client string) error {
	if err == nil && owner != client {
		return notify.ErrNotFound
	}
	return err
}
