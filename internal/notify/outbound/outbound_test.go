package outbound

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/safedial"
)

func TestClient(t *testing.T) {
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
			w.Header().Set("Retry-After", "60")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = w.Write([]byte(" not now "))
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
		p := New(Options{Private: true})
		a, err := p.Post(t.Context(), Call{URL: server.URL + path, Secret: "s3cret", Body: body, At: now, Key: "id-1"})
		if err != nil || a.OK() != (says == "") || !strings.Contains(a.String(), says) {
			t.Errorf("%s: got %v, %v, want %q", path, a, err, says)
		}
		if path == "/broken" && (a.RetryAfter != time.Minute || a.Text != "not now") {
			t.Errorf("an answer is %+v", a)
		}
		r := <-asked
		// Of printf '1900000000.{"events":[]}' | openssl dgst -sha256 -hmac s3cret
		if want := "t=1900000000,v1=" + signed; r.Header.Get("X-Ingot-Signature") != want || r.Method != http.MethodPost ||
			r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Idempotency-Key") != "id-1" {
			t.Errorf("%s: %s with %v", path, r.Method, r.Header)
		}
		p.Close()
	}
	if len(asked) > 0 {
		t.Error("a redirect was followed")
	}
	p := New(Options{})
	_, err := p.Post(t.Context(), Call{URL: server.URL + "/s3cret", Body: body})
	if !errors.Is(err, safedial.ErrPrivate) || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("a private address was called: %v", err)
	}
	if _, err := p.Post(t.Context(), Call{URL: "file:///etc/passwd"}); err == nil {
		t.Error("a file was called")
	}
	if len(asked) > 0 {
		t.Error("the server was reached")
	}
}

const signed = "d36af2a1f5962dd92f844c184bea16b475b56734e85d3f303bf72d814fa6b0c7"

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_900_000_000, 0).UTC()
	for value, want := range map[string]time.Duration{
		"": 0, "x": 0, "-1": 0, "1.5": 0, "0": 0, "30": 30 * time.Second, "99999999999999999999": 0,
		now.Add(time.Hour).Format(http.TimeFormat):  time.Hour,
		now.Add(-time.Hour).Format(http.TimeFormat): 0,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
