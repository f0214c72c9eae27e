package httpext_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/actions"
	"ingot/internal/notify/apitest"
)

const laterMail = `{"steps":[{"channel":"inbox"},{"channel":"email","after":"1h","if":{"unread":"inbox"}}]}`

// TestWorkflows sets, shows and deletes workflows. Each of these answers is compared with the description.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		w, c := world(t)
		other, admin := w.Client("other", "notifications.manage"), w.Client("ops", "notifications.admin")
		for _, step := range []struct {
			method, path, body, bearer string
			status                     int
			want                       string
		}{
			{"GET", "/kinds/news/workflow", "", c, 200, `{"workflow":null,"description":["email at once"]}`},
			{"PUT", "/kinds/news/workflow", laterMail, c, 200, `"email after 1h, if not read in the inbox"`},
			{"GET", "/kinds/news/workflow", "", c, 200, `{"workflow":` + laterMail + `,"description":["inbox at once","email`},
			{"GET", "/kinds/news/workflow?client_id=shop", "", admin, 200, laterMail},
			{"GET", "/kinds/news/workflow?client_id=shop", "", other, 403, "notifications.admin"},
			{"GET", "/kinds/news/workflow", "", other, 404, "could not be found"},
			{"GET", "/kinds/news/workflow?clientid=shop", "", admin, 400, ""},
			{"GET", "/kinds/news/workflow", "", w.Client("shop", "notifications.write"), 403, ""},
			{"GET", "/kinds/news/channels", "", c, 200, `["email","inbox"]`},
			{"PUT", "/kinds/news/channels", `{"channels":["inbox"]}`, c, 409, "has a workflow"},
			{"GET", "/kinds/fire/workflow", "", c, 200, `"workflow":null`},
			{"PUT", "/kinds/nope/workflow", laterMail, c, 404, "could not be found"},
			{"PUT", "/kinds/news/workflow", laterMail, other, 404, "could not be found"},
			{"PUT", "/kinds/news/workflow", laterMail, admin, 403, ""},
			{"PUT", "/kinds/news/workflow", `{"steps":[{"channel":"fax"}]}`, c, 422, "at /steps/0/channel: must be one of"},
			{"PUT", "/kinds/news/workflow", `{"steps":[{"channel":"chat"}]}`, c, 422, "PUT /destinations/chat"},
			{"PUT", "/kinds/news/workflow", `[]`, c, 422, "must be an object"},
			{"PUT", "/kinds/news/workflow", `{`, c, 400, ""},
			{"PUT", "/kinds/news/workflow", `{"steps":` + strings.Repeat("[", 10_000), c, 400, ""},
			{"PUT", "/kinds/news/workflow", strings.Repeat(`{"a":`, 60) + "1" + strings.Repeat("}", 60), c, 422, "nested"},
			{"DELETE", "/kinds/news/workflow", "", other, 404, "could not be found"},
			{"DELETE", "/kinds/news/workflow", "", w.Client("shop", "notifications.write"), 403, ""},
			{"DELETE", "/kinds/news/workflow", "", c, 204, ""},
			{"DELETE", "/kinds/news/workflow", "", c, 204, ""},
			{"GET", "/kinds/news/channels", "", c, 200, `["email"]`},
			{"PUT", "/kinds/news/channels", `{"channels":["inbox"]}`, c, 200, `["inbox"]`},
			{"GET", "/kinds/news/workflow", "", c, 200, `["inbox at once"]`},
		} {
			a := w.Expect(version, step.bearer, step.method, step.path, step.body, step.status, "")
			if !strings.Contains(a.Body, step.want) {
				t.Errorf("%s %s %.100s: %.300s, want %s", step.method, step.path, step.body, a.Body, step.want)
			}
		}
	}
}

