package notifications

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// service is a fake service: answers are taken in turn, and requests recorded.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	answers  []answer
	requests []string
	keys     []string
	tokens   int
}

type answer struct {
	status int
	body   string
	// hang closes the connection instead.
	hang bool
}

func newService(t *testing.T, answers ...answer) (*service, *Client) {
	t.Helper()
	s := &service{answers: answers}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	c, err := New(Options{URL: s.URL + "/", Token: ClientCredentials(s.URL, "my shop", "s:cret")})
	if err != nil {
		t.Fatal(err)
	}
	return s, c
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Path == "/oauth/token" {
		s.tokens++
		if id, secret, _ := r.BasicAuth(); id != "my+shop" || secret != "s%3Acret" {
			http.Error(w, `{"error":"unauthorized"}`, http.StatusUnauthorized)
			return
		}
		fmt.Fprintf(w, `{"access_token":"tok-%d","expires_in":3600}`, s.tokens)
		return
	}
	s.requests = append(s.requests, r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization")+" "+string(body))
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	a := answer{status: http.StatusOK, body: "{}"}
	if len(s.answers) > 0 {
		a, s.answers = s.answers[0], s.answers[1:]
	}
	if a.hang {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Retry-After", "0")
	w.WriteHeader(a.status)
	fmt.Fprint(w, a.body)
}

// TestRepeats checks which requests are sent again, and which are not.
func TestRepeats(t *testing.T) {
	t.Parallel()
	busy := []answer{{status: 429}, {status: 503}}
	ok := answer{status: 200, body: `{"id":"1","template-id":"1"}`}
	send := func(c *Client) error { _, err := c.Send(t.Context(), Send{KindID: "news"}); return err }
	create := func(c *Client) error { _, err := c.CreateTemplate(t.Context(), Template{}); return err }
	get := func(c *Client) error { _, err := c.SendStatus(t.Context(), "a/b"); return err }
	for name, of := range map[string]struct {
		call     func(*Client) error
		answers  []answer
		requests int
		status   int // of the error; -1 is another error
	}{
		"send, lost":                {send, []answer{{hang: true}, ok}, 2, 0},
		"send, bad gateway":         {send, []answer{{status: 502}, {status: 504}, ok}, 3, 0},
		"send, busy for too long":   {send, slices.Concat(busy, busy, []answer{ok}), 4, 503},
		"send, wrong":               {send, []answer{{status: 422}}, 1, 422},
		"create, lost":              {create, []answer{{hang: true}, ok}, 1, -1},
		"create, bad gateway":       {create, []answer{{status: 502}, ok}, 1, 502},
		"create, busy":              {create, []answer{{status: 429}, ok}, 2, 0},
		"read, lost":                {get, []answer{{hang: true}, ok}, 2, 0},
		"read, token refused":       {get, []answer{{status: 401}, ok}, 2, 0},
		"read, token refused again": {get, []answer{{status: 401}, {status: 401}, ok}, 2, 401},
		"read, redirected":          {get, []answer{{status: 307}}, 1, 307},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := newService(t, of.answers...)
			err := of.call(c)
			var e *Error
			switch {
			case of.status == 0 && err != nil, of.status != 0 && err == nil, of.status > 0 && !errors.As(err, &e),
				of.status > 0 && e.Status != of.status:
				t.Errorf("error %v, want one with status %d", err, of.status)
			}
			if len(s.requests) != of.requests {
				t.Errorf("%d requests, want %d: %q", len(s.requests), of.requests, s.requests)
			}
			if strings.HasPrefix(name, "send") && (s.keys[0] == "" || len(slices.Compact(s.keys)) != 1) {
				t.Errorf("idempotency keys are %q, want one for all", s.keys)
			}
		})
	}
}

// TestTokens checks that a token is kept, and replaced when it is refused.
func TestTokens(t *testing.T) {
	t.Parallel()
	s, c := newService(t, answer{status: 200, body: "{}"}, answer{status: 401})
	for range 3 {
		if _, err := c.SendStatus(t.Context(), "1"); err != nil {
			t.Fatal(err)
		}
	}
	if s.tokens != 2 || !strings.Contains(s.requests[3], "Bearer tok-2") {
		t.Errorf("%d tokens: %q", s.tokens, s.requests)
	}
	c, err := New(Options{URL: s.URL, Token: ClientCredentials(s.URL, "my shop", "wrong")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = c.SendStatus(t.Context(), "1"); err == nil ||
		!strings.Contains(err.Error(), `client "my shop": notifications: unauthorized`) {
		t.Errorf("with a wrong secret: %v", err)
	}
}

// TestSendList checks the lines, also when the request is repeated, and an error among the recipients.
func TestSendList(t *testing.T) {
	t.Parallel()
	s, c := newService(t, answer{status: 503},
		answer{status: 202, body: `{"id":"7","status":"accepted","recipients":2}`})
	list := slices.Values([]Recipient{{User: "u-1", Data: map[string]any{"n": 1}}, {Email: "a@example.com"}})
	a, err := c.SendList(t.Context(), Send{KindID: "news"}, list)
	if err != nil || a.ID != "7" || a.Recipients != 2 {
		t.Errorf("%+v, %v", a, err)
	}
	want := "{\"kind_id\":\"news\"}\n{\"user\":\"u-1\",\"data\":{\"n\":1}}\n{\"email\":\"a@example.com\"}\n"
	for _, r := range s.requests {
		if !strings.HasSuffix(r, want) {
			t.Errorf("sent %q, want %q", r, want)
		}
	}
	wrong := slices.Values([]Recipient{{User: "u-1", Data: func() {}}})
	if _, err := c.SendList(t.Context(), Send{KindID: "news"}, wrong); err == nil ||
		!strings.Contains(err.Error(), "unsupported type") {
		t.Errorf("data that is no JSON: %v", err)
	}
	if _, err := c.SendList(t.Context(), Send{KindID: "news", Audience: Everyone()}, list); err == nil {
		t.Error("a list with an audience is accepted")
	}
}

// TestMessages follows pages, and sends the token to no other server.
func TestMessages(t *testing.T) {
	t.Parallel()
	s, c := newService(t,
		answer{200, `{"messages":[{"id":"1"},{"id":"2"}],
			"_links":{"next":{"href":"https://elsewhere.example.com/messages?after=2"}}}`, false},
		answer{200, `{"messages":[{"id":"3","status":"failed"}],"_links":{}}`, false})
	var ids []string
	for m, err := range c.Messages(t.Context(), MessageQuery{Status: "failed", Since: time.Unix(0, 0)}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, m.ID)
	}
	if !slices.Equal(ids, []string{"1", "2", "3"}) ||
		len(s.requests) != 2 ||
		!strings.Contains(s.requests[0], "/messages?limit=1000&since=1970-01-01T00%3A00%3A00Z&status=failed") ||
		!strings.Contains(s.requests[1], "/messages?after=2") {
		t.Errorf("messages %q, requests %q", ids, s.requests)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range c.Messages(ctx, MessageQuery{}) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("with a canceled context: %v", err)
		}
	}
}

