package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"time"

	"ingot/internal/auth"
	"ingot/internal/base/logging"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/system"
)

// serverOptions are the commands of the server with their flags.
type serverOptions struct {
	Up     upOptions     `command:"up" description:"Run the server" long-description:"Runs the server until it is interrupted. Every flag can also be set with the environment variable shown beside it."`
	Down   downOptions   `command:"down" description:"Stop the server and its apps" long-description:"Stops the server of a data directory and everything that keeps running without it: app instances with their networks and mounts, and the databases of services. The data is kept: the next 'ingot up' starts the apps."`
	Reload reloadOptions `command:"reload" description:"Restart the server without interrupting requests" long-description:"Replaces the server of a data directory by a new process of the installed program, with the same flags and environment. Apps continue, requests and connections too: the new process takes over the listening sockets, and the old one finishes its requests. If the new process does not start, the old one continues. This is how to upgrade, see docs/upgrading.md."`
	Keys   struct {
		Rotate struct {
			DataDir string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of the server"`
		} `command:"rotate-encryption" description:"Add a new encryption key" long-description:"Adds a new key for encrypting the secrets in the database. It takes effect after a restart of the server."`
		RotateAgents struct {
			DataDir     string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Data directory of a server"`
			DatabaseURL string `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"Database of the servers (default: the SQLite file of the data directory)"`
			logOptions
		} `command:"rotate-agents" description:"Add new keys for instances on Kubernetes" long-description:"Adds a new certificate authority and a new seed key, by which servers and the agents in Pods recognize each other. Running servers use them for new instances within a minute. Instances that run keep the old ones; these are deleted an hour later at the earliest, when no instance has them any more."`
	} `command:"keys" description:"Manage encryption keys"`
	Notifications notificationsOptions `command:"notifications" subcommands-optional:"true" description:"Run the notification service alone" long-description:"Runs the notification service until it is interrupted, with an external authorization server and platform. Every flag can also be set with the environment variable shown beside it."`
	Demo          demoOptions          `command:"demo" description:"Run a guided tour on a running server" long-description:"Runs the steps of docs/tour.md on the server of this machine in an org of its own, shows each command with its output, and cleans up."`
	Blob          blobOptions          `command:"blob" description:"Move packages, droplets and buildpacks"`
	DB            dbOptions            `command:"db" description:"Copy or migrate the database"`
	Backup        backupOptions        `command:"backup" subcommands-optional:"true" description:"Back up a running server" long-description:"Writes a backup of a server, which may be running, to TARGET: a directory, which is created, a file (its name ends in .age) or s3://BUCKET/PREFIX?PARAMETERS as for --blob-url. A file is complete by itself. A directory or bucket keeps many backups, each of which adds only what is new. A backup is encrypted, signed (INGOT_BACKUP_SIGNING_KEY), and contains the databases, keys, packages, droplets, buildpacks and the data of service instances; see docs/backup.md."`
	Restore       restoreOptions       `command:"restore" description:"Restore a server from a backup" long-description:"Restores a backup into an empty data directory, on this or another machine. Everything is checked before the directory becomes usable; if it fails, the directory stays empty. See docs/backup.md."`
	SupportBundle supportOptions       `command:"support-bundle" description:"Collect what a bug report needs, without secrets" long-description:"Writes logs, metrics, profiles, the configuration without secrets and facts about the machine into one archive, which can be attached to a bug report. It also works if the server is down or hangs. What could not be collected is named in its file index.txt, with the reason. Run it as root or as the owner of the data directory."`
}

// arguments takes the arguments of a command that the parser does not know as such, and
// returns the others.
func (o *serverOptions) arguments(command string, rest []string) []string {
	if command == "backup" {
		o.Backup.target = rest
		return nil
	}
	return rest
}

