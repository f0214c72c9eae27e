package e2e

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
	"ingot/internal/notify/outbound"
)

// TestDestinations sends by chat and webhook with a real server. Without permission it does not call this machine.
func TestDestinations(t *testing.T) {
	t.Parallel()
	type call struct {
		path, signature, body string
	}
	calls := make(chan call, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls <- call{r.URL.Path, r.Header.Get(outbound.SignatureHeader), string(body)}
	}))
	t.Cleanup(receiver.Close)

	strict := newMailFixture(t, options{})
	contains(t, strict.ask(t, http.MethodPut, "/destinations/chat", object{"url": receiver.URL}).
		want(t, http.StatusUnprocessableEntity).String(), "--allow-networks")

	p := newMailFixture(t, options{Args: []string{"--allow-networks", "127.0.0.0/8"}})
	p.register(t, "news")
	ann := p.createUser(t, p.admin, "ann", "p")
	p.ask(t, http.MethodPut, "/kinds/news/channels", object{"channels": []string{"chat"}}).
		want(t, http.StatusUnprocessableEntity)
	p.ask(t, http.MethodPut, "/destinations/chat", object{"url": receiver.URL + "/chat"}).want(t, http.StatusOK)
	var made struct{ Secret string }
	p.ask(t, http.MethodPut, "/destinations/webhook", object{"url": receiver.URL + "/app"}).want(t, http.StatusOK).
		into(t, &made)
	p.ask(t, http.MethodPut, "/kinds/news/channels", object{"channels": []string{"webhook", "chat"}}).
		want(t, http.StatusOK)
	p.ask(t, http.MethodPost, "/users/"+ann, object{"kind_id": "news", "subject": "s", "text": "the text"}).
		want(t, http.StatusOK)
	for range 2 {
		c := <-calls
		if !strings.Contains(c.body, "the text") {
			t.Errorf("%s got %s", c.path, c.body)
		}
		if c.path == "/chat" {
			continue
		}
		var at int64
		_, err := fmt.Sscanf(c.signature, "t=%d,", &at)
		if err != nil || c.signature != outbound.Sign(made.Secret, time.Unix(at, 0), []byte(c.body)) {
			t.Errorf("the signature %q is wrong: %v", c.signature, err)
		}
		if !strings.Contains(c.body, ann) {
			t.Errorf("the webhook got %s", c.body)
		}
	}
	testkit.Eventually(t, "both are delivered", func() bool {
		return strings.Count(p.ask(t, http.MethodGet, "/messages", nil).want(t, http.StatusOK).String(), `"delivered"`) == 2
	})
}
