package mail_test

import (
	"log/slog"
	"testing"

	"ingot/internal/notify/mail/mailtest"
	"ingot/internal/notify/mail/smtp"
)

// The check of a domain connects to the mail server as deliveries do.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tls, query string
		encrypted  bool
		fails      bool
	}{
		{tls: ""}, {tls: "starttls", encrypted: true}, {tls: "implicit", encrypted: true},
		{tls: "starttls", query: "starttls=never"}, {tls: "", query: "starttls=required", fails: true},
	} {
		sink := mailtest.New(t, mailtest.Options{TLS: c.tls})
		config, err := smtp.ParseURL(sink.URL("", c.query))
		if err != nil {
			t.Fatal(err)
		}
		if c.tls != "" {
			config.TLS = sink.ClientTLS()
		}
		got, err := smtp.New(config, slog.New(slog.DiscardHandler)).Encrypted(t.Context())
		if got != c.encrypted || (err != nil) != c.fails {
			t.Errorf("%+v: encrypted is %t, %v", c, got, err)
		}
	}
}
