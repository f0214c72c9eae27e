package httpext

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/inbox"
	"ingot/internal/notify/tracking"
)

const (
	scopeWrite          = "notifications.write"
	scopeManage         = "notifications.manage"
	scopeEmails         = "emails.write"
	scopeAdmin          = "notifications.admin"
	scopeTemplatesRead  = "notification_templates.read"
	scopeTemplatesWrite = "notification_templates.write"
)

// Options configure Register.
type Options struct {
	Store        notify.Store
	Service      *actions.Service
	Unsubscriber *actions.Unsubscriber
	// Kick tells the delivery that a message was queued again.
	Kick func()
	// KickRecurring tells what sends recurring sends that one has changed.
	KickRecurring func()
	// CheckWebhook returns why a webhook's address will never be called; nil
	// allows all addresses.
	CheckWebhook func(ctx context.Context, address string) error
	// Mailbox is the built-in mailbox; nil if mail is sent to a mail server.
	Mailbox Mailbox
	// CheckDomain says what receivers find when they check mail of this service; nil means that
	// it cannot be said.
	CheckDomain func(context.Context) notify.DomainReport
	// MailState returns what this server knows of mail servers and receiving domains; nil means that there is no mail
	// server.
	MailState func() notify.MailState
	// ProviderHealth returns what this server knows of a provider; nil means that it knows nothing.
	ProviderHealth func(of notify.ChannelID, owner, name string) failover.Health
	// Tokens opens inboxes, Hub has their streams; nil means that there are none.
	Tokens *inbox.Tokens
	Hub    *inbox.Hub
	// PushKey is the public key that browsers subscribe with.
	PushKey string
	// Kept is how long messages are kept after they are final (7 days), and KeptMax how long kinds may say (400 days).
	Kept, KeptMax time.Duration
	// Marker opens the marks of links and images in mail; nil means that there are none.
	Marker *tracking.Marker
	// Address returns the address of a visitor, to limit what each requests; nil means no limit.
	Address func(*http.Request) netip.Addr
	// Description is the content of /openapi.yaml.
	Description []byte
	Log         *slog.Logger
}

// Mailbox serves the mail of the built-in mailbox as JSON. Paths have the
// parameter number.
type Mailbox interface {
	ListJSON(w http.ResponseWriter, r *http.Request) error
	ShowJSON(w http.ResponseWriter, r *http.Request) error
	// Source writes a message as it would be sent.
	Source(w http.ResponseWriter, r *http.Request) error
	ClearJSON(w http.ResponseWriter, r *http.Request) error
}

type handlers struct {
	Options
	uploads uploads
	// counting limits what is counted of visits to marked links and images.
	counting *rate.Limiter
}

//go:embed openapi-v1.yaml
var v1Description string

//go:embed openapi-v2.yaml
var v2Description string

//go:embed openapi-shared.yaml
var sharedDescription string

// The OpenAPI descriptions of both versions, including the routes of this package. They are made when they are
// asked for.
var (
	DescriptionV1 = sync.OnceValue(func() []byte { return describe(v1Description) })
	DescriptionV2 = sync.OnceValue(func() []byte { return describe(v2Description) })
)

// describe adds the shared paths and components to the description of a version. Schemas are the
// last components of both.
func describe(own string) []byte {
	ownPaths, ownSchemas, _ := strings.Cut(own, "components:\n  schemas:\n")
	paths, components, _ := strings.Cut(strings.TrimPrefix(sharedDescription, "paths:\n"), "components:\n")
	return []byte(ownPaths + paths + "components:\n" + components + ownSchemas)
}

// VersionHeader is the header of requests that selects the version of the API.
const VersionHeader = "X-NOTIFICATIONS-VERSION"

// Versions passes each request to the version of the API that it selects.
type Versions struct {
	V1, V2 *web.Mux
	Log    *slog.Logger
}

// ServeHTTP implements http.Handler.
func (v *Versions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimSpace(r.Header.Get(VersionHeader)) {
	case "", "1":
		v.V1.ServeHTTP(w, r)
	case "2":
		v.V2.ServeHTTP(w, r)
	default:
		web.WriteError(w, r, web.FormatNotifications, v.Log,
			fault.New(fault.UnknownRoute, "There is no such version of this API; the header %s may be 1 or 2.", VersionHeader))
	}
}

