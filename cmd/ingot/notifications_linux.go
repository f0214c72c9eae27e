package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"ingot/internal/base/version"
	"ingot/internal/system"
)

// notificationsOptions are the flags of `ingot notifications`, which runs the
// service when no command follows.
type notificationsOptions struct {
	DataDir          string `long:"data-dir" env:"INGOT_DATA_DIR" own-default:"ingot-notifications" value-name:"DIR" description:"Directory for all data"`
	Listen           string `long:"listen" env:"INGOT_NOTIFICATIONS_LISTEN" own-default:"127.0.0.1:8081" value-name:"HOST:PORT" description:"Address of the notification service; port 0 selects a free port, here and below"`
	AdminListen      string `long:"admin-listen" env:"INGOT_ADMIN_LISTEN" value-name:"HOST:PORT" description:"Address for metrics, health and profiling; if it is not on loopback, a token is needed"`
	AdminTokenFile   string `long:"admin-token-file" env:"INGOT_ADMIN_TOKEN_FILE" value-name:"FILE" description:"File with the token of the admin address (default: the variable INGOT_ADMIN_TOKEN)"`
	AuthURL          string `long:"auth-url" env:"INGOT_AUTH_URL" value-name:"URL" description:"UAA-compatible authorization server (required)"`
	PlatformURL      string `long:"platform-url" env:"INGOT_PLATFORM_URL" value-name:"URL" description:"Platform with the v3 API; without it, notifications to spaces and organizations are not possible"`
	ClientID         string `long:"client-id" env:"INGOT_CLIENT_ID" own-default:"ingot-notifications" value-name:"NAME" description:"OAuth client of the service; it needs scim.read, and cloud_controller.admin_read_only for the platform"`
	ClientSecretFile string `long:"client-secret-file" env:"INGOT_CLIENT_SECRET_FILE" value-name:"FILE" description:"File with the client's secret (default: the variable INGOT_CLIENT_SECRET)"`
	DatabaseURL      string `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"Database: sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME (default: an SQLite file in the data directory)"`
	Domain           string `long:"domain" env:"INGOT_DOMAIN" value-name:"NAME" description:"Domain of the default sender address, and the platform's name in templates"`
	mailOptions
	traceOptions
	logOptions
}

// longestSecret is the maximum size of a secret file.
const longestSecret = 64 << 10

// standaloneConfig turns the flags into a configuration and a logger.
func (p *process) standaloneConfig(o notificationsOptions) (system.StandaloneConfig, error) {
	c := system.StandaloneConfig{
		DataDir: o.DataDir, Listen: o.Listen, AdminListen: o.AdminListen, Domain: o.Domain, DatabaseURL: o.DatabaseURL,
		MailConfig: o.mailing(), Traces: o.traces(),
		AuthURL: o.AuthURL, PlatformURL: o.PlatformURL, ClientID: o.ClientID, ClientSecret: p.getenv("INGOT_CLIENT_SECRET"),
		EncryptionKey: p.getenv("INGOT_ENCRYPTION_KEY"), AdminToken: p.getenv("INGOT_ADMIN_TOKEN"),
	}
	if c.DataDir == "" {
		return c, errNoDataDir
	}
	var err error
	if o.ClientSecretFile != "" {
		if c.ClientSecret, err = readSecret(o.ClientSecretFile); err != nil {
			return c, fmt.Errorf("--client-secret-file: %w", err)
		}
	}
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

func readSecret(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, longestSecret+1))
	if err != nil {
		return "", err
	}
	if len(text) > longestSecret {
		return "", fmt.Errorf("%s is longer than %d KiB", file, longestSecret>>10)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if secret == "" {
		return "", errors.New(file + " is empty")
	}
	return secret, nil
}

// notifications runs the notification service alone until it is asked to stop.
func (p *process) notifications(o notificationsOptions) error {
	c, err := p.standaloneConfig(o)
	if err != nil {
		return &usageError{err.Error(), "notifications"}
	}
	s, err := system.NewStandalone(c)
	if err != nil {
		return &usageError{err.Error(), "notifications"}
	}
	return p.serve(s, c.Log, func(context.Context) {
		e := s.Endpoints()
		fmt.Fprintf(p.out, "Ingot %s, the notification service, is ready.\n\n", version.Version)
		rows := [][2]string{
			{"Notifications", e.Notifications},
			{"Authorization server", e.Auth},
			{"Platform", cmp.Or(e.API, "none (--platform-url): nothing can be sent to spaces and organizations")},
			{"Admin", e.Admin + " (health, metrics, profiling)"},
			{"Data directory", e.DataDir},
			{"Database", s.Database()},
		}
		p.table(append(rows, mailRows(c.MailConfig, e)...))
	})
}

// mailRows describes where mail goes, when no mail server is set.
func mailRows(c system.MailConfig, e system.Endpoints) [][2]string {
	if c.SMTPURL != "" || c.MailPlan != "" {
		return nil
	}
	return [][2]string{{"Mail", "no mail server is set (--smtp-url), see the mailbox at " + e.Admin + "/mailbox"}}
}
