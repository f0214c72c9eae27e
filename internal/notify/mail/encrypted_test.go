package mail_test

import (
	"log/slog"
	"testing"

	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/smtp"
)

// The check of a domain connects to the mail server as deliveries do.
func TestEncryption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tls, query          string
		stranger            bool // its certificate is not trusted
		encrypted, required bool
		invalid, fails      bool
	}{
		{tls: ""}, {tls: "starttls", encrypted: true}, {tls: "implicit", encrypted: true, required: true},
		{tls: "starttls", query: "starttls=never"},
		{tls: "", query: "starttls=required", required: true, fails: true},
		{tls: "starttls", query: "starttls=required", encrypted: true, required: true},
		{tls: "starttls", query: "starttls=required", stranger: true, required: true, fails: true},
		{tls: "starttls", query: "starttls=required&insecure=true", stranger: true, encrypted: true, invalid: true},
		{tls: "starttls", stranger: true, encrypted: true, invalid: true},
	} {
		sink := mailtest.New(t, mailtest.Options{TLS: c.tls})
		config, err := smtp.ParseURL(sink.URL("", c.query))
		if err != nil {
			t.Fatal(err)
		}
		if c.tls != "" && !c.stranger {
			config.TLS = sink.ClientTLS()
		}
		got, err := smtp.New(config, slog.New(slog.DiscardHandler)).Encryption(t.Context())
		if got.Encrypted != c.encrypted || got.Required != c.required || (got.Invalid != nil) != c.invalid ||
			(err != nil) != c.fails {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
	}
}
