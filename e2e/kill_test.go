package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
)

// times returns how often a soak test does something: short, or long when
// INGOT_SOAK is 1.
func times(short, long int) int {
	if os.Getenv("INGOT_SOAK") == "1" {
		return long
	}
	return short
}

// databases runs f on each kind of database.
func databases(t *testing.T, f func(t *testing.T, dialect db.Dialect)) {
	t.Helper()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			f(t, dialect)
		})
	}
}

// TestSoakKillWhileWriting kills the server repeatedly during many writes.
// Acknowledged writes must exist afterwards, others completely or not at all.
func TestSoakKillWhileWriting(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dialect db.Dialect) {
		s := start(t, options{DB: dbtest.URL(t, dialect)})
		admin := s.adminToken(t)
		kid := s.kids(t)
		l := newLedger(t, s, admin)
		for round := range times(8, 200) {
			killAfter := 1 + rand.IntN(60)
			acknowledged := l.writeUntilKilled(t, round, killAfter)
			s.Restart(t)
			if t.Failed() {
				return
			}
			if got := s.kids(t); !slices.Equal(got, kid) {
				t.Fatalf("round %d: the signing keys are %v, and were %v", round, got, kid)
			}
			l.verify(t, admin, false)
			if t.Failed() {
				t.Fatalf("round %d, killed after %d writes, %d in all", round, killAfter, acknowledged)
			}
		}
		s.Stop(t)
		s.Restart(t)
		l.verify(t, admin, true)
		t.Logf("%d writes were acknowledged, and %d of those cut off had been done", l.count, len(l.unheard))
	})
}

// ledger records what the server has acknowledged.
type ledger struct {
	s     *Server
	admin string // a token from before the first kill

	// changing users: the number in each one's name that was acknowledged.
	// Each is written by one goroutine only.
	renamed [3]struct {
		id, name string
		number   int
	}
	group string // the group that members are added to

	mu      sync.Mutex
	kill    func() // called when enough is acknowledged
	left    int
	count   int
	users   map[string]string   // id by name
	clients map[string]bool     // by id
	groups  map[string][]string // members by the name of the group
	gone    map[string]bool     // ids of groups that were deleted
	members map[string]bool     // of group
	guids   map[string]bool     // of the platform's users; true when seen after a kill
	refresh string              // a refresh token
	unheard map[string]bool     // ids that exist although they were not acknowledged
}

func newLedger(t *testing.T, s *Server, admin string) *ledger {
	t.Helper()
	l := &ledger{
		s: s, admin: admin, users: map[string]string{}, clients: map[string]bool{}, groups: map[string][]string{},
		gone: map[string]bool{}, members: map[string]bool{}, guids: map[string]bool{}, unheard: map[string]bool{},
	}
	for i := range l.renamed {
		r := &l.renamed[i]
		r.name = fmt.Sprintf("renamed-%d", i)
		r.id = s.createUser(t, admin, r.name, "p")
		s.call(t, http.MethodPut, "/Users/"+r.id, admin, renameBody(r.name, 0), header{"If-Match", "*"}).
			want(t, http.StatusOK)
	}
	l.group = s.call(t, http.MethodPost, "/Groups", admin, map[string]any{"displayName": "joined"}).
		want(t, http.StatusCreated).object(t)["id"].(string)
	s.createUser(t, admin, "refresher", "p")
	l.refresh = s.userTokens(t, "refresher", "p").Refresh
	return l
}

func renameBody(name string, number int) map[string]any {
	return map[string]any{
		"userName": name, "name": map[string]string{"givenName": fmt.Sprintf("given %d", number),
			"familyName": fmt.Sprintf("family %d", number)},
		"emails": []map[string]any{{"value": fmt.Sprintf("mail-%d@example.org", number), "primary": true}},
	}
}

