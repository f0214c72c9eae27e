package system

import (
	"io"
	"mime/quotedprintable"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify/mail/mailtest"
)

// TestTracking sends real mail to a recipient who allows counting and to one who does not, and requests
// the links and the image in it.
func TestTracking(t *testing.T) {
	t.Parallel()
	sink, config := mailtest.New(t, mailtest.Options{Keep: 2}), testConfig(t)
	config.SMTPURL, config.MailFrom = sink.URL("", ""), "mail@example.com"
	up := startSystem(t, config)
	const secret = "a long enough secret"
	a := call(t, http.MethodPost, up.Endpoints().API+"/oauth/clients", adminToken(t, up), map[string]any{
		"client_id": "shop", "client_secret": secret, "authorized_grant_types": "client_credentials",
		"authorities": []string{"notifications.write", "notifications.manage", "notification_preferences.admin"},
	})
	if a.status != http.StatusCreated {
		t.Fatalf("create the client: %d %s", a.status, a.body)
	}
	at, token := up.Endpoints().Notifications, clientToken(t, up, "shop", secret)
	do := func(method, path string, body any, want int) string {
		t.Helper()
		a := call(t, method, at+path, token, body)
		if a.status != want {
			t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
		}
		return a.body
	}
	type object = map[string]any
	do(http.MethodPut, "/notifications", object{"source_name": "Shop",
		"notifications": object{"news": object{"description": "News"}}}, http.StatusNoContent)
	do(http.MethodPut, "/kinds/news/tracking", object{"opens": true, "clicks": true}, http.StatusOK)
	do(http.MethodPatch, "/preferences/mailto:ann@example.com",
		object{"clients": object{"shop": object{"kinds": object{"news": object{"tracking": true}}}}}, http.StatusOK)
	do(http.MethodPost, "/sends", object{"kind_id": "news", "subject": "s",
		"html":       `<a href="https://shop.example/offer">Offer</a>`,
		"recipients": []any{object{"email": "ann@example.com"}, object{"email": "bob@example.com"}}}, http.StatusAccepted)
	if !sink.Wait(2, time.Minute) {
		t.Fatal("no mail came")
	}
	marks := regexp.MustCompile(`"(` + regexp.QuoteMeta(at) + `/(links|images)/[^"]+)"`)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, m := range sink.Messages() {
		text, _ := io.ReadAll(quotedprintable.NewReader(strings.NewReader(m.Data)))
		found := marks.FindAllStringSubmatch(string(text), -1)
		if m.To != "ann@example.com" {
			if len(found) > 0 || !strings.Contains(string(text), "https://shop.example/offer") {
				t.Errorf("mail to %s is marked: %s", m.To, text)
			}
			continue
		}
		if len(found) != 2 {
			t.Fatalf("mail to %s has %d marks: %s", m.To, len(found), text)
		}
		for _, mark := range found {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, mark[1], http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if to := answer.Header.Get("Location"); mark[2] == "links" && to != "https://shop.example/offer" {
				t.Errorf("the link answers %s to %q", answer.Status, to)
			}
		}
	}
	if got := do(http.MethodGet, "/figures?last=1&by=kind", nil, http.StatusOK); !strings.Contains(got,
		`"opened":[1],"clicked":[1],"opens":[1],"clicks":[1]`) {
		t.Errorf("figures are %s", got)
	}
}
