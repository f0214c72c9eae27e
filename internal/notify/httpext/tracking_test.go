package httpext_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
	"ingot/internal/notify/apitest"
	"ingot/internal/notify/tracking"
)

// TestTrackingOfKinds sets what is counted of a kind.
func TestTrackingOfKinds(t *testing.T) {
	t.Parallel()
	w, shop := world(t)
	const path = "/kinds/news/tracking"
	none := `{"opens":false,"clicks":false,"description":"neither opens nor clicks are counted"}`
	for _, c := range []struct {
		method, path, body string
		status             int
		answer             string
	}{
		{"GET", path, "", 200, none},
		{"PUT", path, `{"opens":true}`, 200, `"opens are counted, of mail to recipients who allow it"`},
		{"PUT", path, `{"clicks":true}`, 200, `"clicks are counted, of mail to recipients who allow it"`},
		{"PUT", path, `{"opens":true,"clicks":true}`, 200, `"opens":true,"clicks":true`},
		{"GET", path, "", 200, `"opens and clicks are counted`},
		{"PUT", path, `{}`, 422, "must be true"},
		{"PUT", path, `{"opens":false}`, 422, "must be true"},
		{"PUT", path, `{"opens":"yes"}`, 422, "must be a boolean"},
		{"PUT", path, `{"open":true}`, 422, "Unknown field"},
		{"PUT", "/kinds/fire/tracking", `{"opens":true}`, 409, "is critical"},
		{"PUT", "/kinds/other/tracking", `{"opens":true}`, 404, "other"},
		{"GET", "/kinds/other/tracking", "", 404, "other"},
		{"DELETE", "/kinds/other/tracking", "", 404, "other"},
		{"DELETE", path, "", 204, ""},
		{"GET", path, "", 200, none},
	} {
		for _, version := range []int{1, 2} {
			if a := w.Expect(version, shop, c.method, c.path, c.body, c.status, ""); !strings.Contains(a.Body, c.answer) {
				t.Errorf("%s %s %s: %s, want %s in it", c.method, c.path, c.body, a.Body, c.answer)
			}
		}
	}
	w.Expect(1, w.Client("shop", "notifications.write"), "PUT", path, `{"opens":true}`, 403, "")
}

// tracked is a message to a user of a kind of which both are counted.
func tracked(t *testing.T) (w *apitest.World, shop string, number int64) {
	t.Helper()
	w, shop = world(t)
	w.Expect(1, shop, "PUT", "/kinds/news/tracking", `{"opens":true,"clicks":true}`, 200, "")
	w.Expect(1, shop, "POST", "/users/u-1", `{"kind_id":"news","text":"t"}`, 200, "")
	claimed, err := w.Store.Claim(t.Context(), "w", 10, time.Hour)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	o := notify.Outcome{Number: claimed[0].Number, Status: notify.Delivered, At: time.Now(), Attempted: true,
		Email: "u1@example.com", TemplateID: "t", TemplateVersion: 3}
	if _, err := w.Store.Finish(t.Context(), []notify.Outcome{o}, nil); err != nil {
		t.Fatal(err)
	}
	return w, shop, o.Number
}

func allow(t *testing.T, w *apitest.World, may string) {
	t.Helper()
	w.Expect(1, w.Client("support", "notification_preferences.admin"), "PATCH", "/preferences/u-1",
		`{"clients":{"shop":{"kinds":{"news":{"tracking":`+may+`}}}}}`, 200, "")
}

// visit requests a link or an image, with headers.
func visit(t *testing.T, w *apitest.World, path string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	out := httptest.NewRecorder()
	w.Handler(1).ServeHTTP(out, r)
	return out
}

const offer = "https://shop.example/offer?id=1#top"

func paths(w *apitest.World, number int64) (link, image string) {
	k := tracking.Mark{Number: number, Type: notify.Clicked, TemplateID: "t", Version: 3, Target: offer}
	link = tracking.LinkPath + w.Marker.Seal(k)
	k.Type, k.Target = notify.Opened, ""
	return link, tracking.ImagePath + w.Marker.Seal(k)
}