// write sends one write, and calls acknowledged if it succeeds. It returns false
// if the server is down.
func (l *ledger) write(t *testing.T, method, path string, body any, acknowledged func(*reply), headers ...header) bool {
	token := l.admin
	if path == "/oauth/token" {
		token = ""
	}
	r, err := l.s.try(method, l.s.API+path, token, body, headers...)
	if err != nil {
		return false
	}
	if r.Status < 200 || r.Status > 299 {
		t.Errorf("%s %s answers %s, want a status of 2xx", method, path, r)
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	acknowledged(r)
	l.count++
	if l.left--; l.left == 0 {
		l.kill()
	}
	return true
}

// writeUntilKilled writes from many goroutines, and kills the server when the
// given number of writes is acknowledged, at any moment of the others.
func (l *ledger) writeUntilKilled(t *testing.T, round, kill int) int {
	t.Helper()
	l.kill, l.left = func() { _ = l.s.Cmd.Process.Kill() }, kill
	var all sync.WaitGroup
	for writer, once := range []func(t *testing.T, name string) bool{
		l.createUser, l.createClient, l.createGroup, l.createGUID, l.refreshToken, l.deleteGroup,
		func(t *testing.T, _ string) bool { return l.rename(t, 0) },
		func(t *testing.T, _ string) bool { return l.rename(t, 1) },
		func(t *testing.T, _ string) bool { return l.rename(t, 2) },
	} {
		all.Go(func() {
			for n := 0; once(t, fmt.Sprintf("w%d-r%d-n%d", writer, round, n)); n++ {
			}
		})
	}
	all.Wait()
	if !l.s.ended() && t.Failed() {
		_ = l.s.Cmd.Process.Kill()
	}
	l.s.wait(t)
	return l.count
}

func (l *ledger) createUser(t *testing.T, name string) bool {
	var id string
	return l.write(t, http.MethodPost, "/Users", userBody(name, "password of "+name), func(r *reply) {
		id = r.id()
		l.users[name] = id
	}) && l.write(t, http.MethodPost, "/Groups/"+l.group+
		"/members", map[string]string{"value": id, "type": "USER"}, func(*reply) { l.members[id] = true })
}

var clientAuthorities = []string{"notifications.write", "notifications.manage", "scim.read"}

func (l *ledger) createClient(t *testing.T, id string) bool {
	return l.write(t, http.MethodPost, "/oauth/clients", map[string]any{
		"client_id": id, "client_secret": "secret of " + id, "authorized_grant_types": []string{"client_credentials"},
		"authorities": clientAuthorities, "name": "name of " + id,
	}, func(*reply) { l.clients[id] = true })
}

// createGroup creates a group with its members in one request.
func (l *ledger) createGroup(t *testing.T, name string) bool {
	ids := l.memberIDs()
	return l.write(t, http.MethodPost, "/Groups", groupBody(name, ids), func(*reply) { l.groups[name] = ids })
}

func (l *ledger) memberIDs() []string {
	var ids []string
	for i := range l.renamed {
		ids = append(ids, l.renamed[i].id)
	}
	return ids
}

func groupBody(name string, ids []string) map[string]any {
	var members []map[string]string
	for _, id := range ids {
		members = append(members, map[string]string{"value": id, "type": "USER"})
	}
	return map[string]any{"displayName": name, "description": "about " + name, "members": members}
}

func (l *ledger) deleteGroup(t *testing.T, name string) bool {
	name = "w-short-lived-" + name
	var id string
	return l.write(t, http.MethodPost, "/Groups", groupBody(name, l.memberIDs()), func(r *reply) {
		if id = r.id(); id == "" {
			t.Errorf("POST /Groups answers %s without an id", r)
		}
	}) &&
		l.write(t, http.MethodDelete, "/Groups/"+id, nil, func(*reply) { l.gone[id] = true }, header{"If-Match", "*"})
}

func (l *ledger) createGUID(t *testing.T, guid string) bool {
	return l.write(t, http.MethodPost, "/v3/users", map[string]string{"guid": guid},
		func(*reply) { l.guids[guid] = false })
}

func (l *ledger) rename(t *testing.T, i int) bool {
	r := &l.renamed[i]
	return l.write(t, http.MethodPut, "/Users/"+r.id, renameBody(r.name, r.number+1), func(*reply) { r.number++ },
		header{"If-Match", "*"})
}

func (l *ledger) refreshToken(t *testing.T, _ string) bool {
	return l.write(t, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"refresh_token"},
		"refresh_token": {l.refresh}}, func(r *reply) {
		var got tokens
		if err := json.Unmarshal(r.Body, &got); err != nil {
			t.Errorf("body is no JSON: %v: %s", err, r)
		}
		l.refresh = got.Refresh
	}, basic("cf", ""))
}

// verify compares the server with the ledger. Objects that can only be read one
// by one are read once, unless again is set.
func (l *ledger) verify(t *testing.T, admin string, again bool) {
	t.Helper()
	users := l.s.all(t, "/Users", admin, "userName")
	l.verifyUsers(t, users)
	l.verifyClients(t, l.s.all(t, "/oauth/clients", admin, "client_id"))
	l.verifyGroups(t, l.s.all(t, "/Groups", admin, "displayName"), users)
	for guid, seen := range l.guids {
		if seen && !again {
			continue
		}
		if r := l.s.call(t, http.MethodGet, "/v3/users/"+guid, admin, nil); r.Status != http.StatusOK {
			t.Errorf("user %s of the platform is lost: %s", guid, r)
		}
		l.guids[guid] = true
	}
	// They also work: test one of each.
	for name := range l.users {
		l.s.userTokens(t, name, "password of "+name)
		break
	}
	for id := range l.clients {
		l.s.clientToken(t, id, "secret of "+id)
		break
	}
	var got tokens
	l.s.refresh(t, l.refresh).want(t, http.StatusOK).into(t, &got)
	l.refresh = got.Refresh
}

