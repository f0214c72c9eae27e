package system

import (
	"encoding/json"
	"flag"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/testkit"
	"ingot/internal/notify/mail/mailtest"
)

// record writes the answers of this build to the session. The session in testdata was recorded with
// the last commit before versions 1 and 2 had extensions, 0ee8baf8, to which these two files were copied:
// answers of a later commit prove nothing.
var record = flag.Bool("record", false, "write the answers of the recorded session instead of comparing them")

// TestRecordedSession repeats a session of versions 1 and 2 that was recorded before there were
// extensions, and compares the answers byte by byte.
func TestRecordedSession(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "notifications.session")
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	head, all := readSession(t, string(text))
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			if *record && dialect != db.SQLite {
				t.Skip("recorded with SQLite")
			}
			s, n := sessionWorld(t, dialect)
			answers := n.play(t, strings.TrimPrefix(s.Endpoints().Notifications, "http://"), all)
			out := head
			for i, e := range all {
				if difference := firstDifference(answers[i], e.expected()); difference != "" && !*record {
					t.Errorf("%s: the answer is not the recorded one, %s\n%s", e.name, difference, answers[i])
				}
				e.answer = answers[i]
				out += "\n" + e.text()
			}
			if *record {
				testkit.Must(t, os.WriteFile(path, []byte(strings.TrimPrefix(out, "\n")), 0o600))
			}
		})
	}
}

// sessionClients are the clients of the session, with their authorities.
var sessionClients = map[string]string{
	"sender": "notifications.write notifications.manage critical_notifications.write notification_templates.read " +
		"notification_templates.write emails.write notification_preferences.admin",
	"plain":    "notifications.write notifications.manage notification_templates.read notification_templates.write",
	"operator": "notifications.write notifications.admin notification_templates.write",
	"mailer":   "emails.write",
	"reader":   "notification_preferences.read",
}

// sessionWorld starts a server with the users, clients and spaces of the session.
func sessionWorld(t *testing.T, dialect db.Dialect) (*System, *names) {
	t.Helper()
	const refused, later = "refused@example.org", "later@example.org"
	sink := mailtest.New(t, mailtest.Options{Fault: mailtest.First(
		mailtest.Recipient(refused, mailtest.Action{Reply: "550 5.1.1 no such user"}),
		mailtest.Recipient(later, mailtest.Action{Reply: "451 4.3.0 later"}))})
	c := testConfig(t)
	c.DatabaseURL, c.SMTPURL, c.AdminPassword = dbtest.URL(t, dialect), sink.URL("", ""), "the password"
	s := startSystem(t, c)
	n, admin, e := newNames(), adminToken(t, s), s.Endpoints()
	create := func(path string, body map[string]any) map[string]any {
		t.Helper()
		a := call(t, http.MethodPost, e.API+path, admin, body)
		if a.status != http.StatusCreated {
			t.Fatalf("%s: %d %s", path, a.status, a.body)
		}
		return a.json(t)
	}
	for id, scopes := range sessionClients {
		create("/oauth/clients", map[string]any{"client_id": id, "client_secret": "the secret",
			"authorized_grant_types": "client_credentials", "authorities": strings.Fields(scopes)})
		n.set("<token "+id+">", clientToken(t, s, id, "the secret"))
	}
	create("/oauth/clients", map[string]any{"client_id": "people", "client_secret": "the secret",
		"authorized_grant_types": "password",
		"scope":                  []string{"notification_preferences.read", "notification_preferences.write"}})

	// Lists of recipients are in the order of the ids, which are random: users get their parts by their ids.
	logins := map[string]string{}
	for i := range 3 {
		name := "user" + strconv.Itoa(i)
		u := create("/Users", map[string]any{"userName": name, "password": c.AdminPassword,
			"emails": []map[string]any{{"value": name + "@example.org", "primary": true}}})
		id, _ := u["id"].(string)
		logins[id] = name
	}
	var found struct{ Resources []struct{ ID string } }
	list := call(t, http.MethodGet, e.API+"/Users?filter="+url.QueryEscape(`userName eq "admin"`), admin, nil)
	testkit.Must(t, json.Unmarshal([]byte(list.body), &found))
	logins[found.Resources[0].ID] = "admin"
	users := make([]string, 0, len(logins))
	for id := range logins {
		users = append(users, id)
	}
	slices.Sort(users)
	for i, id := range users {
		name := strconv.Itoa(i + 1)
		n.set("<user "+name+">", id)
		n.set("<token user "+name+">", userToken(t, s, logins[id], c.AdminPassword))
	}
	guid := func(body map[string]any) string { g, _ := body["guid"].(string); return g }
	to := func(id string) map[string]any { return map[string]any{"data": map[string]any{"guid": id}} }
	org := guid(create("/v3/organizations", map[string]any{"name": "the org"}))
	space := guid(create("/v3/spaces", map[string]any{"name": "the space",
		"relationships": map[string]any{"organization": to(org)}}))
	n.set("<org>", org)
	n.set("<space>", space)
	role := func(role, user, where, guid string) {
		create("/v3/roles", map[string]any{"type": role,
			"relationships": map[string]any{"user": to(user), where: to(guid)}})
	}
	for _, user := range users[:3] {
		call(t, http.MethodPost, e.API+"/v3/users", admin, map[string]any{"guid": user}) // it may exist
		role("organization_user", user, "organization", org)
	}
	role("space_developer", users[0], "space", space)
	role("space_manager", users[1], "space", space)
	role("organization_manager", users[2], "organization", org)
	create("/Groups", map[string]any{"displayName": "the.scope", "members": []map[string]any{
		{"value": users[0], "type": "USER", "origin": "uaa"}, {"value": users[2], "type": "USER", "origin": "uaa"}}})
	return s, n
}

// userToken is a token of a user for preferences.
func userToken(t *testing.T, s *System, user, password string) string {
	t.Helper()
	a := call(t, http.MethodPost, s.Endpoints().Auth+"/oauth/token", "", url.Values{"grant_type": {"password"},
		"client_id": {"people"}, "client_secret": {"the secret"}, "username": {user}, "password": {password}})
	raw, _ := a.json(t)["access_token"].(string)
	if raw == "" {
		t.Fatalf("token of %s: %d %s", user, a.status, a.body)
	}
	return raw
}