// TestEvents checks which calls of webhooks are refused.
func TestEvents(t *testing.T) {
	t.Parallel()
	body := `{"events":[{"notification_id":"n","status":"delivered"}]}`
	sign := func(at time.Time, body, secret string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		fmt.Fprintf(mac, "%d.%s", at.Unix(), body)
		return fmt.Sprintf("t=%d,v1=%s", at.Unix(), hex.EncodeToString(mac.Sum(nil)))
	}
	now := time.Now()
	for name, of := range map[string]struct {
		signature, secret string
		ok                bool
	}{
		"right":         {sign(now, body, "s"), "s", true},
		"another body":  {sign(now, body+" ", "s"), "s", false},
		"other secret":  {sign(now, body, "t"), "s", false},
		"no secret":     {sign(now, body, ""), "", false},
		"old":           {sign(now.Add(-time.Hour), body, "s"), "s", false},
		"of the future": {sign(now.Add(time.Hour), body, "s"), "s", false},
		"none":          {"", "s", false},
		"not hex":       {"t=1,v1=zz", "s", false},
		"no time":       {"v1=00", "s", false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.Header.Set("X-Ingot-Signature", of.signature)
		events, err := Events(r, of.secret)
		if (err == nil) != of.ok || of.ok && (len(events) != 1 || events[0].Status != "delivered") {
			t.Errorf("%s: %+v, %v", name, events, err)
		}
	}
}

// TestFromVCAP finds the credentials of a service.
func TestFromVCAP(t *testing.T) {
	t.Parallel()
	services := `{"postgres":[{"name":"db","credentials":{"url":"postgres://x"}}],
		"notifications":[{"name":"mail","credentials":{"url":"https://n","auth_url":"https://a",
			"client_id":"i","client_secret":"s"}}]}`
	for name, why := range map[string]string{"": "", "mail": "", "db": "not an http or https address",
		"none": `no service instance "none"`} {
		_, err := FromVCAP(services, name)
		if why == "" && err != nil || why != "" && (err == nil || !strings.Contains(err.Error(), why)) {
			t.Errorf("%q: %v, want %q", name, err, why)
		}
	}
	if _, err := FromVCAP("{}", ""); err == nil || !strings.Contains(err.Error(), "cf create-service notifications") {
		t.Errorf("without services: %v", err)
	}
}

// TestErrors reads the reasons of the service.
func TestErrors(t *testing.T) {
	t.Parallel()
	_, c := newService(t, answer{404, `{"errors":["The send does not exist"]}`, false}, answer{413, `<html>`, false})
	_, err := c.SendStatus(t.Context(), "1")
	if !IsNotFound(err) || err.Error() != "notifications: The send does not exist" {
		t.Errorf("%v", err)
	}
	err = c.SetSchema(t.Context(), "news", json.RawMessage(`{}`))
	if err == nil || err.Error() != "notifications: 413 Request Entity Too Large" {
		t.Errorf("%v", err)
	}
}

// A file is stored as it is, and an attachment is base64 in a send.
func TestAttachments(t *testing.T) {
	t.Parallel()
	s, c := newService(t, answer{status: http.StatusCreated, body: `{"id":"f1"}`},
		answer{status: http.StatusAccepted, body: `{"id":"s1"}`})
	id, err := c.StoreFile(t.Context(), []byte("\x00pdf"))
	if err != nil || id != "f1" {
		t.Fatalf("%q, %v", id, err)
	}
	if _, err := c.Send(t.Context(), Send{KindID: "k", Attachments: []Attachment{{Name: "a.pdf", ID: id},
		{Name: "l.png", Content: []byte("\x00"), Inline: "logo"}}}); err != nil {
		t.Fatal(err)
	}
	if want := "POST /attachments Bearer tok-1 \x00pdf"; s.requests[0] != want {
		t.Errorf("the request is %q, want %q", s.requests[0], want)
	}
	want := `"attachments":[{"name":"a.pdf","id":"f1"},{"name":"l.png","content":"AA==","inline":"logo"}]`
	if !strings.Contains(s.requests[1], want) {
		t.Errorf("the request is %q, want it to contain %s", s.requests[1], want)
	}
}