func (l *ledger) verifyUsers(t *testing.T, users map[string]map[string]any) {
	t.Helper()
	for name, id := range l.users {
		if users[name] == nil || users[name]["id"] != id {
			t.Errorf("user %s is lost: %v", name, users[name])
		}
	}
	show := func(u map[string]any) string { return fmt.Sprint(u["name"], u["emails"]) }
	for name, u := range users {
		if strings.HasPrefix(name, "w") {
			want := fmt.Sprintf("map[familyName:Family %[1]s givenName:Given %[1]s] [map[primary:true value:%[1]s@example.org]]",
				name)
			if l.users[name] == "" {
				l.unheard[name] = true
			}
			if show(u) != want || u["active"] != true {
				t.Errorf("user %s is half there: %v", name, u)
			}
		}
	}
	for i := range l.renamed {
		r := &l.renamed[i]
		// The write in progress may have succeeded.
		var fits bool
		for _, number := range []int{r.number, r.number + 1} {
			want := fmt.Sprintf("map[familyName:family %[1]d givenName:given %[1]d] [map[primary:true "+
				"value:mail-%[1]d@example.org]]", number)
			if users[r.name] != nil && show(users[r.name]) == want {
				fits, r.number = true, number
				break
			}
		}
		if !fits {
			t.Errorf("user %s had the number %d acknowledged and is now %v", r.name, r.number, users[r.name])
		}
	}
}

func (l *ledger) verifyClients(t *testing.T, clients map[string]map[string]any) {
	t.Helper()
	for id := range l.clients {
		if clients[id] == nil {
			t.Errorf("client %s is lost", id)
		}
	}
	for id, c := range clients {
		if strings.HasPrefix(id, "w") && !l.clients[id] {
			l.unheard[id] = true
		}
		if strings.HasPrefix(id, "w") && (!sameWords(texts(c["authorities"]), clientAuthorities) ||
			c["name"] != "name of "+id ||
			!sameWords(texts(c["authorized_grant_types"]), []string{"client_credentials"})) {
			t.Errorf("client %s is half there: %v", id, c)
		}
	}
}

func (l *ledger) verifyGroups(t *testing.T, groups, users map[string]map[string]any) {
	t.Helper()
	for name := range l.groups {
		if groups[name] == nil {
			t.Errorf("group %s is lost", name)
		}
	}
	known := map[string]bool{}
	for _, u := range users {
		known[u["id"].(string)] = true
	}
	for name, g := range groups {
		if strings.HasPrefix(name, "w") && !strings.HasPrefix(name, "w-short-lived-") && l.groups[name] == nil {
			l.unheard[name] = true
		}
		var ids []string
		for _, m := range g["members"].([]any) {
			ids = append(ids, m.(map[string]any)["value"].(string))
		}
		switch {
		case strings.HasPrefix(name, "w") && (!sameWords(ids, l.memberIDs()) || g["description"] != "about "+name):
			t.Errorf("group %s is half there: %v", name, g)
		case name == "joined":
			for id := range l.members {
				if !slices.Contains(ids, id) {
					t.Errorf("user %s is no longer a member", id)
				}
			}
		}
		if l.gone[g["id"].(string)] {
			t.Errorf("group %s is there again", name)
		}
		for _, id := range ids {
			if !known[id] {
				t.Errorf("group %s has a member %s that does not exist", name, id)
			}
		}
	}
}

func texts(list any) []string {
	var out []string
	for _, v := range list.([]any) {
		out = append(out, v.(string))
	}
	return out
}

// TestSoakKillFirstStart kills the first start at some moment. The next must
// work, and the administrator must be able to log in with the secrets in the
// files.
func TestSoakKillFirstStart(t *testing.T) {
	t.Parallel()
	databases(t, func(t *testing.T, dialect db.Dialect) {
		kills := times(10, 50)
		for i := range kills {
			s := prepare(t, options{DB: dbtest.URL(t, dialect)})
			s.launch(t)
			// Spread over the first second, and denser at its beginning, where
			// the files are written.
			part := (float64(i) + rand.Float64()) / float64(kills)
			moment := time.Duration(part * part * float64(time.Second))
			select {
			case <-time.After(moment):
			case <-s.done:
				t.Fatalf("the first start ended by itself\n%s", s.Stderr)
			}
			s.Kill9(t)

			s.Restart(t)
			user := s.userTokens(t, "admin", s.secret(t, "admin-password"))
			admin := s.adminToken(t)
			if scopes := strings.Fields(user.Scope); !slices.Contains(scopes, "cloud_controller.admin") ||
				!slices.Contains(scopes, "uaa.admin") {
				t.Errorf("killed after %s: the administrator has only %q", moment, user.Scope)
			}
			if clients := s.all(t, "/oauth/clients", admin, "client_id"); len(clients) != 6 {
				t.Errorf("killed after %s: the clients are %v", moment, slices.Sorted(maps.Keys(clients)))
			}
			id := s.createUser(t, admin, "joe", "p")
			if got := s.call(t, http.MethodPost, "/v3/users", admin, map[string]string{"guid": id}).want(t, http.StatusCreated).
				object(t); got["username"] != "joe" {
				t.Errorf("killed after %s: the platform does not find its user: %v", moment, got)
			}
			if rest, err := filepath.Glob(filepath.Join(s.Dir, "secrets", ".*")); err != nil || len(rest) > 1 {
				t.Errorf("killed after %s: left behind: %v %v", moment, rest, err)
			}
			s.Stop(t)
			if t.Failed() {
				return
			}
		}
	})
}
