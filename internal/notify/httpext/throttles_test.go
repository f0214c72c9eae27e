package httpext_test

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
)

// TestThrottleRules sets, shows and deletes the limits of kinds. Each answer is compared with the description.
func TestThrottleRules(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		w, c := world(t)
		admin, other := w.Client("ops", "notifications.admin"), w.Client("other", "notifications.manage")
		const rule, path, digest = `{"limit":3,"window":"1h","over":"drop","channels":["email"]}`, "/kinds/news/throttle",
			"/kinds/news/digest"
		for _, step := range []struct {
			method, path, body, bearer string
			status                     int
			want                       string
		}{
			{"GET", path, "", c, 200, `{"throttle":null,"description":"not limited"}`},
			{"PUT", path, rule, c, 200, `"email at most 3 in 1h, others dropped"`},
			{"GET", path, "", c, 200, `{"throttle":` + rule},
			{"GET", path + "?client_id=shop", "", admin, 200, rule},
			{"GET", path + "?client_id=shop", "", other, 403, "notifications.admin"},
			{"GET", path, "", other, 404, "could not be found"},
			{"GET", path, "", w.Client("shop", "notifications.write"), 403, ""},
			{"PUT", path, `{"limit":1,"window":"90s"}`, c, 200, `{"limit":1,"window":"1m30s","over":"drop"}`},
			{"PUT", path, `{"limit":100,"window":"144h"}`, c, 200, `"limit":100`},
			{"PUT", "/kinds/nope/throttle", rule, c, 404, "could not be found"},
			{"PUT", path, rule, other, 404, "could not be found"},
			{"PUT", path, rule, admin, 403, ""},
			{"PUT", path, rule, w.Client("shop", "notifications.write"), 403, ""},
			{"PUT", "/kinds/fire/throttle", rule, c, 409, "is critical"},
			{"PUT", path, `{}`, c, 422, `\"limit\" must be a number from 1 to 100`},
			{"PUT", path, `{"limit":101,"window":"1h"}`, c, 422, `\"limit\"`},
			{"PUT", path, `{"limit":-1,"window":"1h"}`, c, 422, `\"limit\"`},
			{"PUT", path, `{"limit":1.5,"window":"1h"}`, c, 422, ""},
			{"PUT", path, `{"limit":3}`, c, 422, `\"window\" must be a duration`},
			{"PUT", path, `{"limit":3,"window":"999ms"}`, c, 422, `at least 1s and at most 144h`},
			{"PUT", path, `{"limit":3,"window":"145h"}`, c, 422, `\"window\"`},
			{"PUT", path, `{"limit":3,"window":"1h","over":"wait"}`, c, 422, `\"over\" must be`},
			{"PUT", path, `{"limit":3,"window":"1h","channels":["fax"]}`, c, 422, "is not a channel"},
			{"PUT", path, `[]`, c, 422, ""},
			{"PUT", path, `{`, c, 400, ""},
			{"PUT", path, `{"limit":3,"window":"1h","over":"digest"}`, c, 409, "The kind has no digest"},
			{"PUT", digest, `{"window":"1h","channels":["inbox"]}`, c, 409, "collects all messages by inbox"},
			{"PUT", path, rule, c, 200, ""},
			{"PUT", digest, `{"window":"1h","channels":["inbox"]}`, c, 200, ""},
			{"PUT", digest, `{"window":"1h"}`, c, 409, "collects all messages by email"},
			{"PUT", path, `{"limit":3,"window":"1h","over":"digest"}`, c, 409, "does not collect messages by email"},
			{"PUT", path, `{"limit":3,"window":"1h","over":"digest","channels":["inbox"]}`, c, 200, "others collected"},
			{"PUT", digest, `{"window":"1h"}`, c, 200, ""},
			{"DELETE", digest, "", c, 409, "delete the throttle before the digest"},
			{"PUT", digest, `{"window":"1h","channels":["email"]}`, c, 409, "does not collect messages by inbox"},
			{"DELETE", path, "", other, 404, "could not be found"},
			{"DELETE", path, "", w.Client("shop", "notifications.write"), 403, ""},
			{"DELETE", path, "", c, 204, ""},
			{"DELETE", path, "", c, 204, ""},
			{"DELETE", digest, "", c, 204, ""},
			{"GET", path, "", c, 200, `"throttle":null`},
		} {
			a := w.Expect(version, step.bearer, step.method, step.path, step.body, step.status, "")
			if !strings.Contains(a.Body, step.want) {
				t.Errorf("%s %s %.100s: %.300s, want %s", step.method, step.path, step.body, a.Body, step.want)
			}
		}
	}
}