// countedOf returns opened, clicked, opens and clicks of the kind.
func countedOf(t *testing.T, w *apitest.World, shop string) [4]int64 {
	t.Helper()
	var f figures
	w.Expect(1, shop, "GET", "/figures?by=template&template_id=t", "", 200, "").Into(&f)
	if len(f.Groups) == 0 {
		return [4]int64{}
	}
	of := f.Groups[0].Figures
	return [4]int64{f.last(of, "opened"), f.last(of, "clicked"), f.last(of, "opens"), f.last(of, "clicks")}
}

// Visits lead to the target in any case, and count only while the recipient allows it and does not object.
func TestVisits(t *testing.T) {
	t.Parallel()
	w, shop, number := tracked(t)
	link, image := paths(w, number)
	both := func(headers ...string) {
		t.Helper()
		a := visit(t, w, link, headers...)
		if a.Code != http.StatusFound || a.Header().Get("Location") != offer ||
			a.Header().Get("Cache-Control") != "no-store" || a.Header().Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("the link answers %d with %v", a.Code, a.Header())
		}
		b := visit(t, w, image, headers...)
		if b.Code != http.StatusOK || b.Header().Get("Content-Type") != "image/gif" ||
			!strings.HasPrefix(b.Body.String(), "GIF89a") || b.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("the image answers %d with %v", b.Code, b.Header())
		}
	}
	expect := func(what string, want [4]int64) {
		t.Helper()
		if got := countedOf(t, w, shop); got != want {
			t.Errorf("%s: counted %v, want %v", what, got, want)
		}
	}
	both()
	expect("without consent", [4]int64{})
	allow(t, w, "true")
	both()
	expect("with consent", [4]int64{1, 1, 1, 1})
	both()
	expect("again", [4]int64{1, 1, 2, 2})
	for _, headers := range [][]string{{"DNT", "1"}, {"Sec-GPC", "1"}, {"Sec-Purpose", "prefetch"},
		{"Purpose", "prefetch"}, {"X-Purpose", "preview"}, {"X-Moz", "prefetch"}} {
		both(headers...)
		expect(headers[0], [4]int64{1, 1, 2, 2})
	}
	both("DNT", "0")
	expect("no objection", [4]int64{1, 1, 3, 3})
	data := w.Expect(1, shop, "GET", "/recipient_data?user_id=u-1", "", 200, "")
	if !strings.Contains(data.Body, `"tracking":true`) || !strings.Contains(data.Body, `"opened":{"first_at":`) ||
		!strings.Contains(data.Body, `"clicked":{`) {
		t.Errorf("what is stored of the recipient is %s, want opens and clicks", data.Body)
	}
	allow(t, w, "false")
	both()
	expect("consent is taken back", [4]int64{1, 1, 3, 3})
	allow(t, w, "true")
	w.Expect(1, w.Client("support", "notification_preferences.admin"), "PATCH", "/preferences/u-1",
		`{"global_unsubscribe":true}`, 200, "")
	both()
	expect("unsubscribed from everything", [4]int64{1, 1, 3, 3})
	w.Expect(1, w.Client("support", "notification_preferences.admin"), "PATCH", "/preferences/u-1",
		`{"global_unsubscribe":false}`, 200, "")
	w.Expect(1, shop, "POST", "/erasures", `{"user_id":"u-1"}`, 200, "")
	both()
	expect("erased", [4]int64{1, 1, 3, 3})
	if got := w.Expect(1, shop, "GET", "/recipient_data?user_id=u-1", "", 200, "").Body; strings.Contains(got, "opened") ||
		strings.Contains(got, `"tracking"`) {
		t.Errorf("after an erasure, %s is stored", got)
	}
	unknown, pixel := paths(w, notify.MessageNumber(1<<30, 0))
	if a, b := visit(t, w, unknown), visit(t, w, pixel); a.Header().Get("Location") != offer || b.Code != http.StatusOK {
		t.Errorf("the mail of a purged message leads to %d and %d", a.Code, b.Code)
	}
}