// serverDefaults returns the default values of flags.
func serverDefaults() map[string]string {
	c := system.DefaultConfig()
	login := c.LoginLimits
	return map[string]string{
		"login-limit-address": login.Address, "login-limit-account": login.Account, "login-limit-pair": login.Pair,
		"login-limit-client": login.Client, "login-lockout": login.Lockout,
		"listen": c.Listen, "notifications-listen": c.NotificationsListen,
		"ssh-listen": c.SSHListen, "admin-listen": c.AdminListen, "domain": c.Domain, "tcp-ports": c.TCPPorts,
		"engine": c.Engine, "log-store": c.LogStore,
		"kubernetes-namespace": c.Kubernetes.Namespace, "kubernetes-user-namespaces": c.Kubernetes.UserNamespaces,
		"kubernetes-rate": strconv.Itoa(c.Kubernetes.Rate), "kubernetes-place-timeout": c.Kubernetes.PlaceTimeout.String(),
		"messages-kept": c.MessagesKept.String(), "messages-kept-max": c.MessagesKeptMax.String(),
		"drain-timeout": c.DrainTimeout.String(), "password-grant": "on",
		"forward-client-cert": c.ForwardClientCert,
		"trace-sampling":      strconv.FormatFloat(c.Traces.Sampling, 'g', -1, 64), "log-level": "info", "log-format": "auto",
	}
}

// upOptions are the flags of `ingot up`.
type upOptions struct {
	Replace             bool   `long:"replace" env:"INGOT_REPLACE" description:"Take over from the server that uses the data directory, without failing a request; without such a server, start as usual"`
	DataDir             string `long:"data-dir" env:"INGOT_DATA_DIR" value-name:"DIR" description:"Directory for all data"`
	Listen              string `long:"listen" env:"INGOT_LISTEN" value-name:"HOST:PORT" description:"Address of the platform API and authorization server; port 0 selects a free port, here and below"`
	NotificationsListen string `long:"notifications-listen" env:"INGOT_NOTIFICATIONS_LISTEN" value-name:"HOST:PORT" description:"Address of the notification service"`
	SSHListen           string `long:"ssh-listen" env:"INGOT_SSH_LISTEN" value-name:"HOST:PORT" description:"Address of the ssh gateway to app instances"`
	AdminListen         string `long:"admin-listen" env:"INGOT_ADMIN_LISTEN" value-name:"HOST:PORT" description:"Address for metrics, health and profiling; if it is not on loopback, a token is needed"`
	AdminTokenFile      string `long:"admin-token-file" env:"INGOT_ADMIN_TOKEN_FILE" value-name:"FILE" description:"File with the token of the admin address (default: the variable INGOT_ADMIN_TOKEN)"`
	Domain              string `long:"domain" env:"INGOT_DOMAIN" value-name:"NAME" description:"Domain of the server's host names"`
	TCPPorts            string `long:"tcp-ports" env:"INGOT_TCP_PORTS" value-name:"LIST" description:"Ports of TCP routes, on the address of --listen, such as 1024-1123,2000; none disables TCP routes"`
	Engine              string `long:"engine" env:"INGOT_ENGINE" value-name:"auto|container|process|kubernetes" description:"How apps run: in containers (requires runc, and root or a user namespace), as plain processes (no isolation) or as Pods of a Kubernetes cluster; auto keeps the engine of the data directory and, on the first start, selects containers if a test container works"`
	MemoryOvercommit    int    `long:"memory-overcommit" env:"INGOT_MEMORY_OVERCOMMIT" value-name:"N" description:"Maximum sum of all instances' memory limits, as a multiple of the machine's memory (default: 10; Diego uses 1)"`
	IsolationSegments   string `long:"isolation-segments" env:"INGOT_ISOLATION_SEGMENTS" value-name:"LIST" description:"Isolation segments whose apps this machine runs, in addition to the shared one, such as gpu,batch; on Kubernetes, label nodes instead"`
	Programs            string `long:"programs" env:"INGOT_PROGRAMS" value-name:"DIR" description:"Directory of ingot-init, ingot-builder, ingot-static and ingot-sftp (default: beside ingot, or lib/ingot of the package)"`
	DatabaseURL         string `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"Database: sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME (default: an SQLite file in the data directory)"`
	DatabaseListenURL   string `long:"database-listen-url" env:"INGOT_DATABASE_LISTEN_URL" value-name:"URL" description:"The same PostgreSQL without a connection pooler, for the messages between several servers (default: --database-url)"`
	BlobURL             string `long:"blob-url" env:"INGOT_BLOB_URL" value-name:"URL" description:"Bucket for packages, droplets and buildpacks, s3://BUCKET/PREFIX?endpoint=https://HOST (default: the data directory); keys come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, see blobs.md"`
	BlobRedirect        bool   `long:"blob-redirect" env:"INGOT_BLOB_REDIRECT" description:"Redirect downloads of packages and droplets to the bucket of --blob-url, with URLs that are valid for 5 minutes"`
	LogStore            string `long:"log-store" env:"INGOT_LOG_STORE" value-name:"auto|files|postgres" description:"Where log lines of apps are kept: in files of the data directory, or in the PostgreSQL of --database-url, where several servers share them; auto selects files, and PostgreSQL with the engine kubernetes"`
	tlsOptions
	kubernetesOptions
	mailOptions
	AuthURL       string        `long:"auth-url" env:"INGOT_AUTH_URL" value-name:"URL" description:"External UAA-compatible authorization server (default: the built-in one)"`
	PublicURL     string        `long:"public-url" env:"INGOT_PUBLIC_URL" value-name:"URL" description:"URL at which clients reach this server, if different from --listen; it is the issuer of tokens and must be the same for all servers on one database"`
	Demo          bool          `long:"demo" env:"INGOT_DEMO" description:"Create the org demo with the space dev for trying things out"`
	PasswordGrant string        `long:"password-grant" env:"INGOT_PASSWORD_GRANT" value-name:"on|off" description:"Allow users to log in with a password at the token endpoint, as 'cf login' does"`
	PostgresURL   string        `long:"postgres-url" env:"INGOT_POSTGRES_URL" value-name:"URL" description:"External PostgreSQL server for the service postgres, postgres://USER:PASSWORD@HOST:PORT (default: a local server, if installed)"`
	MySQLURL      string        `long:"mysql-url" env:"INGOT_MYSQL_URL" value-name:"URL" description:"External MariaDB server for the service mysql, mysql://USER:PASSWORD@HOST:PORT (default: a local server, if installed)"`
	BrokerTimeout time.Duration `long:"broker-timeout" env:"INGOT_BROKER_TIMEOUT" value-name:"DURATION" description:"Timeout of requests to service brokers (default: 60s)"`
	InsecureRegs  string        `long:"insecure-registries" env:"INGOT_INSECURE_REGISTRIES" value-name:"LIST" description:"Registries of container images that do not use TLS, such as registry.example.com:5000; those on loopback addresses need not be listed"`
	DrainNetworks string        `long:"drain-networks" env:"INGOT_DRAIN_NETWORKS" value-name:"LIST" description:"Private networks that log drains may send to, in addition to --allow-networks"`
	DiskReserve   int64         `long:"disk-reserve" env:"INGOT_DISK_RESERVE" value-name:"MIB" description:"Minimum free space on the data directory's disk: below it, uploads, builds and starts are refused (default: a twentieth of the disk, at most 256)"`
	DrainTimeout  time.Duration `long:"drain-timeout" env:"INGOT_DRAIN_TIMEOUT" value-name:"DURATION" description:"How long a replaced server keeps connections that are in use, such as WebSockets and TCP routes"`
	edgeOptions
	traceOptions
	logOptions
}

