package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/testkit"
)

// TestClockJumps sets the clock of a running server forward by nearly an hour, back by an
// hour, and back while it does not run. No user is logged out, nothing is lost, sent twice or
// stuck, and the app does not notice.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	s := startApps(t, options{Engine: "process"})
	j := newJumps(t, s)
	set := func(by time.Duration) {
		t.Helper()
		testkit.SetClock(t, s.Cmd.Process.Pid, by)
		shown, err := http.ParseTime(s.call(t, http.MethodGet, "/v3/info", "", nil).Header.Get("Date"))
		if off := time.Until(shown) - by; err != nil || off.Abs() > time.Minute {
			t.Fatalf("the server's time is %v, %v; want one that differs by %v", shown, err, by)
		}
	}
	// Less than the hour for which tokens of the first time are valid: cf, with the clock of
	// the machine, would not know that they have expired.
	set(55 * time.Minute)
	j.lives(t, "nearly an hour ahead")
	// A new process has the machine's clock.
	s.Kill9(t)
	s.Restart(t)
	j.lives(t, "set back by a restart")
	set(-time.Hour)
	j.lives(t, "an hour behind")
	set(0)
	j.lives(t, "right again")
	j.mailOnce(t)
}

// jumps is what has to live on when the clock is set.
type jumps struct {
	s        *site
	home     string
	app      string
	instance string
	token    string // of the first time
	user     string
	password string
	mailer   string
	sent     []string // subjects
}

func newJumps(t *testing.T, s *site) *jumps {
	t.Helper()
	j := &jumps{s: s, home: s.admin(t), token: s.adminToken(t), password: "first"}
	cfOK(t, j.home, pushProbe(t, "steady", "--no-start")...)
	cfOK(t, j.home, "set-env", "steady", "NUMBERS", "50ms")
	cfOK(t, j.home, "start", "steady")
	j.app = guid(t, j.home, "steady")
	j.instance = s.running(t, j.app, 1)[0]
	j.user = s.createUser(t, j.token, "ann", j.password)
	s.call(t, http.MethodPost, "/oauth/clients", j.token, map[string]any{
		"client_id": "mailer", "client_secret": "s", "authorized_grant_types": "client_credentials",
		"authorities": sendingAuthorities,
	}).want(t, http.StatusCreated)
	j.mailer = s.clientToken(t, "mailer", "s")
	s.call(t, http.MethodPut, s.Notifications+"/notifications", j.mailer, map[string]any{
		"source_name": "clock", "notifications": map[string]any{"kind": map[string]string{"description": "kind"}},
	}).want(t, http.StatusNoContent)
	return j
}

// lives checks that everything keeps working, with earlier tokens and sessions.
func (j *jumps) lives(t *testing.T, when string) {
	t.Helper()
	s := j.s
	s.call(t, http.MethodGet, "/readyz", "", nil).want(t, http.StatusOK)
	// The first token of a client, and cf with its refresh token.
	s.call(t, http.MethodGet, "/v3/apps", j.token, nil).want(t, http.StatusOK)
	contains(t, cfOK(t, j.home, "apps"), "steady")
	// The app was not touched.
	s.get(t, "steady", "/?"+url.QueryEscape(when)).want(t, http.StatusOK)
	if now := s.running(t, j.app, 1)[0]; now != j.instance {
		t.Fatalf("%s: the app has the instance %s, had %s", when, now, j.instance)
	}
	// A changed password revokes tokens, and the next login works.
	before := s.userTokens(t, "ann", j.password)
	next := "password " + when
	s.call(t, http.MethodPut, "/Users/"+j.user+"/password", j.token, map[string]string{"password": next}).
		want(t, http.StatusOK)
	j.password = next
	after := s.userTokens(t, "ann", j.password)
	s.call(t, http.MethodGet, "/v3/organizations", after.Access, nil).want(t, http.StatusOK)
	s.refresh(t, after.Refresh).want(t, http.StatusOK)
	if before.Refresh == after.Refresh {
		t.Errorf("%s: the refresh token is that of before", when)
	}
	// A service operation, which is a job with due times and leases.
	name := "mail-" + strings.ReplaceAll(when, " ", "-")
	cfOK(t, j.home, "create-service", "notifications", "default", name, "--wait")
	cfOK(t, j.home, "delete-service", name, "-f", "--wait")
	// A task has a result.
	task := s.call(t, http.MethodPost, "/v3/apps/"+j.app+"/tasks", j.token, map[string]any{"command": "true",
		"memory_in_mb": 32}).want(t, http.StatusAccepted).object(t)["guid"].(string)
	testkit.Eventually(t, when+": the task ends", func() bool {
		return s.call(t, http.MethodGet, "/v3/tasks/"+task, j.token, nil).object(t)["state"] == "SUCCEEDED"
	})
	// Mail is delivered.
	j.sent = append(j.sent, "subject "+when)
	var mail []struct {
		ID string `json:"notification_id"`
	}
	s.call(t, http.MethodPost, s.Notifications+"/emails", j.mailer, map[string]string{
		"kind_id": "kind", "to": "ann@example.org", "subject": "subject " + when, "text": "t",
	}).want(t, http.StatusOK).into(t, &mail)
	testkit.Eventually(t, when+": the mail is delivered",
		func() bool { return slices.Contains(j.subjects(t), "subject "+when) })
	// A server that is killed before it has noted that would deliver it again.
	testkit.Eventually(t, when+": the delivery is recorded", func() bool {
		return strings.Contains(s.call(t, http.MethodGet, s.Notifications+"/messages/"+mail[0].ID, j.mailer, nil).
			want(t, http.StatusOK).String(), "delivered")
	})
	// Lines of the app and of its requests are in the log.
	j.logs(t, when)
}

// logs checks that the log has the request of this time, and every line of the app so far.
func (j *jumps) logs(t *testing.T, when string) {
	t.Helper()
	s := j.s
	testkit.Eventually(t, when+": the request is in the log", func() bool {
		return slices.ContainsFunc(s.log(t, j.app), func(l line) bool {
			return l.Source == "RTR" && strings.Contains(l.Text, "/?"+url.QueryEscape(when))
		})
	})
	var at location
	s.get(t, "steady", "/where").want(t, http.StatusOK).into(t, &at)
	countNumbers(t, s, j.app, j.instance, at.Number)
}

// subjects returns those of the mail that was delivered.
func (j *jumps) subjects(t *testing.T) (all []string) {
	t.Helper()
	var box struct {
		Messages []struct{ Subject string }
	}
	j.s.call(t, http.MethodGet, j.s.Admin+"/mailbox/messages?to=ann@example.org", "", nil).want(t, http.StatusOK).
		into(t, &box)
	for _, m := range box.Messages {
		_, subject, _ := strings.Cut(m.Subject, "subject ") // after a prefix
		all = append(all, "subject "+subject)
	}
	return all
}

// mailOnce checks that each message was delivered once.
func (j *jumps) mailOnce(t *testing.T) {
	t.Helper()
	got := j.subjects(t)
	slices.Sort(got)
	want := slices.Sorted(slices.Values(j.sent))
	if !slices.Equal(got, want) {
		t.Errorf("delivered %q, want each once: %s", got, fmt.Sprint(want))
	}
}
