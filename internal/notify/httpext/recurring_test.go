package httpext_test

import (
	"fmt"
	"strings"
	"testing"

	"ingot/internal/notify"
)

// TestRecurring creates, shows, pauses, resumes, replaces and deletes a recurring send.
func TestRecurring(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		w, c := world(t)
		admin := w.Client("admin", "notifications.admin")
		const daily = "/recurring_sends/daily"
		body := `{"cron":"0 9 * * *","zone":"Europe/Berlin","send":{"kind_id":"news","subject":"Hi","text":"t","ttl":"36h",
			"data":{"a":1},"recipients":[{"email":"a@example.com","locale":"de","data":{"b":2}},{"user":"u-1"}]}}`
		type shown struct {
			Name, Status, Cron, Zone string
			Next                     []string `json:"next_times"`
			Runs                     int
			Send                     *struct {
				Subject, TTL string
				Recipients   []struct{ User, Email, Locale string }
			}
		}
		call := func(method, path, body, bearer string, status int) (got shown) {
			t.Helper()
			a := w.Expect(version, bearer, method, path, body, status, "")
			if status < 300 && status != 204 {
				a.Into(&got)
			}
			return got
		}
		call("GET", daily, "", c, 404)
		made := call("PUT", daily, body, c, 201)
		if made.Status != "active" || len(made.Next) != 5 || !strings.Contains(made.Next[0], "T09:00:00+0") ||
			made.Send == nil || made.Send.TTL != "36h0m0s" || len(made.Send.Recipients) != 2 {
			t.Errorf("made %+v", made)
		}
		again := call("PUT", daily, body, c, 200)
		if again.Next[0] != made.Next[0] {
			t.Errorf("repeated, it is %+v", again)
		}
		if got := call("POST", daily+"/pause", "", c, 200); got.Status != "paused" || len(got.Next) != 0 {
			t.Errorf("paused, it is %+v", got)
		}
		call("POST", daily+"/pause", "", c, 200)
		if got := call("PUT", daily, strings.Replace(body, "Berlin", "Lisbon", 1), c, 200); got.Status != "paused" ||
			got.Zone != "Europe/Lisbon" {
			t.Errorf("in another zone, it is %+v", got)
		}
		if got := call("POST", daily+"/resume", "", c, 200); got.Status != "active" || len(got.Next) != 5 {
			t.Errorf("resumed, it is %+v", got)
		}

		// Other clients do not see it; administrators do.
		other := w.Client("other", "notifications.write")
		for _, step := range []struct{ method, path string }{
			{"GET", daily}, {"DELETE", daily}, {"POST", daily + "/pause"}, {"POST", daily + "/resume"},
		} {
			call(step.method, step.path, "", other, 404)
			call(step.method, step.path+"?client_id=shop", "", other, 403)
			call(step.method, step.path, "", w.Client("shop", "emails.write"), 403)
		}
		call("PUT", daily, body, admin, 403)
		if got := call("POST", daily+"/pause?client_id=shop", "", admin, 200); got.Status != "paused" {
			t.Errorf("paused by an administrator, it is %+v", got)
		}
		call("GET", daily+"?client_id=*", "", admin, 400)
		call("PUT", "/recurring_sends/second", body, c, 201)
		for _, step := range []struct {
			query, bearer string
			status        int
			want, not     string
		}{
			{"", c, 200, `"name":"second"`, `"send":`},
			{"?limit=1", c, 200, "after=daily", `"name":"second"`},
			{"?after=daily", c, 200, `"name":"second"`, `"name":"daily"`},
			{"", other, 200, `"recurring_sends":[]`, ""},
			{"?client_id=*", other, 403, "", ""},
			{"?client_id=*&limit=1", admin, 200, "after=shop%0Adaily", `"name":"second"`},
			{"?client_id=*&after=shop%0Adaily", admin, 200, `"name":"second"`, `"name":"daily"`},
			{"?client_id=*&after=x", admin, 400, "", ""},
			{"?client_id=shop", admin, 200, `"name":"daily"`, ""},
			{"?limit=0", c, 400, "", ""},
			{"?clientid=shop", c, 400, "", ""},
		} {
			a := w.Expect(version, step.bearer, "GET", "/recurring_sends"+step.query, "", step.status, "")
			if !strings.Contains(a.Body, step.want) || step.not != "" && strings.Contains(a.Body, step.not) {
				t.Errorf("%s: %s", step.query, a.Body)
			}
		}
		call("DELETE", daily, "", c, 204)
		call("DELETE", daily, "", c, 404)
		call("DELETE", "/recurring_sends/second?client_id=shop", "", admin, 204)
	}
}

