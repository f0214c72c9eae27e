package httpext_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/apitest"
)

// TestDigestRules sets, shows and deletes the rules of digests. Each of these answers is compared with the description.
func TestDigestRules(t *testing.T) {
	t.Parallel()
	const rule = `{"window":"1h","max":50,"key":"thread.id","channels":["email"]}`
	for version := 1; version <= 2; version++ {
		w, c := world(t)
		other, admin := w.Client("other", "notifications.manage"), w.Client("ops", "notifications.admin")
		for _, step := range []struct {
			method, path, body, bearer string
			status                     int
			want                       string
		}{
			{"GET", "/kinds/news/digest", "", c, 200, `{"digest":null,"description":"not collected"}`},
			{"PUT", "/kinds/news/digest", rule, c, 200, `"email collected by thread.id for 1h, at most 50"`},
			{"GET", "/kinds/news/digest", "", c, 200, `{"digest":` + rule},
			{"GET", "/kinds/news/digest?client_id=shop", "", admin, 200, rule},
			{"GET", "/kinds/news/digest?client_id=shop", "", other, 403, "notifications.admin"},
			{"GET", "/kinds/news/digest", "", other, 404, "could not be found"},
			{"GET", "/kinds/news/digest?clientid=shop", "", admin, 400, ""},
			{"GET", "/kinds/news/digest", "", w.Client("shop", "notifications.write"), 403, ""},
			{"PUT", "/kinds/news/digest", `{"window":"90s"}`, c, 200, `{"window":"1m30s","max":100}`},
			{"PUT", "/kinds/news/digest", `{"window":"144h","max":500}`, c, 200, `"max":500`},
			{"PUT", "/kinds/nope/digest", rule, c, 404, "could not be found"},
			{"PUT", "/kinds/news/digest", rule, other, 404, "could not be found"},
			{"PUT", "/kinds/news/digest", rule, admin, 403, ""},
			{"PUT", "/kinds/news/digest", rule, w.Client("shop", "notifications.write"), 403, ""},
			{"PUT", "/kinds/fire/digest", rule, c, 409, "is critical"},
			{"PUT", "/kinds/news/digest", `{}`, c, 422, `\"window\" must be a duration`},
			{"PUT", "/kinds/news/digest", `{"window":"1ms"}`, c, 422, `at least 1s and at most 144h`},
			{"PUT", "/kinds/news/digest", `{"window":"-1h"}`, c, 422, `\"window\"`},
			{"PUT", "/kinds/news/digest", `{"window":"145h"}`, c, 422, `\"window\"`},
			{"PUT", "/kinds/news/digest", `{"window":"1h","max":501}`, c, 422, `\"max\" must be a number from 2 to 500`},
			{"PUT", "/kinds/news/digest", `{"window":"1h","max":1}`, c, 422, `\"max\"`},
			{"PUT", "/kinds/news/digest", `{"window":"1h","max":-3}`, c, 422, `\"max\"`},
			{"PUT", "/kinds/news/digest", `{"window":"1h","key":"a..b"}`, c, 422, `\"key\"`},
			{"PUT", "/kinds/news/digest", `{"window":"1h","key":"` + strings.Repeat("k", 201) + `"}`, c, 422, `\"key\"`},
			{"PUT", "/kinds/news/digest", `{"window":"1h","key":"a\u0000"}`, c, 422, `\"key\"`},
			{"PUT", "/kinds/news/digest", `{"window":"1h","channels":["fax"]}`, c, 422, "is not a channel"},
			{"PUT", "/kinds/news/digest", `{"window":"1h","channels":["email","email"]}`, c, 422, "more than once"},
			{"PUT", "/kinds/news/digest", `{"window":1}`, c, 422, ""},
			{"PUT", "/kinds/news/digest", `[]`, c, 422, ""},
			{"PUT", "/kinds/news/digest", `{"choice":["monthly"]}`, c, 422, "may have at_once, hourly, daily, weekly"},
			{"PUT", "/kinds/news/digest", `{"choice":["daily","hourly"]}`, c, 200,
				`{"digest":{"max":100,"choice":["hourly","daily"]},"description":"not collected; users may choose hourly, daily"}`},
			{"PUT", "/kinds/news/throttle", `{"limit":1,"window":"1h","over":"digest"}`, c, 409, "has no digest"},
			{"PUT", "/kinds/news/digest", `{"window":"1h","max":500,"choice":["at_once"]}`, c, 200, `"choice":["at_once"]`},
			{"PUT", "/kinds/news/digest", `{`, c, 400, ""},
			{"GET", "/kinds/news/digest", "", c, 200, `"max":500`},
			{"DELETE", "/kinds/news/digest", "", other, 404, "could not be found"},
			{"DELETE", "/kinds/news/digest", "", w.Client("shop", "notifications.write"), 403, ""},
			{"DELETE", "/kinds/news/digest", "", c, 204, ""},
			{"DELETE", "/kinds/news/digest", "", c, 204, ""},
			{"GET", "/kinds/news/digest", "", c, 200, `"digest":null`},
		} {
			a := w.Expect(version, step.bearer, step.method, step.path, step.body, step.status, "")
			if !strings.Contains(a.Body, step.want) {
				t.Errorf("%s %s %.100s: %.300s, want %s", step.method, step.path, step.body, a.Body, step.want)
			}
		}
	}
}

