package system

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/safedial"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/mail"
	"ingot/internal/notify/mail/smtp"
	"ingot/internal/platform"
	"ingot/internal/platform/engine/choice"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/run/registry"
	"ingot/internal/server/databases"
	"ingot/internal/server/settings"
)

// Config is the configuration of a server. DefaultConfig has the defaults; only
// DataDir has none.
type Config struct {
	DataDir             string
	Listen              string
	NotificationsListen string
	SSHListen           string
	AdminListen         string
	TLSConfig
	Domain string
	// TCPPorts are the ports of TCP routes, such as 1024-1123,2000; none means that
	// there are no TCP routes.
	TCPPorts string
	Engine   string
	// MemoryOvercommit is the maximum sum of the memory limits of all instances, as
	// a multiple of the machine's memory; 0 means the engine's default.
	MemoryOvercommit int
	// IsolationSegments are the names of the isolation segments, separated by commas,
	// whose apps this machine runs beside those of the shared one. On Kubernetes the
	// labels of nodes say it.
	IsolationSegments string
	// Kubernetes is used with the engine kubernetes.
	Kubernetes kubernetes.Config
	seams      seams
	// Programs is the directory of ingot-init, ingot-builder, ingot-static and
	// ingot-sftp; empty means the directory of the running program.
	Programs string
	// NotRoot is why an ordinary user who started the server cannot have containers.
	NotRoot error
	// DatabaseURL is sqlite:PATH or postgres://…; empty means a file in
	// DataDir.
	DatabaseURL string
	// DatabaseListenURL is the same PostgreSQL without a pooler, for LISTEN; empty
	// means DatabaseURL.
	DatabaseListenURL string
	// BlobURL is the bucket of packages, droplets and buildpacks, s3://…; empty means
	// a directory in DataDir. BlobRedirect lets clients download from the bucket.
	BlobURL      string
	BlobRedirect bool
	// LogStore is where the log lines of apps are kept: files, postgres or auto.
	LogStore string
	MailConfig
	EdgeConfig
	// AdminToken is the token of the admin address; it is needed if that is not on
	// loopback.
	AdminToken string
	// Traces are sent to an OpenTelemetry collector.
	Traces TraceConfig
	// PostgresURL and MySQLURL are servers on which the bundled broker creates
	// databases; empty means that it starts its own, if they are installed.
	PostgresURL string
	MySQLURL    string
	// AuthURL is an external authorization server; empty means the built-in
	// one.
	AuthURL string
	// PublicURL is the URL of the server for clients, and the issuer of its tokens;
	// empty means the address it listens on. Several servers on one database need
	// the same.
	PublicURL string
	// DrainNetworks are private networks that log drains may send to, as a list
	// of prefixes, or "all", beside AllowNetworks.
	DrainNetworks string
	// InsecureRegistries are registries of container images that do not use TLS, as a
	// list of HOST or HOST:PORT.
	InsecureRegistries string
	// DiskReserve is how many bytes of the data directory's disk stay free; 0
	// means a twentieth of it, at most 256 MiB.
	DiskReserve int64
	// DrainTimeout is how long a server that another process has replaced keeps
	// connections, WebSockets for example.
	DrainTimeout time.Duration
	// Demo creates an organization and a space to start with.
	Demo          bool
	PasswordGrant bool
	// BrokerTimeout is how long a service broker may take to answer; 0 means a
	// minute.
	BrokerTimeout time.Duration

	// AdminPassword and AdminClientSecret are used on the first start; empty
	// ones are generated then.
	AdminPassword string
	// AdminEmail is the address of the first user; empty is admin@DOMAIN.
	AdminEmail        string
	AdminClientSecret string
	// EncryptionKey, when set, is used instead of the key file.
	EncryptionKey string

	// Log is the operator's log; nil discards it.
	Log *slog.Logger
}