// edgeOptions are the flags for proxies in front and for limits.
type edgeOptions struct {
	TrustedProxies    string        `long:"trusted-proxies" env:"INGOT_TRUSTED_PROXIES" value-name:"LIST" description:"Addresses or networks of proxies whose X-Forwarded-* headers and request ids are believed, such as 127.0.0.1,10.0.0.0/8; those of others are replaced"`
	ProxyProtocolFrom string        `long:"proxy-protocol-from" env:"INGOT_PROXY_PROTOCOL_FROM" value-name:"LIST" description:"Addresses or networks of load balancers whose connections begin with a PROXY header, version 1 or 2"`
	LoginAddress      string        `long:"login-limit-address" env:"INGOT_LOGIN_LIMIT_ADDRESS" value-name:"N/DURATION" description:"Wrong passwords, secrets and passcodes from one address for accounts that have not logged in from there: N at once, and N more per duration"`
	LoginAccount      string        `long:"login-limit-account" env:"INGOT_LOGIN_LIMIT_ACCOUNT" value-name:"N/DURATION" description:"Wrong passwords of one account from all addresses it has not logged in from"`
	LoginPair         string        `long:"login-limit-pair" env:"INGOT_LOGIN_LIMIT_PAIR" value-name:"N/DURATION" description:"Wrong passwords of one account from one address"`
	LoginClient       string        `long:"login-limit-client" env:"INGOT_LOGIN_LIMIT_CLIENT" value-name:"N/DURATION" description:"Requests of one OAuth client from one address at the token endpoint, right or wrong"`
	LoginLockout      string        `long:"login-lockout" env:"INGOT_LOGIN_LOCKOUT" value-name:"N/DURATION" description:"N wrong passwords in a row lock an account for an address for this long, doubled with each further one up to an hour"`
	APIRate           int           `long:"api-rate-limit" env:"INGOT_API_RATE_LIMIT" value-name:"N" description:"Requests of a user or client to the API in an interval; administrators have no limit (default: no limit; Cloud Foundry suggests 2000)"`
	APIRateOpen       int           `long:"api-rate-limit-unauthenticated" env:"INGOT_API_RATE_LIMIT_UNAUTHENTICATED" value-name:"N" description:"Requests without a valid token from an address to the API in an interval (default: no limit; Cloud Foundry suggests 100)"`
	APIRateInterval   time.Duration `long:"api-rate-limit-interval" env:"INGOT_API_RATE_LIMIT_INTERVAL" value-name:"DURATION" description:"Interval of the API's rate limits (default: 1h)"`
	BrokerRequests    int           `long:"broker-requests" env:"INGOT_BROKER_REQUESTS" value-name:"N" description:"Requests of a user that change service instances and bindings at the same time (default: no limit)"`
}

