package delivery

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/safedial"
	"ingot/internal/notify"
)

func TestPoster(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0)
	body := []byte(`{"events":[]}`)
	asked := make(chan *http.Request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/broken":
			w.WriteHeader(http.StatusInternalServerError)
		case "/endless":
			for {
				if _, err := w.Write(make([]byte, 32<<10)); err != nil {
					return
				}
			}
		}
	}))
	t.Cleanup(server.Close)
	for path, says := range map[string]string{
		"/ok": "", "/endless": "", "/redirect": "302", "/broken": "500",
	} {
		p := newPoster(WebhookOptions{Private: true})
		err := p.do(context.Background(), notify.Callback{URL: server.URL + path, Secret: "s3cret", Payload: body}, now)
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", path, err, says)
		}
		r := <-asked
		// Of printf '1900000000.{"events":[]}' | openssl dgst -sha256 -hmac s3cret
		if want := "t=1900000000,v1=" + signed; r.Header.Get("X-Ingot-Signature") != want || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s with %v", path, r.Method, r.Header)
		}
		p.close()
	}
	if len(asked) > 0 {
		t.Error("a redirect was followed")
	}
	p := newPoster(WebhookOptions{})
	if err := p.do(context.Background(), notify.Callback{URL: server.URL, Payload: body}, now); !errors.Is(err, safedial.ErrPrivate) {
		t.Errorf("a private address was called: %v", err)
	}
	if err := p.do(context.Background(), notify.Callback{URL: "file:///etc/passwd"}, now); err == nil {
		t.Error("a file was called")
	}
	if len(asked) > 0 {
		t.Error("the server was reached")
	}
}

const signed = "d36af2a1f5962dd92f844c184bea16b475b56734e85d3f303bf72d814fa6b0c7"

func TestCallbacksArePacked(t *testing.T) {
	t.Parallel()
	c := newCaller(Options{IDs: testIDs(t)}.forTests())
	send := &notify.Send{Number: 3, ClientID: "shop", KindID: "news", RequestID: "r"}
	var all []*notify.Claimed
	for i := range 250 {
		m := notify.Claimed{Send: send, Message: notify.Message{Number: notify.MessageNumber(3, i), Status: notify.Delivered, Attempts: 1}}
		m.UserID = fmt.Sprint("u", i)
		if i%50 == 0 {
			m.Status, m.Reason = notify.Failed, "554 no"
		}
		all = append(all, &m)
	}
	for name, c2 := range map[string]struct {
		events []notify.Status
		calls  []int
	}{
		"all":    {nil, []int{100, 100, 50}},
		"failed": {[]notify.Status{notify.Failed}, []int{5}},
		"none":   {[]notify.Status{notify.Undeliverable}, nil},
	} {
		got := c.callbacks(notify.Webhook{ID: "w", Events: c2.events}, all)
		if len(got) != len(c2.calls) {
			t.Fatalf("%s: %d calls", name, len(got))
		}
		for i, cb := range got {
			var call Call
			if err := json.Unmarshal(cb.Payload, &call); err != nil {
				t.Fatal(err)
			}
			if len(call.Events) != c2.calls[i] || cb.WebhookID != "w" || cb.ID == "" {
				t.Errorf("%s: call %d has %d events", name, i, len(call.Events))
			}
			if e := call.Events[0]; e.ClientID != "shop" || e.Recipient == "" || e.ID == "" || e.Send == "" || !e.Status.Final() {
				t.Errorf("%s: event is %+v, want a final one of shop with all ids", name, e)
			}
		}
	}
}
