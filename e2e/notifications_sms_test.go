package e2e

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"ingot/internal/base/testkit"
)

// TestTextMessages sends text messages by declared providers, as the documentation does.
func TestTextMessages(t *testing.T) {
	t.Parallel()
	type text struct{ path, authorization, To, Text, Reference string }
	texts := make(chan text, 100)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got := text{path: r.URL.Path, authorization: r.Header.Get("Authorization")}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Errorf("the body cannot be read: %v", err)
		}
		texts <- got
		if r.URL.Path == "/down" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(gateway.Close)
	p := newMailFixture(t, options{Args: []string{"--allow-networks", "127.0.0.0/8"}})
	p.register(t, "alarm")
	c := ingotIn(t, t.TempDir(), "INGOT_NOTIFICATIONS_CLIENT=my-sender", "INGOT_NOTIFICATIONS_SECRET=my-secret",
		"INGOT_NOTIFICATIONS_URL="+p.base)
	c.ok(t, "login", "-a", p.API, "-u", "admin", "-p", p.secret(t, "admin-password"))

	declare := func(name, path string, weight int) {
		t.Helper()
		definition, err := json.Marshal(object{"url": gateway.URL + path, "weight": weight,
			"headers": object{"Authorization": `Bearer {{secret "token"}}`},
			"json":    object{"To": "{{phone}}", "Text": "{{text}}", "Reference": "{{id}}"}})
		if err != nil {
			t.Fatal(err)
		}
		contains(t, columns(c.ok(t, "notifications", "providers", "--set", name, "--definition", string(definition),
			"--secret", "token=of-"+name)), name+" sms "+gateway.URL+path)
	}
	declare("gateway", "/good", 1)
	c.ok(t, "notifications", "channels", "alarm", "--set", "sms")

	// send returns the timeline of the message, when it is delivered.
	send := func(words string) string {
		t.Helper()
		var made struct{ ID string }
		p.ask(t, http.MethodPost, "/sends", object{"kind_id": "alarm", "subject": "Alarm", "text": words,
			"recipients": []object{{"email": "ops@example.org", "phone": "+4915112345678"}}}).
			want(t, http.StatusAccepted).into(t, &made)
		var found struct {
			Messages []struct{ ID, Status, Channel string }
		}
		testkit.Eventually(t, words+" is delivered", func() bool {
			p.ask(t, http.MethodGet, "/messages?send="+made.ID, nil).want(t, http.StatusOK).into(t, &found)
			return len(found.Messages) == 1 && found.Messages[0].Status == "delivered"
		})
		return columns(c.ok(t, "notifications", "timeline", found.Messages[0].ID))
	}
	contains(t, send("Disk 7 is full"), "sms delivered 1", "accepted by gateway")
	first := <-texts
	if first.To != "+4915112345678" || !strings.Contains(first.Text, "Disk 7 is full") || first.Reference == "" ||
		first.authorization != "Bearer of-gateway" {
		t.Errorf("the provider got %+v", first)
	}

	// The first provider is down, so the reserve delivers the message at once.
	declare("gateway", "/down", 1)
	declare("reserve", "/reserve", 0)
	contains(t, send("Disk 8 is full"), "sms delivered 1", "accepted by reserve, after gateway: 503")
	down, reserve := <-texts, <-texts
	if down.path != "/down" || reserve.path != "/reserve" || down.Reference != reserve.Reference ||
		reserve.authorization != "Bearer of-reserve" || !strings.Contains(reserve.Text, "Disk 8 is full") {
		t.Errorf("the providers got %+v and %+v", down, reserve)
	}
	if shown := c.ok(t, "notifications", "providers", "--json"); strings.Contains(shown, "of-reserve") {
		t.Errorf("a secret is shown: %s", shown)
	}
	if mail := p.sink.Messages(); len(mail) > 0 {
		t.Errorf("mail was sent: %s", mail[0].Data)
	}
}
