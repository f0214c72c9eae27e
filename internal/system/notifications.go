package system

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/auth"
	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/safedial"
	"ingot/internal/base/seal"
	"ingot/internal/base/token"
	"ingot/internal/base/tracing"
	"ingot/internal/base/uaaclient"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/audience"
	"ingot/internal/notify/delivery"
	"ingot/internal/notify/failover"
	"ingot/internal/notify/hook"
	"ingot/internal/notify/httpext"
	"ingot/internal/notify/httpv1"
	"ingot/internal/notify/httpv2"
	"ingot/internal/notify/inbox"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/dsn"
	"ingot/internal/notify/mail/mailbox"
	"ingot/internal/notify/mail/mtasts"
	"ingot/internal/notify/notifydb"
	"ingot/internal/notify/outbound"
	"ingot/internal/notify/provider"
	"ingot/internal/notify/push"
	"ingot/internal/notify/recurring"
	"ingot/internal/notify/template"
	"ingot/internal/notify/tracking"
	"ingot/internal/server/databases"
	"ingot/internal/server/diskspace"
	"ingot/internal/server/health"
	"ingot/internal/server/roots"
	"ingot/internal/server/steps"
)

// MailConfig is how notifications are sent.
type MailConfig struct {
	// SMTPURL is the mail server; without it mail goes to the built-in mailbox.
	SMTPURL string
	// MailPlan is a file with several mail servers, limits of receiving domains and a
	// warm-up plan, see mail.ParsePlan.
	MailPlan string
	// MailFrom is the sender of all mail; empty means notifications@DOMAIN.
	MailFrom string
	// NotificationsURL is the URL of the service for recipients, for the links in
	// mail; empty means the address it listens on.
	NotificationsURL string
	// AllowNetworks are private networks that the server may connect to on behalf
	// of users, as a list of prefixes, or "all"; empty means the internet only.
	AllowNetworks string
	// TrustedCA is a PEM file of certificate authorities that outgoing connections
	// trust beside those of the system.
	TrustedCA string
	// DKIMKeyFile is a private key to sign mail with, DKIMSelector its name in
	// the DNS.
	DKIMKeyFile  string
	DKIMSelector string
	// BounceListen is the address for reports of mail that could not be delivered;
	// empty means none.
	BounceListen string
	// BounceAddress is the mail address that reports are sent to; empty means MailFrom's. With BounceListen, it is the
	// return path of all mail, with a tag of the message before the @.
	BounceAddress string
	// MessagesKept is how long message statuses are kept.
	MessagesKept time.Duration
	// MessagesKeptMax is how long clients may have those of a kind kept at most; MessagesKept if that is longer.
	MessagesKeptMax time.Duration
	// QueueLimit is the maximum number of queued messages.
	QueueLimit int
}

// The defaults of MailConfig.
const (
	DefaultMessagesKept    = 7 * 24 * time.Hour
	DefaultMessagesKeptMax = 400 * 24 * time.Hour
	DefaultQueueLimit      = 5_000_000
)

// notificationsDir in the data directory belongs to the service.
const notificationsDir = "notifications"

// notificationAudiences are the audiences of tokens for the notification service:
// a UAA derives them from the scopes.
var notificationAudiences = []string{"notifications", "critical_notifications", "notification_templates",
	"notification_preferences", "emails"}

// notifications is the notification service with its parts.
type notifications struct {
	store        *notifydb.Store
	service      *actions.Service
	directory    *audience.Directory
	delivery     *delivery.Delivery
	unsubscriber *actions.Unsubscriber
	marker       *tracking.Marker
	tags         *notify.Tags
	tokens       *inbox.Tokens
	pushKeys     *push.Keys
	hub          *inbox.Hub
	texts        *provider.Channel
	devices      *provider.Channel
	recurring    *recurring.Runner
	mailbox      *mailbox.Mailbox // nil if a mail server is configured
	others       []background.Service
	visitor      func(*http.Request) netip.Addr
	kept         time.Duration
	keptMax      time.Duration
	log          *slog.Logger
	webhooks     outbound.Options
	checkDomain  func(context.Context) notify.DomainReport
	mailState    func() notify.MailState // nil if no mail server is configured
}

