package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// TestSoakNotificationsServiceSurvivesKill kills the server at any moment of a
// bind and an unbind of the notifications offering. Afterwards, bindings have
// credentials that work, and deleted bindings have no OAuth client.
func TestSoakNotificationsServiceSurvivesKill(t *testing.T) {
	t.Parallel()
	s := start(t, options{Args: []string{"--demo"}})
	token := s.adminToken(t)
	site := &site{s}
	space := site.list(t, token, "/v3/spaces")[0]["guid"].(string)
	plans := site.list(t, token, "/v3/service_plans?names=default&service_offering_names=notifications")
	if len(plans) != 1 {
		t.Fatalf("plans of notifications: %v", plans)
	}
	relation := func(guid string) map[string]any { return map[string]any{"data": map[string]string{"guid": guid}} }
	s.call(t, http.MethodPost, "/v3/service_instances", token, map[string]any{"type": "managed", "name": "mail",
		"relationships": map[string]any{"space": relation(space), "service_plan": relation(plans[0]["guid"].(string))}}).
		want(t, http.StatusAccepted)
	var instance string
	testkit.Eventually(t, "the instance is created", func() bool {
		all := site.list(t, token, "/v3/service_instances?names=mail")
		instance = all[0]["guid"].(string)
		return all[0]["last_operation"].(map[string]any)["state"] == "succeeded"
	})

	// killing sends a request and kills the server soon after. It reports whether
	// the client got a response that the request was accepted.
	killing := func(method, path string, body any) bool {
		t.Helper()
		answered := make(chan bool, 1)
		go func() {
			r, err := s.try(method, s.API+path, token, body)
			answered <- err == nil && r.Status == http.StatusAccepted
		}()
		delay := time.Duration(rand.IntN(60)) * time.Millisecond //nolint:gosec // not a secret
		t.Logf("%s %s, killed after %s", method, path, delay)
		time.Sleep(delay) //nolint:forbidigo // a random moment
		s.Kill9(t)
		accepted := <-answered
		s.Restart(t)
		return accepted
	}
	// bindings returns the bindings when no operation is in progress.
	bindings := func() (all []map[string]any) {
		t.Helper()
		testkit.Eventually(t, "all operations end", func() bool {
			all = site.list(t, token, "/v3/service_credential_bindings?service_instance_guids="+instance)
			return !slices.ContainsFunc(all, func(b map[string]any) bool {
				return b["last_operation"].(map[string]any)["state"] == "in progress"
			})
		})
		return all
	}
	// compare checks that the clients are those of the bindings, and that they work.
	compare := func() {
		t.Helper()
		var want []string
		for _, b := range bindings() {
			if state := b["last_operation"].(map[string]any)["state"]; state != "succeeded" {
				t.Errorf("a binding is left as %s: %v", state, b)
				continue
			}
			path := "/v3/service_credential_bindings/" + b["guid"].(string) + "/details"
			credentials := s.call(t, http.MethodGet, path, token, nil).want(t, http.StatusOK).
				object(t)["credentials"].(map[string]any)
			id, secret := credentials["client_id"].(string), credentials["client_secret"].(string)
			s.askToken(t, id, secret, url.Values{"grant_type": {"client_credentials"}}).want(t, http.StatusOK)
			want = append(want, id)
		}
		slices.Sort(want)
		testkit.Eventually(t, fmt.Sprintf("the OAuth clients of bindings are %q", want), func() bool {
			var got []string
			for id := range s.all(t, "/oauth/clients", token, "client_id") {
				if strings.HasPrefix(id, "notifications-") {
					got = append(got, id)
				}
			}
			slices.Sort(got)
			return slices.Equal(got, want)
		})
	}
	for round := range times(2, 60) {
		name := fmt.Sprint("key-", round)
		accepted := killing(http.MethodPost, "/v3/service_credential_bindings", map[string]any{"type": "key", "name": name,
			"relationships": map[string]any{"service_instance": relation(instance)}})
		all := bindings()
		if accepted && len(all) != 1 {
			t.Errorf("an accepted binding is not there: %v", all)
		}
		compare()
		if len(all) == 0 { // killed too late
			continue
		}
		path := "/v3/service_credential_bindings/" + all[0]["guid"].(string)
		if accepted := killing(http.MethodDelete, path, nil); accepted && len(bindings()) != 0 {
			t.Errorf("an accepted unbind was not done: %v", bindings())
		}
		compare()
		if left := bindings(); len(left) != 0 {
			s.call(t, http.MethodDelete, path, token, nil).want(t, http.StatusAccepted)
			testkit.Eventually(t, "the binding is gone", func() bool { return len(bindings()) == 0 })
			compare()
		}
	}
	s.Stop(t)
}
