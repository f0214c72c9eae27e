package e2e

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/serviceworker"
	"github.com/chromedp/chromedp"
)

// recordingWorker is the service worker of an app. It reports notifications to the app, because a browser without a
// screen refuses to show them.
const recordingWorker = `importScripts("/push-worker.js");
self.registration.showNotification = (title, {body, tag, timestamp, data}) => fetch("/shown", {
	method: "POST", body: JSON.stringify([title, body, tag, timestamp, data.id, data.url])});`

// TestPushWorker delivers push messages to the service worker of the documentation, in a real browser.
func TestPushWorker(t *testing.T) {
	t.Parallel()
	b := openBrowser(t)
	shown := make(chan string, 10)
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/worker.js":
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(recordingWorker))
		case "/push-worker.js":
			w.Header().Set("Content-Type", "text/javascript")
			http.ServeFile(w, r, filepath.Join("..", "clients", "inbox", "push-worker.js"))
		case "/shown":
			body, _ := io.ReadAll(r.Body)
			shown <- string(body)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!DOCTYPE html><title>My app</title>`))
		}
	}))
	t.Cleanup(app.Close)
	b.do(t, chromedp.Navigate(app.URL))
	deliver := b.pushMessages(t, app.URL)
	message := func(title, url string) string {
		text, err := json.Marshal(object{"id": "1", "title": title, "body": "See there", "tag": "order-7", "url": url,
			"created_at": "1970-01-01T00:00:07Z"})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	deliver("not a message of the service")
	deliver(`{"title": 7}`)
	for _, c := range []struct{ title, url, page string }{
		{"Order 7 is here", "/orders/7", app.URL + "/orders/7"},
		{"Grüße 🎉", "https://shop.example/orders/7", "https://shop.example/orders/7"},
		{"No page", "", app.URL + "/"},
		{"A script", "javascript:alert(1)", app.URL + "/"},
	} {
		deliver(message(c.title, c.url))
		want := `["` + c.title + `","See there","order-7",7000,"1","` + c.page + `"]`
		select {
		case got := <-shown:
			if got != want {
				t.Errorf("the browser shows %s, want %s", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("the browser does not show %s", want)
		}
	}
}

// pushMessages registers /worker.js, and returns a function that delivers push messages to it.
func (b *browser) pushMessages(t *testing.T, origin string) (deliver func(data string)) {
	t.Helper()
	registrations := chromedp.Events(b.ctx, serviceworker.WorkerRegistrationUpdated)
	if _, err := chromedp.Call(b.ctx, serviceworker.Enable, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	b.do(t, chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := chromedp.Evaluate[string](`navigator.serviceWorker.register("/worker.js").then(
			() => navigator.serviceWorker.ready).then(r => r.scope)`, chromedp.EvalAwaitPromise)(ctx, target)
		return err
	}))
	for e, err := range registrations {
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range e.Registrations {
			return func(data string) {
				t.Helper()
				if _, err := chromedp.Call(b.ctx, serviceworker.DeliverPushMessage,
					serviceworker.DeliverPushMessageParams{Origin: origin, RegistrationID: r.RegistrationID, Data: data},
				); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	t.Fatal("the browser has no service worker")
	return nil
}
