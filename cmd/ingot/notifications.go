package main

import (
	"cmp"
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
	DataDir          string `long:"data-dir" env:"INGOT_DATA_DIR" own-default:"ingot-notifications" value-name:"DIR" description:"Where everything is kept"`
	Listen           string `long:"listen" env:"INGOT_NOTIFICATIONS_LISTEN" own-default:"127.0.0.1:8081" value-name:"HOST:PORT" description:"The notification service; port 0 picks a free one, here and below"`
	AdminListen      string `long:"admin-listen" env:"INGOT_ADMIN_LISTEN" value-name:"HOST:PORT" description:"Metrics, health and profiling; open to whoever can connect"`
	AuthURL          string `long:"auth-url" env:"INGOT_AUTH_URL" value-name:"URL" description:"The UAA-compatible authorization server (required)"`
	PlatformURL      string `long:"platform-url" env:"INGOT_PLATFORM_URL" value-name:"URL" description:"The platform, which speaks the v3 API; without it, nothing can be sent to spaces and organizations"`
	ClientID         string `long:"client-id" env:"INGOT_CLIENT_ID" own-default:"ingot-notifications" value-name:"NAME" description:"The service's own client at the authorization server; it needs scim.read, and cloud_controller.admin_read_only for the platform"`
	ClientSecretFile string `long:"client-secret-file" env:"INGOT_CLIENT_SECRET_FILE" value-name:"FILE" description:"Its secret; without a file, the variable INGOT_CLIENT_SECRET"`
	DatabaseURL      string `long:"database-url" env:"INGOT_DATABASE_URL" value-name:"URL" description:"sqlite:PATH or postgres://USER:PASSWORD@HOST/NAME; without it, a file in the data directory"`
	Domain           string `long:"domain" env:"INGOT_DOMAIN" value-name:"NAME" description:"The domain that mail comes from when --mail-from is not given, and by which templates call the platform"`
	mailOptions
	logOptions
}

// longestSecret bounds what is read of a secret's file.
const longestSecret = 64 << 10

// standaloneConfig makes a configuration of the flags, and a logger.
func (p *process) standaloneConfig(o notificationsOptions) (system.StandaloneConfig, error) {
	c := system.StandaloneConfig{
		DataDir: o.DataDir, Listen: o.Listen, AdminListen: o.AdminListen, Domain: o.Domain, DatabaseURL: o.DatabaseURL, MailConfig: o.mailing(),
		AuthURL: o.AuthURL, PlatformURL: o.PlatformURL, ClientID: o.ClientID, ClientSecret: p.getenv("INGOT_CLIENT_SECRET"),
		EncryptionKey: p.getenv("INGOT_ENCRYPTION_KEY"),
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
	if c.Log, err = p.logger(o.logOptions); err != nil {
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
	text, err := io.ReadAll(io.LimitReader(f, longestSecret))
	if err != nil {
		return "", err
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
	return p.serve(s, c.Log, func() {
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

// mailRows say where mail goes, when that is not where people expect it.
func mailRows(c system.MailConfig, e system.Endpoints) [][2]string {
	if c.SMTPURL != "" {
		return nil
	}
	return [][2]string{{"Mail", "no server is set (--smtp-url): look at it on " + e.Admin + "/mailbox"}}
}
