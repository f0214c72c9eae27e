package client_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/cli/client"
)

// event returns a log line as an event of the stream.
func event(id int, text string) string {
	return fmt.Sprintf("id: %d\ndata: {\"timestamp\":\"%d\",\"instance_id\":\"0\",\"tags\":{\"source_type\":\"APP\"},\"log\":{\"payload\":%q,\"type\":\"OUT\"}}\n\n",
		id, id, base64.StdEncoding.EncodeToString([]byte(text)))
}

func begin(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	fmt.Fprint(w, ":connected\n\n")
}

// collect follows a log until the wanted number of lines was shown, or it ends.
func collect(t *testing.T, c *client.Client, want int) ([]string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	err := c.LiveTail(c.API)(ctx, "app/1", time.Unix(7, 0), func(l client.Line) {
		if got = append(got, l.Text); len(got) == want {
			cancel()
		}
	})
	return got, err
}

// When a server cuts off streams, even within a line, or is down at times, the
// tail resumes after the last line: each line is shown once.
func TestLiveTailGoesOn(t *testing.T) {
	t.Parallel()
	const total = 40
	var asked atomic.Int32
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := int(asked.Add(1))
		after, err := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		if start := r.URL.Query().Get("start_time"); n == 1 && (start != "7000000000" || err == nil) ||
			r.URL.EscapedPath() != "/api/v1/tail/app%2F1" {
			t.Errorf("%s asks for %q after %d, %v", r.URL.EscapedPath(), start, after, err)
		}
		if n%3 == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		begin(w)
		for id := after + 1; id <= min(total, after+n+1); id++ {
			fmt.Fprint(w, ":\n\n", event(id, fmt.Sprint("line ", id)))
		}
		text := event(after+n+2, "torn")
		fmt.Fprint(w, text[:len(text)-1])
	})
	got, err := collect(t, c, total)
	if err != nil || len(got) != total {
		t.Fatalf("%v, %d lines", err, len(got))
	}
	for i, text := range got {
		if text != fmt.Sprint("line ", i+1) {
			t.Fatalf("%q at index %d", text, i)
		}
	}
}

// A token that expires during a stream is renewed, whether the server says so in
// the stream or rejects the next one.
func TestLiveTailRenews(t *testing.T) {
	t.Parallel()
	lasting := func(n int) string {
		claims, _ := json.Marshal(map[string]any{"exp": time.Now().Add(time.Hour).Unix(), "jti": fmt.Sprint(n)})
		return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".sig"
	}
	var mu sync.Mutex
	valid, renewals := 0, 0
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path == "/oauth/token" {
			renewals++
			valid = renewals
			_ = json.NewEncoder(w).Encode(map[string]string{"access_token": lasting(valid), "refresh_token": "again"})
			return
		}
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "bearer ")
		if client.Parse(token).ID != fmt.Sprint(valid) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		after, _ := strconv.Atoi(r.Header.Get("Last-Event-ID"))
		begin(w)
		fmt.Fprint(w, event(after+1, fmt.Sprint(after+1)))
		valid = -1 // from now on
		fmt.Fprint(w, "event: end\ndata: {\"reason\":\"expired\",\"resume\":true}\n\n")
	})
	c.Use(client.Tokens{Access: lasting(0), Refresh: "once"})
	if got, err := collect(t, c, 4); err != nil || strings.Join(got, " ") != "1 2 3 4" || renewals != 3 {
		t.Errorf("%v, %v, %d renewals", got, err, renewals)
	}
}

func TestLiveTailEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answer func(w http.ResponseWriter, again bool)
		want   string
	}{
		"deleted": {func(w http.ResponseWriter, _ bool) {
			begin(w)
			fmt.Fprint(w, event(1, "x"), "event: end\ndata: {\"reason\":\"the app was deleted\"}\n\n")
		}, "the app was deleted"},
		"gone when asked again": {func(w http.ResponseWriter, again bool) {
			if again {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			begin(w)
			fmt.Fprint(w, event(1, "x"))
		}, "no longer there"},
		"nonsense": {func(w http.ResponseWriter, again bool) {
			if again {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			begin(w)
			fmt.Fprint(w, event(1, "x"), "data: {\n\n")
		}, "403"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			c := serve(t, func(w http.ResponseWriter, _ *http.Request) { tc.answer(w, asked.Add(1) > 1) })
			got, err := collect(t, c, 2)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(got) != 1 {
				t.Errorf("error is %v, want %q; lines are %q, want 1", err, tc.want, got)
			}
		})
	}
}

// A stream that can never be read is not reopened forever.
func TestLiveTailCannotRead(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var asked atomic.Int32
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		begin(w)
		fmt.Fprint(w, "id: 1\ndata: {\n\n")
		if asked.Add(1) == 10 {
			cancel()
		}
	})
	var warnings []string
	c.Warn = func(text string) {
		warnings = append(warnings, text)
		cancel()
	}
	if err := c.LiveTail(c.API)(ctx, "app", time.Unix(7, 0), func(client.Line) {}); err != nil {
		t.Error(err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "invalid event") {
		t.Errorf("warned %q after %d streams", warnings, asked.Load())
	}
}

// Any other Cloud Foundry has no such stream.
func TestLiveTailFallsBack(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"not found":       http.NotFound,
		"not implemented": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotImplemented) },
		"a page":          func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"too many":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"broken":          func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if strings.HasPrefix(r.URL.Path, "/api/v1/tail/") {
					answer(w, r)
					return
				}
				fmt.Fprintf(w, `{"envelopes":{"batch":[{"timestamp":"8000000000","log":{"payload":"%s"}}]}}`,
					base64.StdEncoding.EncodeToString([]byte("polled")))
			})
			if got, err := collect(t, c, 1); err != nil || len(got) != 1 || got[0] != "polled" {
				t.Errorf("lines are %v, %v, want polled", got, err)
			}
		})
	}
}