// DefaultConfig returns the configuration of `ingot up` without flags.
func DefaultConfig() Config {
	return Config{
		Listen:              "127.0.0.1:8080",
		NotificationsListen: "127.0.0.1:8081",
		SSHListen:           "127.0.0.1:2222",
		AdminListen:         "127.0.0.1:8082",
		Domain:              "localhost",
		TCPPorts:            "1024-1123",
		Engine:              choice.Auto,
		LogStore:            logStoreAuto,
		Kubernetes:          kubernetes.DefaultConfig(),
		PasswordGrant:       true,
		EdgeConfig:          EdgeConfig{LoginLimits: auth.DefaultLimitTexts()},
		TLSConfig:           TLSConfig{ForwardClientCert: clientCertsOff},
		DrainTimeout:        5 * time.Minute,
		MailConfig: MailConfig{MessagesKept: DefaultMessagesKept, MessagesKeptMax: DefaultMessagesKeptMax,
			QueueLimit: DefaultQueueLimit},
		Traces: TraceConfig{Sampling: DefaultTraceSampling},
	}
}

// Validate returns an error for the first invalid value, with the name of its flag.
// It checks only the values themselves.
func (c Config) Validate() error {
	checks := []check{
		{"data-dir", notEmpty(c.DataDir)},
		{"listen", settings.Address(c.Listen)},
		{"notifications-listen", settings.Address(c.NotificationsListen)},
		{"ssh-listen", settings.Address(c.SSHListen)},
		{"admin-listen", settings.Address(c.AdminListen)},
		{"admin-listen", checkAdmin(c.AdminListen, c.AdminToken)},
		{"domain", settings.HostName(c.Domain)},
		{"tcp-ports", checkPorts(c.TCPPorts)},
		{"engine", oneOf(c.Engine, choice.Names())},
		{"memory-overcommit", checkOvercommit(c.MemoryOvercommit)},
		{"isolation-segments", checkSegments(c.IsolationSegments, c.Engine)},
		{"database-url", databases.CheckURL(c.DatabaseURL)},
		{"database-listen-url", checkListenURL(c.DatabaseListenURL)},
		{"blob-url", checkBlobURL(c.BlobURL, c.BlobRedirect)},
		{"log-store", c.checkLogStore()},
		{"postgres-url", settings.ServerURL(c.PostgresURL, "postgres", "postgresql")},
		{"mysql-url", settings.ServerURL(c.MySQLURL, "mysql", "mariadb")},
		{"drain-networks", checkNetworks(c.DrainNetworks)},
		{"insecure-registries", registry.CheckInsecure(c.insecureRegistries())},
		{"auth-url", settings.URL(c.AuthURL, "http", "https")},
		{"public-url", settings.URL(c.PublicURL, "http", "https")},
		{"broker-timeout", notNegative(c.BrokerTimeout)},
		{"drain-timeout", notNegative(c.DrainTimeout)},
		{"disk-reserve", notNegative(c.DiskReserve)},
	}
	if flag, err := c.Kubernetes.Validate(); err != nil && c.Engine == "kubernetes" {
		checks = append(checks, check{flag, err})
	}
	return firstProblem(slices.Concat(checks, c.EdgeConfig.checks(), c.TLSConfig.checks(), c.Traces.checks(),
		c.MailConfig.checks()))
}

// check is the result of checking the value of a flag.
type check struct {
	flag string
	err  error
}

func firstProblem(checks []check) error {
	for _, c := range checks {
		if c.err != nil {
			return fmt.Errorf("--%s: %w", c.flag, c.err)
		}
	}
	return nil
}

func (c MailConfig) checks() []check {
	return []check{
		{"smtp-url", checkSMTP(c.SMTPURL)},
		{"mail-plan", checkPlan(c)},
		{"mail-from", checkMailbox(c.MailFrom)},
		{"notifications-url", settings.URL(c.NotificationsURL, "http", "https")},
		{"dkim-selector", checkDKIM(c)},
		{"bounce-listen", settings.OptionalAddress(c.BounceListen)},
		{"bounce-address", checkBounces(c)},
		{"messages-kept", notNegative(c.MessagesKept)},
		{"messages-kept-max", checkKeptMax(c.MessagesKeptMax)},
		{"allow-networks", checkNetworks(c.AllowNetworks)},
		{"trusted-ca", checkRoots(c.TrustedCA)},
	}
}