type notificationsOptions struct {
	MailConfig
	// Dir is the directory of the service, Disk its disk.
	Dir         string
	Disk        *diskspace.Guard
	DB          *db.DB
	UAA         *uaaclient.Client
	PlatformURL string
	// Visitor returns the address of a request; nil if it may be that of a proxy.
	Visitor func(*http.Request) netip.Addr
	// Routes are the apps of this server, which webhooks may call.
	Routes   safedial.Routes
	Domain   string
	Registry prometheus.Registerer
	// Databases and Tracer are for metrics and traces.
	Databases *databases.Metrics
	Tracer    *tracing.Tracer
	Log       *slog.Logger
	seams     seams
	// Lead reports whether this server, of those that share the database, does the work of a
	// name; nil means yes.
	Lead func(ctx context.Context, name string) bool
	// Servers returns how many servers those are; nil means one.
	Servers func() int
	// TLS is for outgoing connections.
	TLS *tls.Config
}

func (o notificationsOptions) leads(name string) func(context.Context) bool {
	return func(ctx context.Context) bool { return o.Lead == nil || o.Lead(ctx, name) }
}

// guard returns the guard for AllowNetworks, which Validate has checked.
func (c MailConfig) guard() safedial.Guard {
	g, _ := safedial.ParseGuard(c.AllowNetworks)
	return g
}

// kept returns how long message statuses are kept by default and at most.
func (c MailConfig) kept() (usual, most time.Duration) {
	usual = cmp.Or(c.MessagesKept, DefaultMessagesKept)
	return usual, max(usual, cmp.Or(c.MessagesKeptMax, DefaultMessagesKeptMax))
}

// openNotifications opens the service without starting it.
func openNotifications(ctx context.Context, o notificationsOptions) (*notifications, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	n := &notifications{log: o.Log}
	var err error
	o.MessagesKept, o.MessagesKeptMax = o.MailConfig.kept()
	n.kept, n.keptMax, n.visitor = o.MessagesKept, o.MessagesKeptMax, o.Visitor
	if n.store, err = notifydb.Open(ctx, o.DB, notifydb.Options{QueueLimit: o.QueueLimit, KeptLimit: o.MessagesKeptMax,
		Log: o.Log}); err != nil {
		return nil, err
	}
	for _, builtIn := range []notify.Template{template.Default(), template.DefaultV2()} {
		if err := n.store.SeedTemplate(ctx, builtIn); err != nil {
			return nil, fmt.Errorf("default templates: %w", err)
		}
	}
	key, err := n.store.IDKey(ctx)
	if err != nil {
		return nil, err
	}
	ids, err := notify.NewIDs(key)
	if err != nil {
		return nil, err
	}
	if n.marker, err = tracking.NewMarker(key); err != nil {
		return nil, err
	}
	if n.unsubscriber, err = actions.NewUnsubscriber(key); err != nil {
		return nil, err
	}
	if n.tags, err = notify.NewTags(key); err != nil {
		return nil, err
	}
	if n.tokens, err = inbox.NewTokens(key, nil); err != nil {
		return nil, err
	}
	n.hub = inbox.NewHub(inbox.Options{Store: n.store, Notices: n.store, Encode: httpext.InboxEvent(ids), Log: o.Log,
		Registry: o.Registry})
	o.MailFrom = cmp.Or(o.MailFrom, "notifications@"+o.Domain)
	if n.pushKeys, err = push.NewKeys(key, o.MailFrom, nil); err != nil {
		return nil, err
	}
	channel, err := n.openChannel(o)
	if err != nil {
		return nil, err
	}
	n.directory = audience.New(audience.Options{UAA: o.UAA, PlatformURL: o.PlatformURL,
		HTTP: uaaclient.NewHTTPClient(o.TLS), Log: o.Log})
	n.service = actions.New(actions.Options{
		Store: n.store, Directory: n.directory, Rights: n.directory, IDs: ids, Limits: actions.Limits{Queue: o.QueueLimit},
		Log:  o.Log,
		Kick: func() { n.delivery.Kick() }, Servers: o.Servers,
	})
	n.webhooks = outbound.Options{Guard: o.guard(), Routes: o.Routes, TLS: o.TLS}
	n.delivery = delivery.New(o.seams.deliveryWith(delivery.Options{
		Store: n.store, Directory: n.directory, Channel: channel, IDs: ids, Unsubscriber: n.unsubscriber,
		Marker: n.marker,
		More:   n.moreChannels(o),
		From:   o.MailFrom, Domain: o.Domain, BaseURL: o.NotificationsURL, Dir: o.Dir, Retention: o.MessagesKept,
		Extended: n.service.Extended, Log: o.Log, Metrics: delivery.NewMetrics(o.Registry),
		Webhooks: n.webhooks, Lead: o.leads("purge-messages"), Tracer: o.Tracer,
	}))
	n.recurring = recurring.New(recurring.Options{Store: n.store, Send: n.service.Send, Log: o.Log})
	if err := n.openBounces(o); err != nil {
		return nil, err
	}
	return n, nil
}

