package httpv1

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
)

// The scopes of this API.
const (
	scopeWrite          = "notifications.write"
	scopeManage         = "notifications.manage"
	scopeCritical       = "critical_notifications.write"
	scopeEmails         = "emails.write"
	scopeTemplatesRead  = "notification_templates.read"
	scopeTemplatesWrite = "notification_templates.write"
	scopeAdmin          = "notifications.admin"
	scopePrefsRead      = "notification_preferences.read"
	scopePrefsWrite     = "notification_preferences.write"
	scopePrefsAdmin     = "notification_preferences.admin"
)

// Options configure Register.
type Options struct {
	Store   notify.Store
	Service *actions.Service
	// CORSOrigin is the origin from which browsers may read preferences; empty
	// means "*".
	CORSOrigin string
	Log        *slog.Logger
}

type handlers struct {
	Options
}

// Register adds the routes to a group.
func Register(g *web.Group, o Options) {
	if o.CORSOrigin == "" {
		o.CORSOrigin = "*"
	}
	f := &handlers{o}

	g.Handle("GET", "/info", web.Public("shows the API version"), f.info)

	g.Handle("PUT", "/notifications", web.Scope(scopeManage), f.putNotifications)
	g.Handle("PUT", "/registration", web.Scope(scopeManage, scopeWrite), f.putRegistration)
	g.Handle("GET", "/notifications", web.Scope(scopeManage), f.listNotifications)
	g.Handle("PUT", "/clients/{client}/notifications/{kind}", web.Scope(scopeManage), f.putKind)

	g.Handle("POST", "/templates", web.Scope(scopeTemplatesWrite), f.createTemplate)
	g.Handle("GET", "/templates", web.Scope(scopeTemplatesRead), f.listTemplates)
	g.Handle("GET", "/templates/{template}", web.Scope(scopeTemplatesRead), f.showTemplate)
	g.Handle("PUT", "/templates/{template}", web.Scope(scopeTemplatesWrite, scopeAdmin), f.putTemplate)
	g.Handle("DELETE", "/templates/{template}", web.Scope(scopeTemplatesWrite, scopeAdmin), f.deleteTemplate)
	g.Handle("GET", "/default_template", web.Scope(scopeTemplatesRead), f.showTemplate)
	g.Handle("PUT", "/default_template", web.Scope(scopeTemplatesWrite, scopeAdmin), f.putTemplate)
	g.Handle("GET", "/templates/{template}/associations", web.Scope(scopeManage), f.associations)
	g.Handle("PUT", "/clients/{client}/template", web.Scope(scopeManage), f.assign)
	g.Handle("PUT", "/clients/{client}/notifications/{kind}/template", web.Scope(scopeManage), f.assign)
	g.Storing().Handle("POST", "/templates/{template}/test", web.Scope(scopeTemplatesWrite, scopeAdmin), f.testTemplate)
	g.Storing().Handle("POST", "/clients/{client}/notifications/{kind}/test", web.Scope(scopeAdmin), f.testKind)

	p := g.WithHeaders(corsHeaders(o.CORSOrigin))
	for _, path := range []string{"/user_preferences", "/user_preferences/{user}"} {
		p.Handle("OPTIONS", path, web.Public("CORS preflight requests have no token"), f.preflight)
	}
	p.Handle("GET", "/user_preferences", web.Scope(scopePrefsRead), f.ownPreferences)
	p.Handle("PATCH", "/user_preferences", web.Scope(scopePrefsWrite), f.patchOwnPreferences)
	p.Handle("GET", "/user_preferences/{user}", web.Scope(scopePrefsAdmin), f.preferencesOf)
	p.Handle("PATCH", "/user_preferences/{user}", web.Scope(scopePrefsAdmin), f.patchPreferencesOf)

	for path, audience := range map[string]notify.AudienceType{
		"/users/{id}": notify.ToUser, "/spaces/{id}": notify.ToSpace, "/organizations/{id}": notify.ToOrg,
		"/everyone": notify.ToEveryone, "/uaa_scopes/{id}": notify.ToScope,
	} {
		g.Storing().Handle("POST", path, web.Scope(scopeWrite), f.send(audience))
	}
	g.Storing().Handle("POST", "/emails", web.Scope(scopeEmails), f.send(notify.ToEmail))
	g.Handle("GET", "/messages/{id}", web.Scope(scopeWrite, scopeEmails), f.message)
}

func (f *handlers) info(w http.ResponseWriter, _ *http.Request) error {
	return web.Answer(w, http.StatusOK, map[string]int{"version": 1}, nil)
}

// caller returns the token of a request to a route with a Scope.
func caller(r *http.Request) *token.Claims { return token.FromContext(r.Context()) }

// clientOf returns the client that owns what the caller registers and sends.
func clientOf(r *http.Request) (string, error) {
	if id := caller(r).ClientID; id != "" {
		return id, nil
	}
	return "", fault.New(fault.Unprocessable,
		"The token has no client, which is required to send or register notifications.")
}

var errParse = fault.New(fault.MessageParse, "Request body could not be parsed")

// decode decodes the body into v, whose fields are those of the request, and warns
// of fields that v does not have. It returns the body.
func decode(w http.ResponseWriter, r *http.Request, v any) ([]byte, error) {
	raw, err := readBody(r)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(string(raw)) == "null" {
		return nil, errParse
	}
	web.WarnUnknown(w, actions.WarningsHeader, raw, v)
	return raw, parse(raw, v)
}

// readBody reads the body up to the route's limit.
func readBody(r *http.Request) ([]byte, error) { return io.ReadAll(r.Body) }

// members decodes the body as a JSON object. It warns of members that the type of
// shape does not have.
func members(w http.ResponseWriter, r *http.Request, shape any) (map[string]json.RawMessage, error) {
	raw, err := readBody(r)
	if err != nil {
		return nil, err
	}
	web.WarnUnknown(w, actions.WarningsHeader, raw, shape)
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil || object == nil {
		return nil, fault.Wrap(err, errParse.Code, "%s", errParse.Message)
	}
	return object, nil
}

// parse decodes raw into v; null leaves v unchanged.
func parse(raw json.RawMessage, v any) error {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fault.Wrap(err, errParse.Code, "%s", errParse.Message)
	}
	return nil
}

// invalid returns one error for all problems, as this API's clients expect.
func invalid(problems []string, separator string) error {
	if len(problems) == 0 {
		return nil
	}
	return fault.New(fault.Unprocessable, "%s", strings.Join(problems, separator))
}

// orMissing converts the store's ErrNotFound to an error of this API.
func orMissing(err error, format string, args ...any) error {
	if errors.Is(err, notify.ErrNotFound) {
		return fault.Wrap(err, fault.NotFound, format, args...)
	}
	return err
}

// mayCritical returns an error if the client lacks the scope for critical
// kinds.
func mayCritical(r *http.Request) error {
	if caller(r).HasAny(scopeCritical) {
		return nil
	}
	return fault.New(fault.Unprocessable,
		"UAA Scopes Error: Client does not have authority to register critical notifications.")
}

// templateExists checks a template that is about to be assigned.
func (f *handlers) templateExists(ctx context.Context, id string) error {
	t, err := f.Store.Template(ctx, id)
	if errors.Is(err, notify.ErrNotFound) || err == nil && t.Owner != "" {
		return fault.New(fault.Unprocessable, "No template with id %q", id)
	}
	return err
}
