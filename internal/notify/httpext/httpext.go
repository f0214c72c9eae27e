package httpext

import (
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
)

const (
	scopeWrite          = "notifications.write"
	scopeEmails         = "emails.write"
	scopeAdmin          = "notifications.admin"
	scopeTemplatesRead  = "notification_templates.read"
	scopeTemplatesWrite = "notification_templates.write"
)

// Options are what the face stands on.
type Options struct {
	Store        notify.Store
	Service      notify.Faces
	Unsubscriber *notify.Unsubscriber
	// Kick tells the delivery that a message waits again.
	Kick func()
	// CheckWebhook says why a webhook's address would never be called; nil means
	// that all would.
	CheckWebhook func(ctx context.Context, address string) error
	// Description is what /openapi.yaml shows.
	Description []byte
	Log         *slog.Logger
	Now         func() time.Time
}

type face struct {
	Options
}

// The descriptions of both versions with what is added here.
var (
	//go:embed openapi-v1.yaml
	DescriptionV1 []byte
	//go:embed openapi-v2.yaml
	DescriptionV2 []byte
)

// Register adds the routes to a group.
func Register(g *web.Group, o Options) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Kick == nil {
		o.Kick = func() {}
	}
	f := &face{o}
	sender := web.Scope(scopeWrite, scopeEmails)

	g.Handle("GET", "/openapi.yaml", web.Public("describes the API and holds nothing of anybody"), f.openapi)

	g.Handle("GET", "/sends", sender, f.listSends)
	g.Handle("GET", "/sends/{send}", sender, f.showSend)
	g.Handle("GET", "/messages", sender, f.listMessages)
	g.Handle("POST", "/messages/{message}/replay", sender, f.replay)

	g.Handle("POST", "/templates/preview", web.Scope(scopeTemplatesRead, scopeTemplatesWrite, scopeWrite), f.preview)

	g.Handle("GET", "/webhooks", sender, f.listWebhooks)
	g.Handle("POST", "/webhooks", sender, f.createWebhook)
	g.Handle("DELETE", "/webhooks/{webhook}", sender, f.deleteWebhook)

	g.Handle("GET", "/suppressions", web.Scope(scopeAdmin), f.listSuppressions)
	g.Handle("PUT", "/suppressions/{email}", web.Scope(scopeAdmin), f.suppress)
	g.Handle("DELETE", "/suppressions/{email}", web.Scope(scopeAdmin), f.unsuppress)

	recipient := web.Own("the sealed token in the path, which only the recipient's mail holds")
	g.Handle("GET", "/unsubscribe/{token}", recipient, f.unsubscribePage)
	g.Handle("POST", "/unsubscribe/{token}", recipient, f.unsubscribe)
}

func (f *face) openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	_, _ = w.Write(f.Description)
	return nil
}

func client(r *http.Request) string { return token.FromContext(r.Context()).ClientID }

func noContent(w http.ResponseWriter) error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// missing is the answer for what does not exist, or is another client's.
func missing(err error, noun, id string) error {
	if errors.Is(err, notify.ErrNotFound) {
		return fault.Wrap(err, fault.NotFound, "%s with ID %q could not be found", noun, id)
	}
	return err
}