// moreChannels returns the channels other than mail. Those that call addresses of clients share nothing with each
// other, so that one that hangs does not delay the other.
func (n *notifications) moreChannels(o notificationsOptions) map[notify.ChannelID]notify.Channel {
	more := map[notify.ChannelID]notify.Channel{notify.Inbox: inbox.NewChannel(n.store, n.hub)}
	for _, id := range []notify.ChannelID{notify.Hook, notify.Chat} {
		more[id] = hook.NewChannel(id, hook.Options{Destinations: n.store, Client: outbound.New(n.webhooks), Log: o.Log})
	}
	n.texts = provider.NewChannel(notify.SMS, provider.Options{Providers: n.store, Client: outbound.New(n.webhooks),
		Servers: o.Servers, Log: o.Log})
	more[notify.SMS] = n.texts
	n.devices = provider.NewChannel(notify.Push, provider.Options{Providers: n.store, Client: outbound.New(n.webhooks),
		Servers: o.Servers, Log: o.Log})
	more[notify.Push] = push.NewChannel(push.Options{Store: n.store, Client: outbound.New(n.webhooks), Keys: n.pushKeys,
		Devices: n.devices, Log: o.Log})
	return more
}

// providerHealth returns what this server knows of a provider.
func (n *notifications) providerHealth(of notify.ChannelID, owner, name string) failover.Health {
	if of == notify.Push {
		return n.devices.Health(owner, name)
	}
	return n.texts.Health(owner, name)
}

// openChannel returns the channel to the mail server, or the built-in mailbox.
func (n *notifications) openChannel(o notificationsOptions) (notify.Channel, error) {
	identity := mail.Identity{From: o.MailFrom, Domain: o.Domain, Return: o.BounceAddress}
	if o.BounceListen != "" {
		identity.Tag = n.tags.Tag
	}
	plan, err := o.mailPlan()
	if err != nil {
		return nil, fmt.Errorf("--mail-plan: %w", err)
	}
	policies := mtasts.New(mtasts.Options{Guard: o.guard(), TLS: o.TLS})
	if o.SMTPURL == "" && len(plan.Routes) == 0 {
		n.checkDomain = func(ctx context.Context) notify.DomainReport {
			return mail.CheckDomain(ctx, o.MailFrom, policies)
		}
		n.mailbox, err = mailbox.New(mailbox.Options{Dir: filepath.Join(o.Dir, "mailbox"), Identity: identity, Log: o.Log})
		return n.mailbox, err
	}
	options := mail.Options{URL: o.SMTPURL, Plan: plan, Identity: identity, TLS: o.TLS, Policies: policies, Log: o.Log,
		Quotas: n.store, Servers: o.Servers, Registry: o.Registry}
	if o.DKIMKeyFile != "" {
		key, err := o.dkimKey()
		if err != nil {
			return nil, err
		}
		options.DKIM = &mail.DKIM{Selector: o.DKIMSelector, Key: key}
	}
	channel, err := mail.NewChannel(options)
	if err != nil {
		return nil, fmt.Errorf("--smtp-url, --mail-plan, --mail-from, --bounce-address or --dkim-key: %w", err)
	}
	n.checkDomain, n.mailState = channel.CheckDomain, channel.State
	n.others = append(n.others, channel)
	return channel, nil
}

