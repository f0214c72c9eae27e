package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jessevdk/go-flags"

	"ingot/internal/base/logging"
	"ingot/internal/base/version"
	"ingot/internal/system"
)

// options are all commands with their flags.
type options struct {
	Up   upOptions   `command:"up" description:"Run the server" long-description:"Runs the server until it is interrupted. Every flag can also be given by the environment variable named beside it."`
	Down downOptions `command:"down" description:"Stop the server and its apps" long-description:"Stops the server of a data directory and everything that keeps running without it: app instances with their networks and mounts, and the databases of services. The data is kept: the next 'ingot up' starts the apps."`
	Keys struct {
		Rotate struct {
			DataDir string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"The data directory of the server"`
		} `command:"rotate-encryption" description:"Add a new encryption key" long-description:"Puts a new key before those that encrypt the secrets in the database. The next start of the server uses it."`
	} `command:"keys" description:"Manage encryption keys"`
	Notifications notificationsOptions `command:"notifications" subcommands-optional:"true" description:"Run the notification service alone" long-description:"Runs the notification service until it is interrupted, against an authorization server and a platform that run elsewhere. Every flag can also be given by the environment variable named beside it."`
	Demo          demoOptions          `command:"demo" description:"Run a guided tour on a running server" long-description:"Runs the steps of docs/tour.md on the server of this machine in an org of its own, shows each command with its output, and cleans up."`
	Broker        brokerOptions        `command:"broker" description:"Check service brokers"`
	Version       struct{}             `command:"version" description:"Show the version"`
	Help          struct{}             `command:"help" description:"Show help for a command"`
}

// upOptions are the flags of `ingot up`.
type upOptions struct {
	DataDir             string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Where everything is kept"`
	Listen              string `long:"listen" env:"INGOT_LISTEN" value-name:"HOST:PORT" description:"Platform API and authorization server; port 0 picks a free one, here and below"`
	NotificationsListen string `long:"notifications-listen" env:"INGOT_NOTIFICATIONS_LISTEN" value-name:"HOST:PORT" description:"Notification service"`
	SSHListen           string `long:"ssh-listen" env:"INGOT_SSH_LISTEN" value-name:"HOST:PORT" description:"ssh gateway to app instances"`
	AdminListen         string `long:"admin-listen" env:"INGOT_ADMIN_LISTEN" value-name:"HOST:PORT" description:"Metrics, health and profiling; open to whoever can connect"`
	Domain              string `long:"domain" env:"INGOT_DOMAIN" value-name:"NAME" description:"The domain of the server's own host names"`
	Engine              string `long:"engine" env:"INGOT_ENGINE" value-name:"auto|container|process" description:"What runs apps: containers (root and runc are needed), plain processes (no isolation), or what the data directory remembers; on the first start auto means containers when a trial container works"`
	MemoryOvercommit    int    `long:"memory-overcommit" env:"INGOT_MEMORY_OVERCOMMIT" value-name:"N" description:"How many times the machine's memory the memory limits of all instances may add up to; 10 when it is not given, 1 for Diego's rule"`
	Programs            string `long:"programs" env:"INGOT_PROGRAMS" value-name:"DIR" description:"Where ingot-init, ingot-builder, ingot-static and ingot-sftp are; without it, beside ingot, or in the lib/ingot of a package"`
	DatabaseURL         string `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME; without it, a file in the data directory"`
	mailOptions
	AuthURL        string        `long:"auth-url" env:"INGOT_AUTH_URL" value-name:"URL" description:"Another UAA-compatible authorization server to use; without it, the built-in one"`
	PublicURL      string        `long:"public-url" env:"INGOT_PUBLIC_URL" value-name:"URL" description:"Where clients reach this server, when that is not the address of --listen; it names the issuer of tokens, and several servers on one database need the same"`
	Demo           bool          `long:"demo" env:"INGOT_DEMO" description:"Create the org demo with the space dev to try things out in"`
	PasswordGrant  string        `long:"password-grant" env:"INGOT_PASSWORD_GRANT" value-name:"on|off" description:"Let users log in with their password at the token endpoint, as 'cf login' does"`
	PostgresURL    string        `long:"postgres-url" env:"INGOT_POSTGRES_URL" value-name:"URL" description:"A PostgreSQL server for the service postgres (postgres://USER:PASSWORD@HOST:PORT); without it, one of its own where it is installed"`
	MySQLURL       string        `long:"mysql-url" env:"INGOT_MYSQL_URL" value-name:"URL" description:"A MariaDB server for the service mysql (mysql://USER:PASSWORD@HOST:PORT); without it, one of its own where it is installed"`
	BrokerTimeout  time.Duration `long:"broker-timeout" env:"INGOT_BROKER_TIMEOUT" value-name:"DURATION" description:"How long a service broker may take to answer a request; 60s when it is not given"`
	DrainNetworks  string        `long:"drain-networks" env:"INGOT_DRAIN_NETWORKS" value-name:"LIST" description:"Private networks that log drains may send to, beside those of --allow-networks"`
	DiskReserve    int64         `long:"disk-reserve" env:"INGOT_DISK_RESERVE" value-name:"MIB" description:"How much of the data directory's disk stays free: with less, uploads, builds and starts are refused; a twentieth of the disk, at most 256, when it is not given"`
	TrustedProxies string        `long:"trusted-proxies" env:"INGOT_TRUSTED_PROXIES" value-name:"LIST" description:"Addresses or networks of the proxies in front, such as 127.0.0.1,10.0.0.0/8; their X-Forwarded-For says which client a login comes from"`
	logOptions
}

// mailOptions say how notifications leave, for every command that sends some.
type mailOptions struct {
	SMTPURL          string        `long:"smtp-url" env:"INGOT_SMTP_URL" value-name:"URL" description:"smtp://USER:PASSWORD@HOST:PORT or smtps://… of the mail server; without it, mail is caught in a mailbox to look at"`
	MailFrom         string        `long:"mail-from" env:"INGOT_MAIL_FROM" value-name:"ADDRESS" description:"The sender of all mail; without it, notifications@DOMAIN"`
	NotificationsURL string        `long:"notifications-url" env:"INGOT_NOTIFICATIONS_URL" value-name:"URL" description:"Where recipients of mail reach the notification service, when that is not the address it listens on"`
	DKIMKey          string        `long:"dkim-key" env:"INGOT_DKIM_KEY" value-name:"FILE" description:"A private key (PEM) to sign mail with"`
	DKIMSelector     string        `long:"dkim-selector" env:"INGOT_DKIM_SELECTOR" value-name:"NAME" description:"The name of that key in the DNS"`
	BounceListen     string        `long:"bounce-listen" env:"INGOT_BOUNCE_LISTEN" value-name:"HOST:PORT" description:"Takes reports of undeliverable mail by SMTP; nothing listens without it"`
	AllowNetworks    string        `long:"allow-networks" env:"INGOT_ALLOW_NETWORKS" value-name:"LIST" description:"Private networks that webhooks, log drains, route services and service brokers of developers may be in, such as 10.0.0.0/8,fd00::/8, or all; by default the internet only"`
	MessagesKept     time.Duration `long:"messages-kept" env:"INGOT_MESSAGES_KEPT" value-name:"DURATION" description:"How long message statuses are kept"`
}

func (o mailOptions) mailing() system.MailConfig {
	return system.MailConfig{
		SMTPURL: o.SMTPURL, MailFrom: o.MailFrom, NotificationsURL: o.NotificationsURL, DKIMKeyFile: o.DKIMKey, DKIMSelector: o.DKIMSelector,
		BounceListen: o.BounceListen, MessagesKept: o.MessagesKept, AllowNetworks: o.AllowNetworks, QueueLimit: system.DefaultQueueLimit,
	}
}

// logOptions say what is written to the log.
type logOptions struct {
	LogLevel  string `long:"log-level" env:"INGOT_LOG_LEVEL" value-name:"debug|info|warn|error" description:"What is written to the log"`
	LogFormat string `long:"log-format" env:"INGOT_LOG_FORMAT" value-name:"auto|human|json" description:"How the log is written; auto is human on a terminal, json otherwise"`
}

// serverName is what the folder of the whole server is called.
const serverName = "ingot"

// defaultDataDir is where a server of this name keeps everything; empty when
// there is no good place.
func (p *process) defaultDataDir(name string) string {
	switch {
	case p.uid == 0:
		return "/var/lib/" + name
	case filepath.IsAbs(p.getenv("XDG_DATA_HOME")):
		return filepath.Join(p.getenv("XDG_DATA_HOME"), name)
	case filepath.IsAbs(p.getenv("HOME")):
		return filepath.Join(p.getenv("HOME"), ".local", "share", name)
	}
	return ""
}

// usageError is a call we do not understand.
type usageError struct {
	problem string
	command string // whose help to read
}

func (e *usageError) Error() string { return e.problem }

// errHelp asks for help, which is its text.
type errHelp struct{ text string }

func (e *errHelp) Error() string { return e.text }

// parse reads arguments and environment. It returns the command as its words.
func (p *process) parse() (*options, string, error) {
	o := &options{}
	parser := flags.NewNamedParser("ingot", flags.HelpFlag|flags.PassDoubleDash)
	parser.ShortDescription = "Cloud Foundry compatible application platform"
	if _, err := parser.AddGroup("Commands", "", o); err != nil {
		return nil, "", err
	}
	all := optionsOf(parser.Command)
	p.applyDefaults(all)
	parser.UnknownOptionHandler = func(name string, _ flags.SplitArgument, _ []string) ([]string, error) {
		return nil, errors.New(unknownFlag(name, all))
	}
	rest, err := parser.ParseArgs(p.args)
	command := active(parser.Command)
	if help := (*flags.Error)(nil); errors.As(err, &help) && help.Type == flags.ErrHelp {
		return nil, command, &errHelp{help.Message}
	}
	if err == nil && len(rest) > 0 {
		err = fmt.Errorf("unexpected argument %q", rest[0])
	}
	if err != nil {
		return nil, command, &usageError{oneLine(err.Error()), command}
	}
	return o, command, p.ignoreEmpty(o, all)
}

// ignoreEmpty gives back the default where a variable is set to nothing: that
// counts as not set, while a flag with an empty value is the caller's will.
func (p *process) ignoreEmpty(o *options, all []*flags.Option) error {
	for _, opt := range all {
		if !opt.IsSetDefault() || opt.EnvDefaultKey == "" || p.getenv(opt.EnvDefaultKey) != "" {
			continue
		}
		if len(opt.Default) > 0 {
			if err := opt.Set(&opt.Default[0]); err != nil {
				return err
			}
		} else if opt.Value() == true {
			o.Up.Demo = false
		}
	}
	return nil
}

// applyDefaults tells the parser the defaults, and the environment as we are
// given it.
func (p *process) applyDefaults(all []*flags.Option) {
	c := system.DefaultConfig()
	known := map[string]string{
		"listen": c.Listen, "notifications-listen": c.NotificationsListen,
		"ssh-listen": c.SSHListen, "admin-listen": c.AdminListen, "domain": c.Domain, "engine": c.Engine,
		"messages-kept": c.MessagesKept.String(), "password-grant": "on", "log-level": "info", "log-format": "auto",
	}
	for _, opt := range all {
		value := known[opt.LongName]
		if own, ok := opt.Field().Tag.Lookup("own-default"); ok { // a flag that other commands have, too
			value = own
		}
		if opt.LongName == "data-dir" {
			value = p.defaultDataDir(cmp.Or(value, serverName))
		}
		if value != "" {
			opt.Default, opt.DefaultMask = []string{value}, value
		}
		if value := p.getenv(opt.EnvDefaultKey); value != "" && opt.EnvDefaultKey != "" {
			opt.Default = []string{value}
		}
	}
}

func optionsOf(c *flags.Command) []*flags.Option {
	var all []*flags.Option
	for _, g := range c.Groups() {
		all = append(all, g.Options()...)
	}
	all = append(all, c.Options()...)
	for _, sub := range c.Commands() {
		all = append(all, optionsOf(sub)...)
	}
	return all
}

// active is the command that was given, as its words.
func active(c *flags.Command) string {
	var words []string
	for c = c.Active; c != nil; c = c.Active {
		words = append(words, c.Name)
	}
	return strings.Join(words, " ")
}

// config makes a configuration of the flags, and a logger.
func (p *process) config(o upOptions) (system.Config, error) {
	c := system.Config{
		DataDir: o.DataDir, Listen: o.Listen, NotificationsListen: o.NotificationsListen, SSHListen: o.SSHListen, AdminListen: o.AdminListen,
		Domain: o.Domain, Engine: o.Engine, MemoryOvercommit: o.MemoryOvercommit, Programs: programsDir(o.Programs), DatabaseURL: o.DatabaseURL, AuthURL: o.AuthURL, PublicURL: o.PublicURL, Demo: o.Demo, DrainNetworks: o.DrainNetworks, TrustedProxies: o.TrustedProxies, DiskReserve: o.DiskReserve << 20,
		PasswordGrant: o.PasswordGrant == "on", BrokerTimeout: o.BrokerTimeout, PostgresURL: o.PostgresURL, MySQLURL: o.MySQLURL,
		MailConfig:    o.mailing(),
		AdminPassword: p.getenv("INGOT_ADMIN_PASSWORD"), AdminEmail: p.getenv("INGOT_ADMIN_EMAIL"), AdminClientSecret: p.getenv("INGOT_ADMIN_CLIENT_SECRET"),
		EncryptionKey: p.getenv("INGOT_ENCRYPTION_KEY"),
	}
	switch {
	case c.DataDir == "":
		return c, errNoDataDir
	case o.PasswordGrant != "on" && o.PasswordGrant != "off":
		return c, fmt.Errorf("--password-grant: %q is not one of on, off", o.PasswordGrant)
	}
	var err error
	if c.Log, err = p.logger(o.logOptions); err != nil {
		return c, err
	}
	return c, c.Validate()
}

var errNoDataDir = errors.New("--data-dir: neither HOME nor XDG_DATA_HOME says where data goes; give a directory")

// logger makes the operator's log.
func (p *process) logger(o logOptions) (*slog.Logger, error) {
	var level slog.Level
	switch {
	case !slices.Contains([]string{"auto", "human", "json"}, o.LogFormat):
		return nil, fmt.Errorf("--log-format: %q is not one of auto, human, json", o.LogFormat)
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, o.LogLevel) || level.UnmarshalText([]byte(o.LogLevel)) != nil:
		return nil, fmt.Errorf("--log-level: %q is not one of debug, info, warn, error", o.LogLevel)
	}
	human := o.LogFormat == "human" || o.LogFormat == "auto" && p.terminal
	return logging.New(p.err, human, level), nil
}

func versionText() string {
	return fmt.Sprintf("ingot %s (data format %d, %s, %s/%s)\n", version.Version, version.DataFormat, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// oneLine is a message on one line, in the usual quotes.
func oneLine(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return strings.ReplaceAll(s, "`", "'")
}
