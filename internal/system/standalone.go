package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"ingot/internal/auth/external"
	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/uaaclient"
	"ingot/internal/base/web"
	"ingot/internal/server/databases"
	"ingot/internal/server/diskspace"
	"ingot/internal/server/front"
	"ingot/internal/server/settings"
)

// StandaloneConfig is the configuration of the notification service alone.
type StandaloneConfig struct {
	DataDir     string
	Listen      string
	AdminListen string
	Domain      string
	// DatabaseURL is sqlite:PATH or postgres://…; empty means a file in DataDir.
	DatabaseURL string
	MailConfig
	// AdminToken is the token of the admin address; it is needed if that is not on
	// loopback.
	AdminToken string
	// Traces are sent to an OpenTelemetry collector.
	Traces TraceConfig
	// AuthURL is the authorization server; PlatformURL the v3 API, which is needed
	// to send to spaces and organizations.
	AuthURL     string
	PlatformURL string
	// ClientID and ClientSecret are the OAuth client that the service uses for both.
	ClientID     string
	ClientSecret string
	// EncryptionKey, when set, is used instead of the key file.
	EncryptionKey string
	// Log is the operator's log; nil discards it.
	Log *slog.Logger
}

// Validate returns an error for the first invalid value, with the name of its flag.
func (c StandaloneConfig) Validate() error {
	secret := error(nil)
	if c.ClientSecret == "" {
		secret = fmt.Errorf("the secret of the client %q is needed, in that file or in INGOT_CLIENT_SECRET", c.ClientID)
	}
	authURL := errors.New("the address of the authorization server is needed, for example https://uaa.example.org")
	if c.AuthURL != "" {
		authURL = settings.URL(c.AuthURL, "http", "https")
	}
	return firstProblem(append([]check{
		{"data-dir", notEmpty(c.DataDir)},
		{"listen", settings.Address(c.Listen)},
		{"admin-listen", settings.Address(c.AdminListen)},
		{"admin-listen", checkAdmin(c.AdminListen, c.AdminToken)},
		{"domain", settings.HostName(c.Domain)},
		{"database-url", databases.CheckURL(c.DatabaseURL)},
		{"auth-url", authURL},
		{"platform-url", settings.URL(c.PlatformURL, "http", "https")},
		{"client-id", notEmpty(c.ClientID)},
		{"client-secret-file", secret},
	}, append(c.Traces.checks(), c.MailConfig.checks()...)...))
}