// Register adds the routes to a group.
func Register(g *web.Group, o Options) {
	if o.Kick == nil {
		o.Kick = func() {}
	}
	if o.KickRecurring == nil {
		o.KickRecurring = func() {}
	}
	const day = 24 * time.Hour
	o.Kept, o.KeptMax = cmp.Or(o.Kept, 7*day), cmp.Or(o.KeptMax, 400*day)
	f := &handlers{Options: o, counting: rate.NewLimiter(countsPerSecond, countsAtOnce)}
	sender := web.Scope(scopeWrite, scopeEmails)

	g.Handle("GET", "/openapi.yaml", web.Public("describes the API and contains no user data"), f.openapi)

	reader := web.Scope(scopeWrite, scopeEmails, scopeAdmin)
	g.Handle("GET", "/sends", reader, f.listSends)
	g.Within(sendLimits).Storing().Handle("POST", "/sends", web.Scope(scopeWrite), f.createSend)
	g.Handle("GET", "/sends/{send}", reader, f.showSend)
	g.Handle("DELETE", "/sends/{send}", reader, f.cancelSend)
	manager := web.Scope(scopeManage)
	g.Handle("GET", "/kinds/{kind}/schema", manager, f.showSchema)
	g.Handle("PUT", "/kinds/{kind}/schema", manager, f.setSchema)
	g.Handle("DELETE", "/kinds/{kind}/schema", manager, f.deleteSchema)
	g.Within(streamLimits).Handle("GET", "/messages", reader, f.listMessages)
	g.Handle("POST", "/messages/{message}/replay", reader, f.replay)
	g.Handle("GET", "/audience", sender, f.audience)
	g.Handle("GET", "/sender_domain", web.Scope(scopeManage, scopeAdmin), f.senderDomain)
	g.Handle("GET", "/mail_state", web.Scope(scopeAdmin), f.mailState)
	g.Handle("GET", "/usage", web.Scope(scopeWrite, scopeEmails, scopeManage, scopeTemplatesWrite, scopeAdmin), f.usage)
	g.Handle("GET", "/figures", web.Scope(scopeWrite, scopeEmails, scopeManage, scopeAdmin), f.figures)
	g.Handle("GET", "/statistics", web.Scope(scopeManage, scopeAdmin), f.statistics)

	author := web.Scope(scopeTemplatesRead, scopeTemplatesWrite, scopeWrite)
	g.Handle("POST", "/templates/preview", author, f.preview)
	g.Handle("POST", "/templates/check", author, f.check)
	readsTemplates := web.Scope(scopeTemplatesRead, scopeTemplatesWrite, scopeAdmin)
	writesTemplates := web.Scope(scopeTemplatesWrite, scopeAdmin)
	g.Handle("GET", "/templates/{template}/variants", readsTemplates, f.listVariants)
	g.Handle("PUT", "/templates/{template}/variants/{locale}", writesTemplates, f.setVariant)
	g.Handle("DELETE", "/templates/{template}/variants/{locale}", writesTemplates, f.deleteVariant)
	g.Handle("GET", "/missing_variants", readsTemplates, f.missingVariants)
	g.Handle("GET", "/template_variables", author, f.variables)

	g.Handle("GET", "/webhooks", sender, f.listWebhooks)
	g.Handle("POST", "/webhooks", sender, f.createWebhook)
	g.Handle("DELETE", "/webhooks/{webhook}", sender, f.deleteWebhook)

	g.Handle("GET", "/suppressions", web.Scope(scopeAdmin), f.listSuppressions)
	g.Handle("PUT", "/suppressions/{email}", web.Scope(scopeAdmin), f.suppress)
	g.Handle("DELETE", "/suppressions/{email}", web.Scope(scopeAdmin), f.unsuppress)

	for _, route := range []struct{ method, pattern string }{
		{"GET", ""}, {"DELETE", ""}, {"GET", "/{number}"}, {"GET", "/{number}/source"},
	} {
		g.Handle(route.method, "/mailbox/messages"+route.pattern, web.Scope(scopeAdmin),
			f.mailbox(route.method, route.pattern))
	}

	f.registerPartials(g)
	f.registerVersions(g)
	f.registerChannels(g)
	f.registerDestinations(g)
	f.registerProviders(g)
	f.registerWorkflows(g)
	f.registerDigests(g)
	f.registerThrottles(g)
	f.registerRetention(g)
	f.registerTracking(g)
	f.registerInbox(g)
	f.registerPush(g)
	f.registerPeople(g)
	f.registerPreferences(g)
	f.registerTopics(g)
	f.registerRecurring(g)
	f.registerAttachments(g)

	recipient := web.Own("the sealed token in the path, which only the recipient's mail contains")
	g.Handle("GET", "/unsubscribe/{token}", recipient, f.unsubscribePage)
	g.Handle("POST", "/unsubscribe/{token}", recipient, f.unsubscribe)
}

func (f *handlers) openapi(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
	_, _ = w.Write(f.Description)
	return nil
}

func client(r *http.Request) string { return token.FromContext(r.Context()).ClientID }

// missing returns the error for a resource that does not exist or belongs to
// another client.
func missing(err error, noun, id string) error {
	if errors.Is(err, notify.ErrNotFound) {
		return fault.Wrap(err, fault.NotFound, "%s with ID %q could not be found", noun, id)
	}
	return err
}
