package httpv1_test

import (
	"strings"
	"testing"

	"ingot/internal/notify/apitest"
)

const goodRegistration = `{"source_name":"Shop","notifications":{"news":{"description":"News"},"fire":{"description":"Fire","critical":true}}}`

func TestRegister(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client("shop")
	w.Expect(1, c, "PUT", "/notifications", goodRegistration, 204, "")

	for body, want := range map[string]string{
		``:                          "400 Request body could not be parsed",
		`{`:                         "400 Request body could not be parsed",
		`[]`:                        "400 Request body could not be parsed",
		`null`:                      "400 Request body could not be parsed",
		goodRegistration + `x`:      "400 Request body could not be parsed",
		`{"source_name":1}`:         "400 Request body could not be parsed",
		`{"source_name":"x","b":1}`: `400 "b" is not a valid property`,
		`{"Source_Name":"x"}`:       `400 "Source_Name" is not a valid property`,
		`{"source_name":"x","notifications":null}`:                            `400 only include "notifications" key when adding a notification`,
		`{"source_name":"x","notifications":{"a":null}}`:                      `400 notification must not be null`,
		`{"source_name":"x","notifications":{"a":{"description":"d","x":1}}}`: `400 "x" is not a valid property`,
		`{"source_name":"x","notifications":{"a":{"description":"d","critical":"true"}}}`: "400 Request body could not be " +
			"parsed",
		`{}`:                         `422 "source_name" is a required field`,
		`{"source_name":""}`:         `422 "source_name" is a required field`,
		`{"notifications":{"a":{}}}`: `422 "source_name" is a required field, notification "a" is missing required field "Description"`,
		`{"source_name":"x","notifications":{"":{"description":"d"}}}`: `422 notification "" is missing required field "ID"`,
	} {
		a := w.Call(1, c, "PUT", "/notifications", body)
		if got := statusAnd(a); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	var all map[string]struct {
		Name          string
		Template      string
		Notifications map[string]struct {
			Description, Template string
			Critical              bool
		}
	}
	w.Expect(1, c, "GET", "/notifications", "", 200, "").Into(&all)
	shop := all["shop"]
	if shop.Name != "Shop" || shop.Template != "default" || len(shop.Notifications) != 2 ||
		!shop.Notifications["fire"].Critical || shop.Notifications["news"].Template != "default" {
		t.Errorf("registered: %+v", all)
	}
}

func statusAnd(a apitest.Answer) string {
	return strings.TrimSpace(strings.Join([]string{itoa(a.Status), a.Message()}, " "))
}

func itoa(n int) string {
	return string([]byte{byte('0' + n/100), byte('0' + n/10%10), byte('0' + n%10)})
}

func TestKindsLeftOutAreDeleted(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client("shop")
	kinds := func() string {
		var all map[string]struct{ Notifications map[string]any }
		w.Expect(1, c, "GET", "/notifications", "", 200, "").Into(&all)
		var ids []string
		for _, id := range []string{"a", "b"} {
			if _, ok := all["shop"].Notifications[id]; ok {
				ids = append(ids, id)
			}
		}
		return strings.Join(ids, ",")
	}
	for _, step := range []struct{ path, body, want string }{
		{"/notifications", `{"source_name":"x","notifications":{"a":{"description":"d"},"b":{"description":"d"}}}`, "a,b"},
		{"/notifications", `{"source_name":"x"}`, "a,b"},
		{"/notifications", `{"source_name":"x","notifications":{}}`, "a,b"},
		{"/notifications", `{"source_name":"x","notifications":{"a":{"description":"d"}}}`, "a"},
		{"/registration", `{"source_description":"x","kinds":[{"id":"b","description":"d"}],"more":1}`, "b"},
		{"/registration", `{"source_description":"x"}`, "b"},
		{"/registration", `{"source_description":"x","kinds":[]}`, ""},
	} {
		if a := w.Call(1, c, "PUT", step.path, step.body); a.Status != 204 && a.Status != 200 {
			t.Errorf("answer to %s is %d %s, want 204 or 200", step.body, a.Status, a.Body)
		}
		if got := kinds(); got != step.want {
			t.Errorf("after %s: %q, want %q", step.body, got, step.want)
		}
	}
	w.Expect(1, c, "PUT", "/registration", `{"kinds":[{"id":"a b"}]}`, 422,
		`"source_description" is a required field, "kind.id" is improperly formatted, "kind.description" is a required field`)
	w.Expect(1, c, "PUT", "/registration", `{"source_description":"x","kinds":[{}]}`, 422,
		`"kind.id" is a required field, "kind.description" is a required field`)
}

func TestCriticalNeedsItsScopeOnEveryRoute(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	plain := w.Client("shop", "notifications.manage", "notifications.write")
	const refused = "UAA Scopes Error: Client does not have authority to register critical notifications."
	w.Expect(1, plain, "PUT", "/notifications", goodRegistration, 422, refused)
	w.Expect(1, plain, "PUT", "/registration",
		`{"source_description":"x","kinds":[{"id":"a","description":"d","critical":true}]}`, 422, refused)
	w.Expect(1, plain, "PUT", "/notifications", `{"source_name":"x","notifications":{"news":{"description":"d"}}}`, 204,
		"")
	change := `{"description":"d","critical":true,"template":"default"}`
	w.Expect(1, plain, "PUT", "/clients/shop/notifications/news", change, 422, refused)
	full := w.Client("shop")
	w.Expect(1, full, "PUT", "/clients/shop/notifications/news", change, 204, "")
	w.Expect(1, full, "POST", "/users/u", `{"kind_id":"news","text":"t"}`, 200, "")
	w.Expect(1, plain, "POST", "/users/u", `{"kind_id":"news","text":"t"}`, 422,
		"Insufficient privileges to send notification news")
}

func TestUpdateKind(t *testing.T) {
	t.Parallel()
	w := apitest.New(t)
	c := w.Client("shop")
	w.Expect(1, c, "PUT", "/notifications", goodRegistration, 204, "")
	for body, want := range map[string]string{
		`{"description":"d","critical":false,"template":""}`:        "204",
		`{"description":null,"critical":null,"template":null}`:      "204",
		`{"description":"d","critical":false}`:                      "422 Missing required field 'template'",
		`{"critical":false,"template":""}`:                          "422 Missing required field 'description'",
		`{"description":"d","template":""}`:                         "422 Missing required field 'critical'",
		`{"description":"d","critical":false,"template":"","x":1}`:  "400 Request body could not be parsed",
		`{"description":"d","critical":"no","template":""}`:         "400 Request body could not be parsed",
		`{"description":"d","critical":false,"template":"missing"}`: `422 No template with id "missing"`,
		`nonsense`: "400 Request body could not be parsed",
	} {
		if got := statusAnd(w.Call(1, c, "PUT", "/clients/shop/notifications/news", body)); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
	w.Expect(1, c, "PUT", "/clients/shop/notifications/zz", `{"description":"d","critical":false,"template":""}`, 404,
		`Notification with ID "zz" belonging to client "shop" could not be found`)
}