func (o edgeOptions) edge() system.EdgeConfig {
	return system.EdgeConfig{
		TrustedProxies: o.TrustedProxies, ProxyProtocolFrom: o.ProxyProtocolFrom,
		LoginLimits: auth.LimitTexts{Address: o.LoginAddress, Account: o.LoginAccount, Pair: o.LoginPair,
			Client: o.LoginClient, Lockout: o.LoginLockout},
		APILimits: system.APILimits{General: o.APIRate, Unauthenticated: o.APIRateOpen, Interval: o.APIRateInterval,
			BrokerRequests: o.BrokerRequests},
	}
}

// kubernetesOptions are the flags of --engine kubernetes.
type kubernetesOptions struct {
	KubernetesNamespace      string        `long:"kubernetes-namespace" env:"INGOT_KUBERNETES_NAMESPACE" value-name:"NAME" description:"Namespace of the Pods of apps, with --engine kubernetes"`
	KubernetesImage          string        `long:"kubernetes-image" env:"INGOT_KUBERNETES_IMAGE" value-name:"IMAGE" description:"Stack image of Pods, preferably by digest; required with --engine kubernetes"`
	KubernetesKubeconfig     string        `long:"kubernetes-kubeconfig" env:"INGOT_KUBERNETES_KUBECONFIG" value-name:"FILE" description:"Kubeconfig of the cluster (default: the service account of the server's Pod)"`
	KubernetesUserNamespaces string        `long:"kubernetes-user-namespaces" env:"INGOT_KUBERNETES_USER_NAMESPACES" value-name:"auto|on|off" description:"User namespaces of Pods: auto uses them where the cluster can, on refuses to start instances without"`
	KubernetesCPULimit       bool          `long:"kubernetes-cpu-limit" env:"INGOT_KUBERNETES_CPU_LIMIT" description:"Limit the processor time of instances instead of only sharing it"`
	KubernetesRate           int           `long:"kubernetes-rate" env:"INGOT_KUBERNETES_RATE" value-name:"N" description:"Maximum number of Pods created per second"`
	KubernetesPlaceTimeout   time.Duration `long:"kubernetes-place-timeout" env:"INGOT_KUBERNETES_PLACE_TIMEOUT" value-name:"DURATION" description:"How long the cluster may take to find a node for an instance before it is shown as down"`
	KubernetesDiskClass      string        `long:"kubernetes-disk-class" env:"INGOT_KUBERNETES_DISK_CLASS" value-name:"NAME" description:"Storage class of instance disks, which makes their limits hard (default: the node's disk)"`
	KubernetesPriorityClass  string        `long:"kubernetes-priority-class" env:"INGOT_KUBERNETES_PRIORITY_CLASS" value-name:"NAME" description:"Priority class of Pods (default: the cluster's)"`
}