// TestRetention sets, shows and deletes how long messages of kinds are kept.
func TestRetention(t *testing.T) {
	t.Parallel()
	for version := 1; version <= 2; version++ {
		w, c := world(t)
		w.Directory.Users["u-1"] = "u1@example.com"
		admin, other := w.Client("ops", "notifications.admin"), w.Client("other", "notifications.manage")
		const path, none = "/kinds/news/retention", `{"retention":null,"description":"kept for 7d, as the server keeps all"}`
		for _, step := range []struct {
			method, path, body, bearer string
			status                     int
			want                       string
		}{
			{"GET", path, "", c, 200, none},
			{"PUT", path, `{"retention":"72h"}`, c, 200, `{"retention":"3d","description":"kept for 3d"}`},
			{"GET", path, "", c, 200, `{"retention":"3d","description":"kept for 3d"}`},
			{"GET", path + "?client_id=shop", "", admin, 200, `"3d"`},
			{"GET", path + "?client_id=shop", "", other, 403, "notifications.admin"},
			{"GET", path, "", other, 404, "could not be found"},
			{"GET", path, "", w.Client("shop", "notifications.write"), 403, ""},
			{"PUT", path, `{"retention":"400d"}`, c, 200, `"400d"`},
			{"PUT", path, `{"retention":"1h"}`, c, 200, `{"retention":"1h","description":"kept for 1h"}`},
			{"PUT", "/kinds/fire/retention", `{"retention":"1h"}`, c, 200, "1h"}, // it is critical
			{"PUT", "/kinds/nope/retention", `{"retention":"1h"}`, c, 404, "could not be found"},
			{"PUT", path, `{"retention":"1h"}`, other, 404, "could not be found"},
			{"PUT", path, `{"retention":"1h"}`, admin, 403, ""},
			{"PUT", path, `{"retention":"1h"}`, w.Client("shop", "notifications.write"), 403, ""},
			{"PUT", path, `{"retention":"401d"}`, c, 422,
				`\"retention\" must be whole hours or days, such as 36h or 90d, at least 1h and at most 400d`},
			{"PUT", path, `{"retention":"59m"}`, c, 422, "at least 1h"},
			{"PUT", path, `{"retention":"0h"}`, c, 422, "at least 1h"},
			{"PUT", path, `{"retention":"999999999999999999999d"}`, c, 422, "at most 400d"},
			{"PUT", path, `{"retention":""}`, c, 422, ""},
			{"PUT", path, `{}`, c, 422, ""},
			{"PUT", path, `{"retention":3600}`, c, 422, ""},
			{"PUT", path, `{"retention":"1h","over":1}`, c, 422, ""},
			{"PUT", path, `[]`, c, 422, ""},
			{"PUT", path, `{`, c, 400, ""},
			{"DELETE", path, "", other, 404, "could not be found"},
			{"DELETE", path, "", w.Client("shop", "notifications.write"), 403, ""},
			{"DELETE", path, "", c, 204, ""},
			{"DELETE", path, "", c, 204, ""},
			{"GET", path, "", c, 200, none},
		} {
			a := w.Expect(version, step.bearer, step.method, step.path, step.body, step.status, "")
			if !strings.Contains(a.Body, step.want) {
				t.Errorf("%s %s %.100s: %.300s, want %s", step.method, step.path, step.body, a.Body, step.want)
			}
		}
		w.Expect(version, c, "PUT", path, `{"retention":"2d"}`, 200, "")
		w.Expect(version, c, "POST", "/sends", `{"kind_id":"news","text":"t","audience":{"type":"user","id":"u-1"}}`, 202, "")
		claimed, err := w.Store.Claim(t.Context(), "w", 10, 0)
		if err != nil || len(claimed) != 1 || claimed[0].Send.Kept != 48*time.Hour {
			t.Errorf("claimed %+v, %v", claimed, err)
		}
	}
}

// TestThrottled shows a message over the limit in each version, and registers its kind as critical.
func TestThrottled(t *testing.T) {
	t.Parallel()
	w, c := world(t)
	w.Directory.Users["u-1"] = "u1@example.com"
	w.Expect(1, c, "PUT", "/kinds/news/throttle", `{"limit":1,"window":"1h"}`, 200, "")
	var sent []struct {
		ID string `json:"notification_id"`
	}
	w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"news","text":"t"}`, 200, "").Into(&sent)
	claimed, err := w.Store.Claim(t.Context(), "w", 10, 0)
	if err != nil || len(claimed) != 1 || claimed[0].Send.ThrottleRule.String() != "at most 1 in 1h, others dropped" {
		t.Fatalf("%+v, %v", claimed, err)
	}
	if _, err := w.Store.Finish(t.Context(), []notify.Outcome{{Number: claimed[0].Number, Status: notify.Throttled,
		At: claimed[0].Updated}}, nil); err != nil {
		t.Fatal(err)
	}
	id := sent[0].ID
	for _, look := range []struct{ path, want string }{
		{"/messages?status=throttled&user_id=u-1", id},
		{"/messages/" + id + "/timeline", `"event":"throttled"`},
		{"/sends/" + sendOf(t, w, c, 1), `"throttled":1`},
	} {
		if a := w.Expect(2, c, "GET", look.path, "", 200, ""); !strings.Contains(a.Body, look.want) {
			t.Errorf("%s: %s, want %s", look.path, a.Body, look.want)
		}
	}
	if a := w.Expect(1, c, "GET", "/messages/"+id, "", 200, ""); !strings.Contains(a.Body, `"status":"undeliverable"`) {
		t.Errorf("version 1 shows %s", a.Body)
	}
	w.Expect(1, c, "POST", "/webhooks", `{"url":"https://example.com","events":["throttled"]}`, 422, "")
	w.Expect(1, c, "PUT", "/notifications",
		`{"source_name":"Shop","notifications":{"news":{"description":"News","critical":true}}}`, 204, "")
	if a := w.Expect(1, c, "GET", "/kinds/news/throttle", "", 200, ""); !strings.Contains(a.Body, "not limited, because") {
		t.Errorf("a critical kind: %s", a.Body)
	}
}