// normal returns the configuration in normalized form.
func (c StandaloneConfig) normal() (StandaloneConfig, error) {
	if err := c.Validate(); err != nil {
		return c, err
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, err
	}
	c.DataDir, c.Domain = dir, strings.ToLower(c.Domain)
	for _, u := range []*string{&c.AuthURL, &c.PlatformURL, &c.NotificationsURL} {
		*u = strings.TrimRight(*u, "/")
	}
	if c.DatabaseURL == "" {
		c.DatabaseURL = "sqlite:" + filepath.Join(dir, databases.NotificationsFile)
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, nil
}

// Standalone is the notification service without a built-in platform and
// authorization server. It is a background.Service.
type Standalone struct {
	config StandaloneConfig
	server
}

var _ background.Service = (*Standalone)(nil)

// NewStandalone returns a server that is not running. It fails when the
// configuration is not valid.
func NewStandalone(c StandaloneConfig) (*Standalone, error) {
	c, err := c.normal()
	if err != nil {
		return nil, err
	}
	return &Standalone{config: c}, nil
}

// Start returns when the server accepts requests. Requests with tokens get 503
// until the authorization server answers. A start that fails leaves nothing
// running.
func (s *Standalone) Start(ctx context.Context) error { return s.begin(ctx, s.start) }

// Database describes the database for users, without its password.
func (s *Standalone) Database() string { return databases.Describe(s.config.DatabaseURL) }

func (s *Standalone) start(ctx context.Context) error {
	c := s.config
	dir, err := datadir.Open(c.DataDir, c.Log)
	if err != nil {
		return err
	}
	s.steps.Later(dir.Close)
	disk, err := diskspace.Open(diskspace.Options{Dir: c.DataDir, Log: c.Log})
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	b, drain, err := s.openPorts(ctx, dir)
	if err != nil {
		return err
	}
	b.useDisk(disk)
	s.steps.Later(disk.Restock)
	if err := s.steps.Run(ctx, disk); err != nil {
		return err
	}
	keys, err := dir.Keys(c.EncryptionKey, c.DatabaseURL, c.Log)
	if err != nil {
		return err
	}
	b.health.Ready(partSecrets, nil)

	trusted, client, err := s.outgoing(c.MailConfig)
	if err != nil {
		return err
	}
	own := dir.File(notificationsDir)
	database, n, err := s.openMailing(ctx, s.beginMailing(ctx, c.DatabaseURL, own, keys, b.databases,
		c.Log), notificationsOptions{
		MailConfig: c.MailConfig, Dir: own, Disk: disk, PlatformURL: c.PlatformURL, Domain: c.Domain,
		Registry: b.registry, Databases: b.databases, Tracer: b.tracer, Log: c.Log, TLS: trusted.TLS(),
		UAA: uaaclient.New(uaaclient.Options{BaseURL: c.AuthURL, ClientID: c.ClientID, Secret: c.ClientSecret, HTTP: client}),
	}, b.endpoints.Notifications)
	if err != nil {
		return err
	}
	b.health.Ready(partDatabase, database.Ping)
	if err := s.open(ctx, b, n, client); err != nil {
		return err
	}
	s.steps.Later(drain)
	c.Log.Info("ready", "notifications", b.endpoints.Notifications, "data_dir", c.DataDir)
	return nil
}

// open starts delivery and accepts requests.
func (s *Standalone) open(ctx context.Context, b *frontend, n *notifications, client *http.Client) error {
	var publishing sync.Mutex // two goroutines may publish at the same time
	var authority *external.Server
	publish := func() {
		publishing.Lock()
		defer publishing.Unlock()
		b.front.Live.Store(&front.Routes{Notifications: n.routes(authority.Verifier(notificationAudiences...), b)})
	}
	authority = external.New(s.config.AuthURL, client, s.config.Log, func() {
		publish()
		b.health.Ready(partAuth, nil)
	})
	if err := s.steps.Run(ctx, authority); err != nil {
		return err
	}
	n.mountMailbox(b.admin)
	for _, part := range n.parts() {
		if err := s.steps.Run(ctx, part); err != nil {
			return err
		}
	}
	publish()
	b.health.Ready(partNotifications, nil)
	return nil
}

// openPorts opens the ports and answers health checks there; other requests get
// 503. drain stops the public server.
func (s *Standalone) openPorts(ctx context.Context, dir *datadir.Dir) (b *frontend, drain func(), err error) {
	c := s.config
	_ = os.Remove(dir.File(endpointsFile)) // left by a server that was killed
	var ports [2]net.Listener
	for i, port := range [2]struct{ flag, addr string }{{"listen", c.Listen}, {"admin-listen", c.AdminListen}} {
		if ports[i], err = web.Listen(ctx, port.flag, port.addr); err != nil {
			return nil, nil, err
		}
		s.steps.Later(func() { _ = ports[i].Close() })
		warnIfOpen(c.Log, port.flag, ports[i])
	}
	if err := requireToken(ports[1], c.AdminListen, c.AdminToken); err != nil {
		return nil, nil, err
	}
	b = newFrontend(c.Domain, c.Log)
	b.health.Expect(partDisk, partSecrets, partDatabase, partAuth, partNotifications)
	if b.tracer, err = s.startTracing(ctx, c.Traces, c.roots, b, "ingot-notifications"); err != nil {
		return nil, nil, err
	}
	b.endpoints = Endpoints{
		API: c.PlatformURL, Auth: c.AuthURL, Notifications: urlOf(ports[0].Addr()), Admin: urlOf(ports[1].Addr()),
		Domain: c.Domain, DataDir: c.DataDir, PID: os.Getpid(),
	}
	public := web.NewServer(ports[0], web.Pipeline(b.front.Notifications(), web.FormatNotifications, c.Log), c.Log)
	admin := web.NewServer(ports[1], web.Pipeline(web.GuardOperator(b.admin, b.front.Health,
		web.OperatorNames(c.AdminListen, c.Domain, c.NotificationsURL), c.AdminToken, c.Log), web.FormatV3, c.Log), c.Log)
	if err := s.announce(ctx, dir, b.endpoints, []*web.Server{admin}, []*web.Server{public}, s.config.Log); err != nil {
		return nil, nil, err
	}
	s.endpoints.Store(&b.endpoints)
	s.built.Store(b)
	return b, public.Stop, nil
}