// TestRecurringRefused sees that nothing is stored of what cannot be sent.
func TestRecurringRefused(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	put := func(name, cron, more, send string) string {
		t.Helper()
		a := w.Call(1, c, "PUT", "/recurring_sends/"+name, fmt.Sprintf(`{"cron":%q%s,"send":%s}`, cron, more, send))
		if a.Status < 400 || a.Status >= 500 {
			t.Errorf("%s %.60q %.60s %.60s: %d %.200s", name, cron, more, send, a.Status, a.Body)
		}
		if len(a.Body) > 3000 {
			t.Errorf("%.60q is answered with %d bytes", cron, len(a.Body))
		}
		return a.Body
	}
	const ok = `{"kind_id":"news","text":"t","recipients":[{"email":"a@example.com"}]}`
	for _, cron := range []string{"", "* * * *", "* * * * * *", "@every 1ns", "60 * * * *", "0 0 30 2 *",
		"*/0 * * * *", "5-1 * * * *", "TZ=UTC 0 9 * * *", strings.Repeat("1,", 250_000) + "1 * * * *",
		"0-59/1,0-59/1 * * * * 2026", "١ * * * *"} {
		if got := put("x", cron, "", ok); !strings.Contains(got, `\"cron\"`) {
			t.Errorf("%.60q: %.300s", cron, got)
		}
	}
	for more, want := range map[string]string{
		`,"zone":"Nowhere"`:                            `\"zone\"`,
		`,"zone":"Local"`:                              `\"zone\"`,
		`,"zone":"../../etc/passwd"`:                   `\"zone\"`,
		`,"zone":"/etc/passwd"`:                        `\"zone\"`,
		`,"zone":"+02:00"`:                             `\"zone\"`,
		`,"zone":"Europe\u0000Berlin"`:                 ``,
		`,"zone":"` + strings.Repeat("x", 1<<19) + `"`: `\"zone\"`,
		`,"count":-1`:                                  `\"count\"`,
		`,"count":1e30`:                                `count`,
		`,"starts_at":"tomorrow"`:                      `\"starts_at\"`,
		`,"ends_at":"2020-01-01"`:                      `\"ends_at\"`,
		`,"ends_at":"2020-01-01T00:00:00Z"`:            `never be sent`,
		`,"starts_at":"2030-01-02T00:00:00Z","ends_at":"2030-01-01T00:00:00Z"`: `before`,
		`,"interval":5`: `Unknown field`,
	} {
		if got := put("x", "0 9 * * *", more, ok); !strings.Contains(got, want) {
			t.Errorf("%.80s: %.300s, want %s", more, got, want)
		}
	}
	many := strings.Repeat(`{"user":"u"},`, 1000) + `{"user":"u"}`
	for send, want := range map[string]string{
		`{"kind_id":"none","recipients":[{"user":"u"}]}`:                                                `is not registered`,
		`{"kind_id":"news"}`:                                                                            `is required`,
		`{"kind_id":"news","recipients":[]}`:                                                            `is empty`,
		`{"kind_id":"news","recipients":[{"user":"u"}],"audience":{"type":"everyone"}}`:                 `not both`,
		`{"kind_id":"news","recipients":[{"user":"u","email":"x"}]}`:                                    `recipient 1`,
		`{"kind_id":"news","recipients":[` + many + `]}`:                                                `at most 1000`,
		`{"kind_id":"news","audience":{"type":"list","id":"x"}}`:                                        `audience.type`,
		`{"kind_id":"news","audience":{"type":"space","id":"nope"}}`:                                    ``,
		`{"kind_id":"news","audience":{"type":"everyone"},"data":[]}`:                                   `must be an object`,
		`{"kind_id":"news","audience":{"type":"everyone"},"send_at":"x"}`:                               `Unknown field`,
		`{"kind_id":"news","audience":{"type":"everyone"},"ttl":"0s"}`:                                  `send.ttl`,
		`{"kind_id":"news","audience":{"type":"everyone"},"ttl":"9000h"}`:                               `send.ttl`,
		`{"kind_id":"news","audience":{"type":"everyone"},"template_id":"none"}`:                        `could not be found`,
		`{"kind_id":"news","audience":{"type":"everyone"},"text":"` + strings.Repeat("x", 1<<20) + `"}`: `bytes`,
	} {
		if got := put("x", "0 9 * * *", "", send); !strings.Contains(got, want) {
			t.Errorf("%.80s: %.300s, want %s", send, got, want)
		}
	}
	for _, name := range []string{"%00", "a%20b", ".x", strings.Repeat("n", 101), "%E2%82%AC", "a%0Ab"} {
		put(name, "0 9 * * *", "", ok)
	}
	limited := w.Client("shop", "notifications.write")
	w.Expect(1, limited, "PUT", "/recurring_sends/x",
		`{"cron":"@daily","send":{"kind_id":"fire","recipients":[{"user":"u"}]}}`, 422, "Insufficient privileges to send notification fire")
	list, err := w.Store.ListRecurring(t.Context(), notify.RecurringQuery{All: true, Limit: 1})
	if err != nil || len(list) > 0 {
		t.Errorf("%+v is stored, %v", list, err)
	}
}
