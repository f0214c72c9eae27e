package db

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

const (
	defaultPostgresConns = 16
	connectTimeout       = 5 * time.Second
)

// postgresConfig returns how connections to a URL are made. Its errors do not
// contain the secrets, which it returns for other errors.
func postgresConfig(rawURL string) (config *pgx.ConnConfig, secrets []string, err error) {
	secrets, err = secretsOf(rawURL)
	if err != nil {
		return nil, nil, err
	}
	config, err = pgx.ParseConfig(rawURL)
	if err != nil {
		return nil, nil, fmt.Errorf("database URL: %w", hide(errors.Unwrap(err), secrets))
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "ingot"
	}
	// Give up on a server whose machine does not respond at all, for new
	// connections and for open ones.
	config.ConnectTimeout = cmp.Or(config.ConnectTimeout, connectTimeout)
	config.DialFunc = (&net.Dialer{
		Timeout: config.ConnectTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second,
			Interval: 5 * time.Second, Count: 3},
	}).DialContext
	return config, secrets, nil
}

func (d *DB) openPostgres(ctx context.Context, rawURL string, maxConns int) error {
	config, secrets, err := postgresConfig(rawURL)
	if err != nil {
		return err
	}
	d.url = rawURL
	if maxConns <= 0 {
		maxConns = defaultPostgresConns
	}
	maxConns = max(maxConns, 2) // Migrate needs two: one holds the lock
	pool := stdlib.OpenDB(*config)
	pool.SetMaxOpenConns(maxConns)
	pool.SetMaxIdleConns(maxConns)
	// Idle connections cost the server memory; an idle process keeps none.
	pool.SetConnMaxIdleTime(5 * time.Minute)
	d.writer, d.reader = pool, pool

	var encoding string
	err = pool.QueryRowContext(ctx, "SHOW server_encoding").Scan(&encoding)
	if err == nil && encoding != "UTF8" {
		err = fmt.Errorf("encoding is %s; create the database with ENCODING 'UTF8'", encoding)
	}
	if err != nil {
		pool.Close()
		return fmt.Errorf("database %s at %s: %w", config.Database, config.Host, hide(orContext(ctx, err), secrets))
	}
	return nil
}

// secretsOf returns the passwords in a URL, in every encoding in which an error
// message could contain them.
func secretsOf(rawURL string) ([]string, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		// The parser's error message quotes the URL.
		return nil, errors.New("database URL cannot be read: special characters in the password must be percent-encoded")
	}
	var secrets []string
	add := func(s string) {
		if s != "" {
			secrets = append(secrets, s, url.QueryEscape(s), url.PathEscape(s))
		}
	}
	if password, ok := u.User.Password(); ok {
		add(password)
		_, raw, _ := strings.Cut(u.User.String(), ":")
		add(raw)
	}
	for _, name := range []string{"password", "sslpassword"} {
		for _, v := range u.Query()[name] {
			add(v)
		}
	}
	return secrets, nil
}

// hidden wraps an error and removes the secrets from its text.
type hidden struct {
	text string
	err  error
}

func (h *hidden) Error() string { return h.text }
func (h *hidden) Unwrap() error { return h.err }

func hide(err error, secrets []string) error {
	if err == nil {
		return errors.New("invalid URL")
	}
	text := err.Error()
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	if text == err.Error() {
		return err
	}
	return &hidden{text, err}
}
