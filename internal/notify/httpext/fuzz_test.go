package httpext_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

// FuzzCreateSend sends arbitrary bodies to POST /sends, as JSON and as lines. What is accepted has as many
// messages as recipients, and is the same send when it is repeated; what is refused leaves nothing behind.
func FuzzCreateSend(f *testing.F) {
	for _, seed := range []string{
		`{"kind_id":"news","data":{"shop":"ours"},"locale":"de","recipients":[{"user":"u-1","data":{"n":1}},{"email":"b@example.com"}]}`,
		`{"kind_id":"news","recipients":[{"user":"u"},{"user":"u"},{"email":"A@example.com"},{"email":"a@example.com","locale":"pt-BR"}]}`,
		`{"kind_id":"news","audience":{"type":"everyone"}}`,
		`{"kind_id":"news","audience":{"type":"organization","id":"org-1","role":"OrgManager"},"data":null}`,
		"{\"kind_id\":\"news\",\"text\":\"t\"}\n{\"user\":\"u\"}\n\n{\"email\":\"a@example.com\",\"data\":{\"a\":[[[]]]}}",
		"{\"kind_id\":\"news\"}\n{\"user\":\"u\"}\n{", "{\"kind_id\":\"news\"}\r\n{\"user\":\"\\u0000\"}", "\n", `{}`, `null`, `[]`, `7`,
		`{"kind_id":"news","data":` + strings.Repeat(`{"a":`, 30) + `1` + strings.Repeat(`}`, 30) + `,"recipients":[{"user":"u"}]}`,
		`{"kind_id":"strict","data":{"n":1e999},"recipients":[{"user":"u"}]}`,
		`{"kind_id":"strict","recipients":[{"user":"u","data":{"n":7}},{"user":"v","data":{"n":"x"}}]}`,
		`{"kind_id":"news","locale":"x-y-z-zz-1","subject":"a\nb","recipients":[{"user":"é\u2028"}]}`,
		`{"kind_id":"news","recipients":[{"user":"u","data":{"a":"\ud800"}}],"recipients":[]}`,
	} {
		f.Add(seed, false)
		f.Add(seed, true)
	}
	w := apitest.Limited(f, actions.Limits{Requests: -1, Burst: -1, Recipients: -1})
	w.Directory.People(3)
	c := w.Client("shop")
	w.Expect(1, c, "PUT", "/notifications", `{"source_name":"Shop","notifications":{"news":{"description":"News"},
		"strict":{"description":"Strict"}}}`, 204, "")
	w.Expect(1, c, "PUT", "/kinds/strict/schema", `{"required":["n"],"properties":{"n":{"type":"number"}}}`, 204, "")
	number := 0
	f.Fuzz(func(t *testing.T, body string, lines bool) {
		number++
		headers := []string{"Content-Type", "application/json", "Idempotency-Key", fmt.Sprint("key-", number)}
		if lines {
			headers[1] = "application/x-ndjson"
		}
		state := func() (waiting int, stored int64) {
			t.Helper()
			waiting, err := w.Store.Waiting(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			used, err := w.Store.Stored(t.Context(), "shop")
			if err != nil {
				t.Fatal(err)
			}
			return waiting, used.Sends
		}
		waited, had := state()
		a, err := w.Try(t.Context(), 1, c, "POST", "/sends", body, headers...)
		if err != nil {
			t.Fatal(err)
		}
		waits, has := state()
		if a.Status != 202 {
			if a.Status < 400 || a.Status >= 500 || a.Message() == "" || waits != waited || has != had {
				t.Fatalf("%q: %d %s, %d messages and %d bytes more", body, a.Status, a.Body, waits-waited, has-had)
			}
			return
		}
		var made struct {
			ID         string
			Recipients *int
		}
		if err := json.Unmarshal([]byte(a.Body), &made); err != nil {
			t.Fatal(err)
		}
		if made.Recipients != nil && waits-waited != *made.Recipients || has <= had {
			t.Errorf("%q: %s, %d messages and %d bytes more", body, a.Body, waits-waited, has-had)
		}
		again, err := w.Try(t.Context(), 1, c, "POST", "/sends", body, headers...)
		if err != nil || again.Status != 202 || !strings.Contains(again.Body, made.ID) {
			t.Errorf("%q again: %d %s, %v; want %s", body, again.Status, again.Body, err, made.ID)
		}
		if n, bytes := state(); n != waits || bytes != has {
			t.Errorf("%q again: %d messages and %d bytes more", body, n-waits, bytes-has)
		}
	})
}