// A client has a bound on messages that its workflows delay, however it sends, and others have theirs.
func TestDelayedLimit(t *testing.T) {
	t.Parallel()
	w := apitest.Limited(t, actions.Limits{Delayed: 3})
	for _, id := range []string{"shop", "other"} {
		w.Expect(1, w.Client(id), "PUT", "/notifications", `{"source_name":"x","notifications":{"news":{"description":"n"},`+
			`"plain":{"description":"p"}}}`, 204, "")
		w.Expect(1, w.Client(id), "PUT", "/kinds/news/workflow", laterMail, 200, "")
	}
	send := func(client, kind string, status, n int, more string) string {
		t.Helper()
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf(`{"user":"u-%d"}`, i)
		}
		return w.Expect(2, w.Client(client), "POST", "/sends", `{"kind_id":"`+kind+`","text":"t","recipients":[`+
			strings.Join(list, ",")+`]`+more+`}`, status, "").Body
	}
	const full = "may have 3 messages that workflows delay"
	send("shop", "news", 202, 2, "")
	for what, got := range map[string]string{
		"at once":   send("shop", "news", 429, 2, ""),
		"a list":    send("shop", "news", 429, 150, ""),
		"scheduled": send("shop", "news", 429, 2, `,"delay":"1s"`),
	} {
		if !strings.Contains(got, full) {
			t.Errorf("%s: %s", what, got)
		}
	}
	send("shop", "plain", 202, 150, "")
	send("shop", "news", 202, 1, "")
	a := w.Expect(1, w.Client("shop"), "POST", "/users/u-9", `{"kind_id":"news","text":"t"}`, 429, "")
	if !strings.Contains(a.Body, full) || a.Header.Get("Retry-After") == "" {
		t.Errorf("one user: %s with %v", a.Body, a.Header)
	}
	send("other", "news", 202, 3, "")
}

// TestTimeline follows a notification with a workflow. Version 1 shows nothing of it.
func TestTimeline(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Expect(1, c, "PUT", "/kinds/news/workflow", laterMail, 200, "")
	var answer []struct {
		ID     string `json:"notification_id"`
		Status string
	}
	a := w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","subject":"S","text":"t"}`, 200, "")
	if a.Into(&answer); len(answer) != 1 || answer[0].Status != "queued" {
		t.Fatalf("the send is answered by %s", a.Body)
	}
	path := "/messages/" + answer[0].ID + "/timeline"
	a = w.Expect(1, c, "GET", path, "", 200, "")
	for _, want := range []string{`"subject":"S"`, `"event":"accepted"}`, `"workflow":` + laterMail,
		`"event":"waiting","channel":"email","message_id":"` + answer[0].ID,
		`"reason":"email after 1h, if not read in the inbox"`, `"event":"waiting","channel":"inbox"`} {
		if !strings.Contains(a.Body, want) {
			t.Errorf("the timeline is %s, want %s", a.Body, want)
		}
	}
	w.Expect(2, w.Client("other"), "GET", path, "", 200, "") // an administrator
	w.Expect(2, w.Client("other", "notifications.write"), "GET", path, "", 404, "")
	w.Expect(2, w.Client("shop", "notifications.manage"), "GET", path, "", 403, "")
	w.Expect(1, c, "GET", "/messages/nope/timeline", "", 404, "")

	number, _ := w.IDs.MessageNumber(answer[0].ID)
	if _, err := w.Store.Finish(t.Context(), []notify.Outcome{{Number: number, Status: notify.Skipped, Reason: "read",
		At: time.Now()}}, nil); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		path:                           `"event":"skipped","channel":"email"`,
		"/messages?status=skipped":     `"status":"skipped"`,
		"/messages/" + answer[0].ID:    `{"status":"undeliverable"}`,
		"/sends":                       `"skipped":1,`,
		"/messages?id=" + answer[0].ID: `"reason":"read"`,
	} {
		if a := w.Expect(1, c, "GET", path, "", 200, ""); !strings.Contains(a.Body, want) {
			t.Errorf("%s: %s, want %s", path, a.Body, want)
		}
	}
}