// mailPlan reads MailPlan. Its errors contain no passwords.
func (c MailConfig) mailPlan() (mail.Plan, error) { return mail.ReadPlan(c.MailPlan, c.SMTPURL != "") }

func (c MailConfig) dkimKey() ([]byte, error) {
	key, err := os.ReadFile(c.DKIMKeyFile)
	if err != nil {
		return nil, fmt.Errorf("--dkim-key: %w", err)
	}
	return key, nil
}

// openBounces opens the listener for reports about addresses that refuse mail, or whose users complain.
func (n *notifications) openBounces(o notificationsOptions) error {
	if o.BounceListen == "" {
		return nil
	}
	listener, err := dsn.New(dsn.Options{
		Addr: o.BounceListen, Return: cmp.Or(o.BounceAddress, o.MailFrom), Open: n.tags.ID, Log: o.Log, Registry: o.Registry,
		Bounce: func(ctx context.Context, b dsn.Bounce) (bool, error) {
			b.Diagnostic = notify.WithoutTag(b.Diagnostic, n.tags.Tag(b.MessageID))
			return n.service.Bounced(ctx, actions.Bounce(b))
		},
		Complaint: func(ctx context.Context, c dsn.Complaint) (bool, error) {
			return n.service.Complained(ctx, actions.Complaint(c))
		},
	})
	if err != nil {
		return fmt.Errorf("--bounce-listen or --bounce-address: %w", err)
	}
	n.others = append(n.others, listener)
	return nil
}

// parts returns what has to be started, in this order.
func (n *notifications) parts() []background.Service {
	return append(n.others[:len(n.others):len(n.others)], n.hub, n.delivery, n.recurring)
}

// routes returns the route tables of both versions.
func (n *notifications) routes(verifier *token.Verifier, b *frontend) *httpext.Versions {
	extensions := httpext.Options{Store: n.store, Service: n.service, Unsubscriber: n.unsubscriber, Kick: n.delivery.Kick,
		CheckWebhook: n.webhooks.Check, CheckDomain: n.checkDomain, MailState: n.mailState,
		Tokens: n.tokens, Hub: n.hub, PushKey: n.pushKeys.Public(), KickRecurring: n.recurring.Kick,
		ProviderHealth: n.providerHealth, Kept: n.kept, KeptMax: n.keptMax, Marker: n.marker, Address: n.visitor,
		Log: n.log}
	if n.mailbox != nil {
		extensions.Mailbox = n.mailbox
	}
	mux := func(format web.Format, description []byte, register func(*web.Group)) *web.Mux {
		m := web.NewMux(format, n.log, b.metrics)
		m.Room = b.disk.Room
		g := m.Group("notifications", format, verifier)
		register(g)
		extensions.Description = description
		httpext.Register(g, extensions)
		health.Routes(m, b.health)
		return m
	}
	return &httpext.Versions{
		V1: mux(web.FormatNotifications, httpext.DescriptionV1(), func(g *web.Group) {
			httpv1.Register(g, httpv1.Options{Store: n.store, Service: n.service, Log: n.log})
		}),
		V2: mux(web.FormatNotificationsV2, httpext.DescriptionV2(), func(g *web.Group) {
			httpv2.Register(g, httpv2.Options{Store: n.store, Service: n.service, Directory: n.directory, Log: n.log})
		}),
		Log: n.log,
	}
}

