package libraries

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/wneessen/go-mail"

	"ingot/internal/notify"
	"ingot/internal/notify/mail/compose"
)

// BenchmarkMessage makes the message of one recipient of many: the body is the
// same for all of them.
func BenchmarkMessage(b *testing.B) {
	body := &notify.Body{
		Subject: "Your app crashed",
		Text:    strings.Repeat("a line of text\n", 60),
		HTML:    strings.Repeat("<p>a line of text</p>\n", 50),
	}
	const unsubscribe = "https://notify.example/unsubscribe/abcdefghijklmnopqrstuvwxyz"
	b.Run("ours", func(b *testing.B) {
		c, err := compose.New(compose.Identity{From: "Ingot <no-reply@ingot.example>"})
		if err != nil {
			b.Fatal(err)
		}
		o := &notify.Outgoing{ID: "4f5b4d0c-0a44-4a3c-9d4b-1d5b6b3f2a10", To: "someone@example.org", Body: body,
			Received: time.Now(), Unsubscribe: unsubscribe}
		b.ReportAllocs()
		for b.Loop() {
			m, err := c.Message(o, time.Now())
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Discard.Write(m.Header)
			_, _ = io.Discard.Write(m.Body)
		}
	})
	b.Run("go-mail", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			m := mail.NewMsg()
			if m.FromFormat("Ingot", "no-reply@ingot.example") != nil || m.To("someone@example.org") != nil {
				b.Fatal("an address was refused")
			}
			m.Subject(body.Subject)
			m.SetDate()
			m.SetMessageIDWithValue("4f5b4d0c-0a44-4a3c-9d4b-1d5b6b3f2a10@ingot.example")
			m.SetGenHeader(mail.HeaderListUnsubscribe, "<"+unsubscribe+">")
			m.SetGenHeader(mail.HeaderListUnsubscribePost, "List-Unsubscribe=One-Click")
			m.SetBodyString(mail.TypeTextPlain, body.Text)
			m.AddAlternativeString(mail.TypeTextHTML, body.HTML)
			if _, err := m.WriteTo(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
}