// There is no address that leads where a caller wants.
func TestNoOpenRedirect(t *testing.T) {
	t.Parallel()
	w, _, number := tracked(t)
	link, image := paths(w, number)
	mark := strings.TrimPrefix(link, tracking.LinkPath)
	for _, path := range []string{
		tracking.LinkPath + "x", tracking.LinkPath + mark[:len(mark)-1], tracking.LinkPath + mark + "A",
		tracking.LinkPath + strings.TrimPrefix(image, tracking.ImagePath), tracking.ImagePath + mark,
		tracking.LinkPath + "https:%2F%2Fevil.example", tracking.ImagePath + "x.gif",
	} {
		a := visit(t, w, path)
		if a.Code != http.StatusNotFound || a.Header().Get("Location") != "" {
			t.Errorf("%s: answers %d to %q", path, a.Code, a.Header().Get("Location"))
		}
	}
	a := visit(t, w, link+"?url=https://evil.example&to=https://evil.example")
	if a.Header().Get("Location") != offer {
		t.Errorf("a parameter leads to %q", a.Header().Get("Location"))
	}
}

// One address cannot flood the public paths, and does not stop others.
func TestVisitsAreLimited(t *testing.T) {
	t.Parallel()
	w, _, number := tracked(t)
	_, image := paths(w, number)
	from := func(address string) int {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, image, http.NoBody)
		r.RemoteAddr = address
		out := httptest.NewRecorder()
		w.Handler(1).ServeHTTP(out, r)
		return out.Code
	}
	limited := false
	for range 100_000 {
		if from("203.0.113.9:1") == http.StatusTooManyRequests {
			limited = true
			break
		}
	}
	if !limited {
		t.Error("no request was refused")
	}
	if got := from("203.0.113.10:1"); got != http.StatusOK {
		t.Errorf("another address gets %d", got)
	}
}

// TestConsent sees where a user may choose, and that version 1 shows nothing of it.
func TestConsent(t *testing.T) {
	t.Parallel()
	w, shop, _ := tracked(t)
	support := w.Client("support", "notification_preferences.admin")
	change := func(kind, may string, status int, answer string) {
		t.Helper()
		a := w.Expect(2, support, "PATCH", "/preferences/u-1",
			`{"clients":{"shop":{"kinds":{"`+kind+`":{"tracking":`+may+`}}}}}`, status, "")
		if !strings.Contains(a.Body, answer) {
			t.Errorf("%s: the answer is %s, want %s in it", kind, a.Body, answer)
		}
	}
	if got := w.Expect(1, support, "GET", "/preferences/u-1", "", 200, "").Body; !strings.Contains(got, `"tracking":false`) {
		t.Errorf("preferences are %s", got)
	}
	change("news", "true", 200, `"tracking":true`)
	change("news", `"yes"`, 422, "must be a boolean")
	change("fire", "true", 422, "critical")
	w.Expect(1, shop, "DELETE", "/kinds/news/tracking", "", 204, "")
	if got := w.Expect(1, support, "GET", "/preferences/u-1", "", 200, "").Body; !strings.Contains(got, `"tracking":true`) {
		t.Errorf("preferences are %s", got)
	}
	change("news", "false", 200, "")
	if got := w.Expect(1, support, "GET", "/preferences/u-1", "", 200, "").Body; strings.Contains(got, "tracking") {
		t.Errorf("preferences are %s, want no choice where nothing is counted", got)
	}
	change("news", "true", 422, "counts neither opens nor clicks")
	user := w.User("u-1", "notification_preferences.read")
	if got := w.Expect(1, user, "GET", "/user_preferences", "", 200, "").Body; strings.Contains(got, "tracking") {
		t.Errorf("version 1 shows %s", got)
	}
}