// TestDigested follows a notification that is collected, and what each version shows of it.
func TestDigested(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Expect(1, c, "PUT", "/kinds/news/digest", `{"window":"1h"}`, 200, "")
	var answer []struct {
		ID     string `json:"notification_id"`
		Status string
	}
	a := w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","subject":"S","text":"t"}`, 200, "")
	if a.Into(&answer); len(answer) != 1 || answer[0].Status != "queued" {
		t.Fatalf("the send is answered by %s", a.Body)
	}
	w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","subject":"S2","text":"t"}`, 200, "")
	id := answer[0].ID
	check := func(when string, wants map[string]string) {
		t.Helper()
		for path, want := range wants {
			if a := w.Expect(1, c, "GET", path, "", 200, ""); !strings.Contains(a.Body, want) {
				t.Errorf("%s: %s: %s, want %s", when, path, a.Body, want)
			}
		}
	}
	claimed, err := w.Store.Claim(t.Context(), "w", 10, time.Minute)
	if err != nil || len(claimed) != 2 {
		t.Fatal(len(claimed), err)
	}
	var outcomes []notify.Outcome
	for _, m := range claimed {
		rule := *m.Send.DigestRule
		rule.Max = 2
		outcomes = append(outcomes, notify.Outcome{Number: m.Number, Status: notify.Queued,
			Entry: &notify.Entry{Rule: &rule}, At: time.Now()})
	}
	if _, err := w.Store.Finish(t.Context(), outcomes, nil); err != nil {
		t.Fatal(err)
	}
	check("collected", map[string]string{
		"/messages/" + id:               `{"status":"queued"}`,
		"/messages?id=" + id:            `"collected":true`,
		"/messages/" + id + "/timeline": `"event":"waiting","channel":"email"`,
	})
	closed, err := w.Store.CloseDigests(t.Context(), 10, func(c notify.Content) string { return c.Text })
	if closed.Digests != 1 || closed.Entries != 2 || err != nil {
		t.Fatal(closed, err)
	}
	check("digested", map[string]string{
		"/messages/" + id:                         `{"status":"queued"}`,
		"/messages?id=" + id:                      `"digest_id":"`,
		"/messages/" + id + "/timeline":           `"event":"digested","channel":"email","message_id":"` + id,
		"/messages?status=digested&user_id=u-1":   id,
		"/sends":                                  `"digest_entries":2`,
		"/messages?send=" + sendOf(t, w, c, 1):    `"status":"queued"`,
		"/sends/" + sendOf(t, w, c, 2):            `"digested":1,`,
		"/messages?status=queued&user_id=u-1":     `"status":"queued"`,
		"/sends/" + sendOf(t, w, c, 1):            `"subject":"2 notifications: `,
		"/messages?channel=email&status=digested": id,
		"/messages?status=digested&kind_id=news":  id,
	})
	last, err := w.Store.Claim(t.Context(), "w", 10, time.Minute)
	if err != nil || len(last) != 1 {
		t.Fatal(len(last), err)
	}
	if _, err := w.Store.Finish(t.Context(), []notify.Outcome{{Number: last[0].Number, Status: notify.Delivered,
		At: time.Now()}}, nil); err != nil {
		t.Fatal(err)
	}
	check("delivered", map[string]string{
		"/messages/" + id:               `{"status":"delivered"}`,
		"/messages/" + id + "/timeline": `"event":"delivered"`,
	})
	manager := w.Client("shop", "notifications.write", "notifications.manage")
	a = w.Expect(1, manager, "GET", "/recipient_data?user_id=u-1", "", 200, "")
	if want := `"digest":{"count":2,"items":[{"at":`; !strings.Contains(a.Body, want) {
		t.Errorf("what is stored about the recipient: %s, want %s", a.Body, want)
	}
	w.Expect(1, c, "POST", "/webhooks", `{"url":"https://example.com","events":["digested"]}`, 422, "")
}

// sendOf returns the id of the n-th newest send.
func sendOf(t *testing.T, w *apitest.World, bearer string, n int) string {
	t.Helper()
	var list struct{ Sends []struct{ ID string } }
	w.Expect(1, bearer, "GET", "/sends", "", 200, "").Into(&list)
	if len(list.Sends) < n {
		t.Fatal(fmt.Sprint(len(list.Sends), " sends"))
	}
	return list.Sends[n-1].ID
}
