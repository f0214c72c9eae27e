package httpv2

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
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
	Service   *notify.Service
	Directory notify.Directory
	Log       *slog.Logger
	Now       func() time.Time
}

type handlers struct {
	Options
}

// Register adds the routes to a group.
func Register(g *web.Group, o Options) {
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &handlers{o}
	write := web.Scope(scopeWrite)

	g.Handle("GET", "/", web.Public("links to the resources"), f.root)
	g.Handle("GET", "/info", web.Public("shows the API version"), f.info)

	g.Handle("POST", "/senders", write, f.createSender)
	g.Handle("GET", "/senders", write, f.listSenders)
	g.Handle("GET", "/senders/{sender}", write, f.showSender)
	g.Handle("PUT", "/senders/{sender}", write, f.updateSender)
	g.Handle("DELETE", "/senders/{sender}", write, f.deleteSender)

	g.Handle("POST", "/senders/{sender}/campaign_types", write, f.createType)
	g.Handle("GET", "/senders/{sender}/campaign_types", write, f.listTypes)
	g.Handle("GET", "/campaign_types/{type}", write, f.showType)
	g.Handle("PUT", "/campaign_types/{type}", write, f.updateType)
	g.Handle("DELETE", "/campaign_types/{type}", write, f.deleteType)

	g.Handle("POST", "/templates", write, f.createTemplate)
	g.Handle("GET", "/templates", write, f.listTemplates)
	g.Handle("GET", "/templates/{template}", write, f.showTemplate)
	g.Handle("PUT", "/templates/{template}", write, f.updateTemplate)
	g.Handle("PUT", "/templates/default", web.Scope(scopeAdmin), f.updateDefault)
	g.Handle("DELETE", "/templates/{template}", write, f.deleteTemplate)

	g.Storing().Handle("POST", "/senders/{sender}/campaigns", write, f.createCampaign)
	g.Handle("GET", "/campaigns/{campaign}", write, f.showCampaign)
	g.Handle("GET", "/campaigns/{campaign}/status", write, f.campaignStatus)

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
	web.WriteJSON(w, http.StatusOK, map[string]any{"_links": linksOf("self", "/", "senders", "/senders", "templates",
		"/templates")})
	return nil
}

func (f *handlers) info(w http.ResponseWriter, _ *http.Request) error {
	web.WriteJSON(w, http.StatusOK, map[string]int{"version": 2})
	return nil
}

func noContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
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
	web.WarnUnknown(w, notify.WarningsHeader, raw, v, "id", "_links")
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