func (o kubernetesOptions) config() kubernetes.Config {
	return kubernetes.Config{
		Namespace: o.KubernetesNamespace, Image: o.KubernetesImage, Kubeconfig: o.KubernetesKubeconfig,
		UserNamespaces: o.KubernetesUserNamespaces,
		CPULimit:       o.KubernetesCPULimit, Rate: o.KubernetesRate, PlaceTimeout: o.KubernetesPlaceTimeout,
		DiskClass: o.KubernetesDiskClass, PriorityClass: o.KubernetesPriorityClass,
	}
}

type mailOptions struct {
	SMTPURL          string        `long:"smtp-url" env:"INGOT_SMTP_URL" value-name:"URL" description:"Mail server, smtp://USER:PASSWORD@HOST:PORT or smtps://…; without it, mail is kept in a local mailbox"`
	MailPlan         string        `long:"mail-plan" env:"INGOT_MAIL_PLAN" value-name:"FILE" description:"JSON file with several mail servers, limits for receiving domains and a warm-up plan; it is read at the start"`
	MailFrom         string        `long:"mail-from" env:"INGOT_MAIL_FROM" value-name:"ADDRESS" description:"Sender address of all mail (default: notifications@DOMAIN)"`
	NotificationsURL string        `long:"notifications-url" env:"INGOT_NOTIFICATIONS_URL" value-name:"URL" description:"URL at which recipients reach the notification service, if different from its listen address"`
	DKIMKey          string        `long:"dkim-key" env:"INGOT_DKIM_KEY" value-name:"FILE" description:"Private key (PEM) for signing mail"`
	DKIMSelector     string        `long:"dkim-selector" env:"INGOT_DKIM_SELECTOR" value-name:"NAME" description:"DNS selector of the DKIM key"`
	BounceListen     string        `long:"bounce-listen" env:"INGOT_BOUNCE_LISTEN" value-name:"HOST:PORT" description:"Address that accepts bounces and complaints by SMTP (default: none)"`
	BounceAddress    string        `long:"bounce-address" env:"INGOT_BOUNCE_ADDRESS" value-name:"ADDRESS" description:"Address to which bounces are sent, with a tag of the message before the @ (default: that of --mail-from)"`
	AllowNetworks    string        `long:"allow-networks" env:"INGOT_ALLOW_NETWORKS" value-name:"LIST" description:"Private networks in which webhooks, log drains, route services, space-scoped service brokers, git repositories and registries of images are allowed, such as 10.0.0.0/8,fd00::/8, or all (default: public addresses only)"`
	TrustedCA        string        `long:"trusted-ca" env:"INGOT_TRUSTED_CA" value-name:"FILE" description:"PEM file of certificate authorities that outgoing TLS connections trust in addition to the system's; it is read at the start"`
	MessagesKept     time.Duration `long:"messages-kept" env:"INGOT_MESSAGES_KEPT" value-name:"DURATION" description:"How long message statuses are kept"`
	MessagesKeptMax  time.Duration `long:"messages-kept-max" env:"INGOT_MESSAGES_KEPT_MAX" value-name:"DURATION" description:"How long clients may have the message statuses of a kind kept at most"`
}

func (o mailOptions) mailing() system.MailConfig {
	return system.MailConfig{
		SMTPURL: o.SMTPURL, MailPlan: o.MailPlan, MailFrom: o.MailFrom, NotificationsURL: o.NotificationsURL,
		DKIMKeyFile: o.DKIMKey, DKIMSelector: o.DKIMSelector,
		BounceListen: o.BounceListen, BounceAddress: o.BounceAddress, MessagesKept: o.MessagesKept,
		MessagesKeptMax: o.MessagesKeptMax,
		AllowNetworks:   o.AllowNetworks, TrustedCA: o.TrustedCA, QueueLimit: system.DefaultQueueLimit,
	}
}