// checkKeptMax allows 0 for the default.
func checkKeptMax(d time.Duration) error {
	if d != 0 && d < notify.MinKept {
		return fmt.Errorf("%v is too short: clients may have messages kept for at least %v", d, notify.MinKept)
	}
	return nil
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("a value is needed")
	}
	return nil
}

func notNegative[T time.Duration | int64](d T) error {
	if d < 0 {
		return fmt.Errorf("%v is negative", d)
	}
	return nil
}

// maxOvercommit is more than is useful, and small enough that sums do not overflow.
const maxOvercommit = 1000

func checkOvercommit(n int) error {
	if n < 0 || n > maxOvercommit {
		return fmt.Errorf("%d is not between 1 and %d", n, maxOvercommit)
	}
	return nil
}

// segments returns the names in a list of isolation segments.
func segments(list string) []string {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" && name != platform.SharedSegment {
			names = append(names, name)
		}
	}
	return names
}

func checkSegments(list, engine string) error {
	if list != "" && engine == "kubernetes" {
		return errors.New("on Kubernetes, label nodes with " + kubernetes.LabelSegment + "=NAME instead")
	}
	for _, name := range segments(list) {
		if err := platform.CheckSegmentName(name); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
	}
	return nil
}

func oneOf(value string, allowed []string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%q is not one of %s", value, strings.Join(allowed, ", "))
}

func checkListenURL(s string) error {
	if strings.HasPrefix(s, "sqlite:") {
		return errors.New("it must begin with postgres://")
	}
	return databases.CheckURL(s)
}

func checkSMTP(s string) error {
	if s == "" {
		return nil
	}
	_, err := smtp.ParseURL(s)
	return err
}

func checkPlan(c MailConfig) error {
	_, err := c.mailPlan()
	return err
}

func checkMailbox(s string) error {
	if s == "" {
		return nil
	}
	_, err := mail.ParseAddress(s)
	return err
}

// insecureRegistries returns InsecureRegistries as a list.
func (c Config) insecureRegistries() []string { return listed(c.InsecureRegistries) }

func checkNetworks(list string) error {
	_, err := safedial.ParseGuard(list)
	return err
}

func checkProxies(list string) error {
	_, err := web.ParseProxies(list)
	return err
}

func checkDKIM(c MailConfig) error {
	if (c.DKIMKeyFile == "") != (c.DKIMSelector == "") {
		return errors.New("--dkim-key and --dkim-selector are given together")
	}
	return nil
}

func checkPorts(list string) error {
	_, err := platform.ParsePorts(list)
	return err
}

// normal returns the configuration in normalized form.
func (c Config) normal() (Config, error) {
	if err := c.Validate(); err != nil {
		return c, err
	}
	dir, err := filepath.Abs(c.DataDir)
	if err != nil {
		return c, err
	}
	c.DataDir = dir
	c.Domain = strings.ToLower(c.Domain)
	c.AuthURL, c.PublicURL = settings.Plain(c.AuthURL), settings.Plain(c.PublicURL)
	c.NotificationsURL = settings.Plain(c.NotificationsURL)
	if c.DatabaseURL == "" {
		c.DatabaseURL = "sqlite:" + filepath.Join(dir, databases.PlatformFile)
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return c, nil
}

// checkBounces checks the address of reports, which may be that of the sender.
func checkBounces(c MailConfig) error {
	if err := checkMailbox(c.BounceAddress); err != nil || c.BounceListen == "" {
		return err
	}
	return mail.CheckReturn(cmp.Or(c.BounceAddress, c.MailFrom, "notifications@localhost"))
}
