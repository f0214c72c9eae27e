package httpv1_test

import (
	"strings"
	"testing"
	"time"

	"ingot/internal/notify"
)

func TestPreferences(t *testing.T) {
	t.Parallel()
	w, c := registered(t)
	user := w.User("u-1", "notification_preferences.read", "notification_preferences.write")
	admin := w.Client("support", "notification_preferences.admin")
	show := func() string {
		t.Helper()
		a := w.Expect(1, user, "GET", "/user_preferences", "", 200, "")
		if b := w.Expect(1, admin, "GET", "/user_preferences/u-1", "", 200, ""); b.Body != a.Body {
			t.Errorf("the user sees %s, the administrator %s", a.Body, b.Body)
		}
		if a.Header.Get("Access-Control-Allow-Origin") != "*" ||
			a.Header.Get("Access-Control-Allow-Methods") != "GET, PATCH" {
			t.Errorf("CORS headers: %v", a.Header)
		}
		return strings.TrimSpace(a.Body)
	}
	if got := show(); got != `{"clients":{},"global_unsubscribe":false}` {
		t.Errorf("nothing was ever sent: %s", got)
	}

	// A receipt of any kind makes all kinds of the client that are not critical
	// appear.
	w.Expect(1, c, "POST", "/users/u-1", `{"kind_id":"fire","text":"t"}`, 200, "")
	claimed, err := w.Store.Claim(t.Context(), "test", 10, time.Minute)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("%d claimed, %v", len(claimed), err)
	}
	if _, err := w.Store.Finish(t.Context(), []notify.Outcome{{Number: claimed[0].Number, Status: notify.Delivered,
		Attempted: true, At: time.Now()}}, nil); err != nil {
		t.Fatal(err)
	}
	received := `{"clients":{"shop":{"news":{"email":true,"kind_description":"News","source_description":"Shop"}}},"global_unsubscribe":false}`
	if got := show(); got != received {
		t.Errorf("after a receipt: %s", got)
	}

	patch := func(body, want string) {
		t.Helper()
		for path, bearer := range map[string]string{"/user_preferences": user, "/user_preferences/u-1": admin} {
			if got := statusAnd(w.Call(1, bearer, "PATCH", path, body)); !strings.HasPrefix(got, want) {
				t.Errorf("PATCH %s %s: %s, want %s", path, body, got, want)
			}
		}
	}
	patch(`{"global_unsubscribe":true,"clients":{"shop":{"news":{"email":false,"count":3,"kind_description":"x"}}}}`,
		"204")
	off := strings.NewReplacer(`"email":true`, `"email":false`, `unsubscribe":false`, `unsubscribe":true`).
		Replace(received)
	if got := show(); got != off {
		t.Errorf("unsubscribed: %s", got)
	}
	patch(`{"clients":{"shop":{"news":{"email":true}}}}`, "204")
	patch(`{}`, "204")
	if got := show(); got != strings.Replace(off, `"email":false`, `"email":true`, 1) {
		t.Errorf("a change that does not mention it must leave the global wish alone: %s", got)
	}
	patch(`{"global_unsubscribe":false,"x":1}`, `422 Extra field "x" is not valid`)
	patch(`{"global_unsubscribe":"no"}`, `422 `)
	patch(``, `422 `)
	patch(`{"clients":`, `422 `)
	patch(`{"global_unsubscribe":false,"clients":{"shop":{}}}`, "422 Missing kinds")
	patch(`{"global_unsubscribe":false,"clients":{"shop":{"news":{}}}}`, "422 Missing the email field")
	patch(`{"global_unsubscribe":false,"clients":{"shop":{"zz":{"email":true}}}}`,
		"422 The kind 'zz' cannot be found for client 'shop'")
	patch(`{"global_unsubscribe":false,"clients":{"shop":{"fire":{"email":true}}}}`,
		"422 The kind 'fire' for the 'shop' client is critical and cannot be unsubscribed from")
	if got := show(); !strings.Contains(got, `"global_unsubscribe":true`) {
		t.Errorf("a refused change must change nothing: %s", got)
	}

	w.Expect(1, w.Client("c", "notification_preferences.read"), "GET", "/user_preferences", "", 422,
		"Missing user_id from token claims.")
	for _, path := range []string{"/user_preferences", "/user_preferences/u-1"} {
		if a := w.Expect(1, "", "OPTIONS", path, "", 204,
			""); a.Header.Get("Access-Control-Allow-Headers") != "Accept, Authorization, Content-Type" {
			t.Errorf("preflight: %v", a.Header)
		}
		if a := w.Expect(1, "", "GET", path, "", 401, ""); a.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("a refusal without CORS headers: %v", a.Header)
		}
	}
}