// logOptions are the flags for the log.
type logOptions struct {
	LogLevel  string `long:"log-level" env:"INGOT_LOG_LEVEL" value-name:"debug|info|warn|error" description:"Minimum level of log messages"`
	LogFormat string `long:"log-format" env:"INGOT_LOG_FORMAT" value-name:"auto|human|json" description:"Log format; auto is human on a terminal and json otherwise"`
}

// config turns the flags into a configuration and a logger.
func (p *process) config(o upOptions) (system.Config, error) {
	c := system.Config{
		DataDir: o.DataDir, Listen: o.Listen, NotificationsListen: o.NotificationsListen, SSHListen: o.SSHListen,
		AdminListen: o.AdminListen,
		Domain:      o.Domain, TCPPorts: o.TCPPorts, Engine: o.Engine, MemoryOvercommit: o.MemoryOvercommit,
		IsolationSegments: o.IsolationSegments, Programs: programsDir(o.Programs), DatabaseURL: o.DatabaseURL,
		DatabaseListenURL: o.DatabaseListenURL, BlobURL: o.BlobURL, BlobRedirect: o.BlobRedirect, LogStore: o.LogStore,
		AuthURL: o.AuthURL, PublicURL: o.PublicURL, Demo: o.Demo, DrainNetworks: o.DrainNetworks,
		InsecureRegistries: o.InsecureRegs, DiskReserve: o.DiskReserve << 20, DrainTimeout: o.DrainTimeout,
		PasswordGrant: o.PasswordGrant == "on", BrokerTimeout: o.BrokerTimeout, PostgresURL: o.PostgresURL,
		MySQLURL:   o.MySQLURL,
		MailConfig: o.mailing(), EdgeConfig: o.edge(), AdminToken: p.getenv("INGOT_ADMIN_TOKEN"), Traces: o.traces(),
		Kubernetes: o.kubernetesOptions.config(), TLSConfig: o.tlsOptions.config(),
		AdminPassword: p.getenv("INGOT_ADMIN_PASSWORD"), AdminEmail: p.getenv("INGOT_ADMIN_EMAIL"),
		AdminClientSecret: p.getenv("INGOT_ADMIN_CLIENT_SECRET"),
		EncryptionKey:     p.getenv("INGOT_ENCRYPTION_KEY"),
	}
	switch {
	case c.DataDir == "":
		return c, errNoDataDir
	case o.PasswordGrant != "on" && o.PasswordGrant != "off":
		return c, fmt.Errorf("--password-grant: %q is not one of on, off", o.PasswordGrant)
	}
	var err error
	if o.AdminTokenFile != "" {
		if c.AdminToken, err = readSecret(o.AdminTokenFile); err != nil {
			return c, fmt.Errorf("--admin-token-file: %w", err)
		}
	}
	if c.Log, err = p.serverLog(o.logOptions, c.DataDir); err != nil {
		return c, err
	}
	return c, c.Validate()
}

var errNoDataDir = errors.New("--data-dir is required, because neither HOME nor XDG_DATA_HOME is set")

// logger returns the operator's log.
func (p *process) logger(o logOptions) (*slog.Logger, error) {
	var level slog.Level
	switch {
	case !slices.Contains([]string{"auto", "human", "json"}, o.LogFormat):
		return nil, fmt.Errorf("--log-format: %q is not one of auto, human, json", o.LogFormat)
	case !slices.Contains([]string{"debug", "info", "warn", "error"}, o.LogLevel) ||
		level.UnmarshalText([]byte(o.LogLevel)) != nil:
		return nil, fmt.Errorf("--log-level: %q is not one of debug, info, warn, error", o.LogLevel)
	}
	human := o.LogFormat == "human" || o.LogFormat == "auto" && p.terminal
	return logging.New(p.err, human, level), nil
}

// serverLog returns the log of a server, which is also kept in its data directory unless the
// journal has it.
func (p *process) serverLog(o logOptions, dataDir string) (*slog.Logger, error) {
	log, err := p.logger(o)
	if f, ok := p.err.(*os.File); err != nil || ok && logging.ToJournal(f, p.getenv) {
		return log, err
	}
	return logging.Both(log, logging.NewFile(dataDir)), nil
}