// mailboxPath is the path of the built-in mailbox on the admin address.
const mailboxPath = "/mailbox"

// mountMailbox shows the mail of the built-in mailbox on the admin address.
func (n *notifications) mountMailbox(admin *web.Mux) {
	if n.mailbox == nil {
		return
	}
	access := web.Public("mail is kept here only if no mail server is configured, and the admin address is on loopback " +
		"or has a token, which GuardOperator requires")
	n.mailbox.Mount(admin.Group("mailbox", web.FormatNotifications, nil), mailboxPath, access)
}

// openNotifications opens the service as a part of the server. It calls the
// platform and the authorization server over HTTP, as if they were elsewhere.
func (s *System) openNotifications(ctx context.Context, b *frontend, dir *datadir.Dir, secrets *datadir.Secrets,
	client *http.Client, r *runtime, trusted *roots.Roots, database *steps.Ahead[*db.DB]) (*notifications, error) {
	c := s.config
	_, n, err := s.openMailing(ctx, database,
		notificationsOptions{
			MailConfig: c.MailConfig, Dir: dir.File(notificationsDir), Disk: b.disk, PlatformURL: b.endpoints.API,
			Routes: r.routes, Domain: c.Domain, Registry: b.recording(), Databases: b.databases, Tracer: b.tracer, Log: c.Log,
			seams: c.seams, Lead: r.cluster.Lead, Servers: r.cluster.Servers, TLS: trusted.TLS(), Visitor: c.proxies().Client,
			UAA: uaaclient.New(uaaclient.Options{
				BaseURL: b.endpoints.Auth, ClientID: auth.ClientNotifications, Secret: secrets.Clients[auth.ClientNotifications],
				HTTP: client,
			}),
		}, b.endpoints.Notifications)
	return n, err
}

// beginMailing opens the database of the service and migrates it, beside the platform's.
func (s *server) beginMailing(ctx context.Context, databaseURL, dir string, keys *seal.Keyring,
	metrics *databases.Metrics, log *slog.Logger) *steps.Ahead[*db.DB] {
	return steps.Begin(ctx, &s.steps, "notifications database", func(ctx context.Context) (*db.DB, error) {
		if err := databases.NotLost(databaseURL, filepath.Join(dir, "owner")); err != nil {
			return nil, err
		}
		d, err := db.Open(ctx, db.Options{URL: databaseURL, Keys: keys, Log: log,
			Observe: metrics.Observe(databases.Notifications)})
		if err != nil {
			return nil, err
		}
		if err := d.Migrate(ctx, notifydb.Migrations(d.Dialect())); err != nil {
			return nil, errors.Join(err, d.Close())
		}
		return d, nil
	}, func(d *db.DB) { _ = d.Close() })
}

// openMailing opens the service. listening is its URL if the operator has set none.
func (s *server) openMailing(ctx context.Context, database *steps.Ahead[*db.DB], o notificationsOptions,
	listening string) (*db.DB, *notifications, error) {
	d, err := database.Join()
	if err != nil {
		return nil, nil, err
	}
	s.steps.KeepDB(d, o.Log)
	o.Databases.Add(databases.Notifications, d)
	o.DB = d
	o.NotificationsURL = cmp.Or(o.NotificationsURL, listening)
	n, err := openNotifications(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	o.Disk.Hold(d.LogFile())
	s.steps.Later(n.directory.Close)
	return d, n, s.steps.Run(ctx, databases.Resealing(d, notifydb.SealedColumns(), o.leads("reseal-messages"), o.Log))
}
