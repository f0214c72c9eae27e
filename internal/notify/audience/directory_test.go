package audience_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/base/uaaclient"
	"ingot/internal/notify"
	"ingot/internal/notify/audience"
)

type email struct {
	Value   string `json:"value"`
	Primary bool   `json:"primary"`
}

type group struct {
	ID      string             `json:"id"`
	Name    string             `json:"displayName"`
	Members []uaaclient.Member `json:"members"`
}

// world is an authorization server and a platform of which we see what they
// are asked.
type world struct {
	mu     sync.Mutex
	users  map[string][]email
	phones map[string][]map[string]string // phoneNumbers of users
	groups []group
	// spaces are names; orgs likewise. roles are "type user" by place.
	spaces, orgs map[string]string
	roles        map[string][]string

	pageSize  int
	noCompare bool // refuses "id gt"
	fail      int  // status for everything but tokens
	tokens    int
	asked     []string // paths
	afterPage func()   // called after each page of roles or users
}

var (
	idTerm   = regexp.MustCompile(`id (eq|gt) ("(?:[^"\\]|\\.)*")`)
	nameTerm = regexp.MustCompile(`^displayName eq ("(?:[^"\\]|\\.)*")$`)
)

func unquote(s string) (out string) {
	_ = json.Unmarshal([]byte(s), &out)
	return out
}

func (w *world) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := func(status int, v any) {
		rw.WriteHeader(status)
		_ = json.NewEncoder(rw).Encode(v)
	}
	if r.URL.Path == "/oauth/token" {
		w.tokens++
		answer(http.StatusOK, map[string]any{"access_token": "tok", "expires_in": 600})
		return
	}
	w.asked = append(w.asked, r.URL.Path)
	if w.fail != 0 || r.Header.Get("Authorization") != "Bearer tok" {
		answer(max(w.fail, http.StatusUnauthorized), map[string]string{"error": "no"})
		return
	}
	switch path := r.URL.Path; {
	case path == "/Users":
		w.serveUsers(r, answer)
	case path == "/Groups":
		found := []group{}
		for _, g := range w.groups {
			if strings.EqualFold(g.Name, unquote(nameTerm.FindStringSubmatch(r.FormValue("filter"))[1])) {
				found = append(found, g)
			}
		}
		answer(http.StatusOK, map[string]any{"resources": found, "totalResults": len(found)})
	case strings.HasPrefix(path, "/Groups/"):
		for _, g := range w.groups {
			if g.ID == strings.TrimPrefix(path, "/Groups/") {
				answer(http.StatusOK, g)
				return
			}
		}
		answer(http.StatusNotFound, nil)
	case path == "/v3/roles":
		w.serveRoles(r, answer)
	case strings.HasPrefix(path, "/v3/spaces/"):
		w.servePlace(w.spaces, strings.TrimPrefix(path, "/v3/spaces/"), answer)
	case strings.HasPrefix(path, "/v3/organizations/"):
		w.servePlace(w.orgs, strings.TrimPrefix(path, "/v3/organizations/"), answer)
	default:
		answer(http.StatusNotFound, nil)
	}
}

func (w *world) servePlace(places map[string]string, guid string, answer func(int, any)) {
	name, ok := places[guid]
	if !ok {
		answer(http.StatusNotFound, map[string]any{"errors": []any{}})
		return
	}
	answer(http.StatusOK, map[string]any{"guid": guid, "name": name, "relationships": map[string]any{
		"organization": map[string]any{"data": map[string]string{"guid": "org-1"}},
	}})
}

func (w *world) serveUsers(r *http.Request, answer func(int, any)) {
	ids := slices.Sorted(maps.Keys(w.users))
	if filter := r.FormValue("filter"); filter != "" {
		terms := idTerm.FindAllStringSubmatch(filter, -1)
		if terms[0][1] == "gt" && w.noCompare {
			answer(http.StatusBadRequest, map[string]string{"error": "invalid_scim_resource"})
			return
		}
		ids = slices.DeleteFunc(ids, func(id string) bool {
			return !slices.ContainsFunc(terms, func(t []string) bool {
				return t[1] == "eq" && id == unquote(t[2]) || t[1] == "gt" && id > unquote(t[2])
			})
		})
	}
	total := len(ids)
	start, _ := strconv.Atoi(r.FormValue("startIndex"))
	count, _ := strconv.Atoi(r.FormValue("count"))
	ids = ids[min(max(start-1, 0), total):]
	ids = ids[:min(len(ids), count, w.pageSize)]
	page := []any{}
	for _, id := range ids {
		person := map[string]any{"id": id, "emails": w.users[id]}
		if strings.Contains(r.FormValue("attributes"), "phoneNumbers") {
			person = map[string]any{"id": id, "phoneNumbers": w.phones[id]}
		}
		page = append(page, person)
	}
	answer(http.StatusOK, map[string]any{"resources": page, "totalResults": total})
	if w.afterPage != nil {
		w.afterPage()
	}
}

func (w *world) serveRoles(r *http.Request, answer func(int, any)) {
	types := strings.Split(r.FormValue("types"), ",")
	var found []any
	for _, role := range w.roles[r.FormValue("space_guids")+r.FormValue("organization_guids")] {
		kind, user, _ := strings.Cut(role, " ")
		if slices.Contains(types, kind) {
			found = append(found, map[string]any{"type": kind, "relationships": map[string]any{
				"user": map[string]any{"data": map[string]string{"guid": user}}}})
		}
	}
	page, _ := strconv.Atoi(r.FormValue("page"))
	size, _ := strconv.Atoi(r.FormValue("per_page"))
	total := len(found)
	found = found[min((page-1)*size, total):min(page*size, total)]
	pagination := map[string]any{"total_results": total, "next": nil}
	if page*size < total {
		pagination["next"] = map[string]string{"href": "x"}
	}
	answer(http.StatusOK, map[string]any{"pagination": pagination, "resources": found})
	if w.afterPage != nil {
		w.afterPage()
	}
}

func (w *world) count(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, p := range w.asked {
		if p == path {
			n++
		}
	}
	return n
}

type bundle struct {
	*world
	dir *audience.Directory
	now time.Time
}

func setup(t *testing.T) *bundle {
	t.Helper()
	b := &bundle{now: time.Now(), world: &world{
		users: map[string][]email{}, phones: map[string][]map[string]string{}, pageSize: 500, roles: map[string][]string{},
		spaces: map[string]string{"space-1": "dev"}, orgs: map[string]string{"org-1": "acme"},
	}}
	server := httptest.NewServer(b.world)
	t.Cleanup(server.Close)
	uaa := uaaclient.New(uaaclient.Options{BaseURL: server.URL, ClientID: "c", Secret: "s"})
	b.dir = audience.New(audience.Options{UAA: uaa, PlatformURL: server.URL + "/", Now: func() time.Time { return b.now }})
	t.Cleanup(func() { uaa.Close(); b.dir.Close() })
	return b
}

// all reads an audience to its end.
func (b *bundle) all(t *testing.T, a notify.Audience, limit int) (members []notify.Recipient, pages int) {
	t.Helper()
	for cursor := ""; ; pages++ {
		page, next, err := b.dir.Page(t.Context(), a, cursor, limit)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, page...)
		if next == "" {
			return members, pages + 1
		}
		cursor = next
	}
}

func distinct(members []notify.Recipient) map[string]string {
	out := map[string]string{}
	for _, m := range members {
		out[m.UserID] = m.Email
	}
	return out
}

func TestResolve(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.groups = []group{{ID: "g", Name: "cloud.admin"}, {ID: "g2", Name: "Mixed.case"}}
	for _, test := range []struct {
		in, want notify.Audience
		code     fault.Code
		message  string
	}{
		{in: notify.Audience{Type: notify.ToUser, ID: "nobody"}, want: notify.Audience{Type: notify.ToUser, ID: "nobody"}},
		{in: notify.Audience{Type: notify.ToEmail, ID: "a@b"}, want: notify.Audience{Type: notify.ToEmail, ID: "a@b"}},
		{in: notify.Audience{Type: notify.ToEveryone}, want: notify.Audience{Type: notify.ToEveryone}},
		{
			in:   notify.Audience{Type: notify.ToSpace, ID: "space-1"},
			want: notify.Audience{Type: notify.ToSpace, ID: "space-1", SpaceName: "dev", OrgID: "org-1", OrgName: "acme"},
		},
		{
			in:   notify.Audience{Type: notify.ToOrg, ID: "org-1", Role: "OrgManager"},
			want: notify.Audience{Type: notify.ToOrg, ID: "org-1", Role: "OrgManager", OrgID: "org-1", OrgName: "acme"},
		},
		{in: notify.Audience{Type: notify.ToSpace, ID: "x"}, code: fault.NotFound,
			message: `CloudController Failure: Space "x" could not be found`},
		{in: notify.Audience{Type: notify.ToSpace, ID: ".."}, code: fault.NotFound,
			message: `CloudController Failure: Space ".." could not be found`},
		{in: notify.Audience{Type: notify.ToOrg, ID: "a/b?c"}, code: fault.NotFound,
			message: `CloudController Failure: Organization "a/b?c" could not be found`},
		{in: notify.Audience{Type: notify.ToOrg, ID: "org-1", Role: "King"}, code: fault.Unprocessable,
			message: `"role" must be "OrgManager", "OrgAuditor", "BillingManager" or unset`},
		{in: notify.Audience{Type: notify.ToScope, ID: "cloud.admin"}, want: notify.Audience{Type: notify.ToScope,
			ID: "cloud.admin"}},
		{in: notify.Audience{Type: notify.ToScope, ID: "no.such"}, code: fault.NotFound,
			message: `Scope "no.such" could not be found`},
		{in: notify.Audience{Type: notify.ToScope, ID: "mixed.CASE"}, code: fault.NotFound,
			message: `Scope "mixed.CASE" could not be found`},
		{in: notify.Audience{Type: notify.ToScope, ID: `a" or displayName pr or displayName eq "b`}, code: fault.NotFound,
			message: "Scope"},
		{in: notify.Audience{Type: notify.ToScope, ID: "openid"}, code: fault.NotAcceptable,
			message: "You cannot send a notification to a default scope"},
		{in: notify.Audience{Type: notify.ToScope, ID: "cloud_controller.read"}, code: fault.NotAcceptable,
			message: "You cannot send a notification to a default scope"},
	} {
		got, err := b.dir.Resolve(t.Context(), test.in)
		var f *fault.Error
		switch {
		case test.code == "" && (err != nil || got != test.want):
			t.Errorf("%+v resolves to %+v, %v, want %+v", test.in, got, err, test.want)
		case test.code != "" && (!errors.As(err, &f) || f.Code != test.code || !strings.HasPrefix(f.Message, test.message)):
			t.Errorf("resolving %+v: error is %v, want %s %q", test.in, err, test.code, test.message)
		}
	}
	if b.tokens != 1 {
		t.Errorf("%d tokens", b.tokens)
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	for status, code := range map[int]fault.Code{500: fault.BadGateway, 403: fault.BadGateway, 401: fault.BadGateway,
		503: fault.Unavailable, 429: fault.Unavailable} {
		b := setup(t)
		b.fail = status
		for _, a := range []notify.Audience{{Type: notify.ToSpace, ID: "space-1"}, {Type: notify.ToOrg, ID: "org-1"},
			{Type: notify.ToScope, ID: "s"}} {
			if _, err := b.dir.Resolve(t.Context(), a); !fault.Is(err, code) {
				t.Errorf("%d, resolve %s: %v", status, a.Type, err)
			}
			if _, _, err := b.dir.Page(t.Context(), a, "", 10); !fault.Is(err, code) {
				t.Errorf("%d, page of %s: %v", status, a.Type, err)
			}
		}
		if _, _, err := b.dir.Page(t.Context(), notify.Audience{Type: notify.ToEveryone}, "", 10); !fault.Is(err, code) {
			t.Errorf("%d, everyone: %v", status, err)
		}
		if _, err := b.dir.Emails(t.Context(), []string{"x"}); !fault.Is(err, code) {
			t.Errorf("%d, emails: %v", status, err)
		}
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	uaa := uaaclient.New(uaaclient.Options{BaseURL: gone.URL})
	d := audience.New(audience.Options{UAA: uaa, PlatformURL: gone.URL})
	if _, err := d.Resolve(t.Context(), notify.Audience{Type: notify.ToSpace, ID: "x"}); !fault.Is(err,
		fault.Unavailable) {
		t.Errorf("a server that is not there: %v", err)
	}
	d = audience.New(audience.Options{UAA: uaa})
	if _, err := d.Resolve(t.Context(), notify.Audience{Type: notify.ToSpace, ID: "x"}); !fault.Is(err,
		fault.Unavailable) || !strings.Contains(err.Error(), "not connected") {
		t.Errorf("no platform: %v", err)
	}
	b := setup(t)
	for _, cursor := range []string{"x", "1.2", "0.1.1", "1.9999999.1", "a.b.c", "#0", "#x"} {
		for _, a := range []notify.Audience{{Type: notify.ToSpace, ID: "s"}, {Type: notify.ToEveryone}} {
			if _, _, err := b.dir.Page(t.Context(), a, cursor, 10); err == nil {
				t.Errorf("the cursor %q of %s is taken", cursor, a.Type)
			}
		}
	}
}

func TestEveryone(t *testing.T) {
	t.Parallel()
	for _, noCompare := range []bool{false, true} {
		b := setup(t)
		b.noCompare = noCompare
		for i := range 1234 {
			id := fmt.Sprintf("u-%04d", i)
			b.users[id] = []email{{id + "@example.org", true}}
		}
		b.users["none"] = nil
		b.users["odd"] = []email{{"no address", true}, {"a@b, c@d", false}, {"Name <n@x.org>", false},
			{" odd@example.org ", false}}
		b.users["two"] = []email{{"second@example.org", false}, {"first@example.org", true}}
		members, pages := b.all(t, notify.Audience{Type: notify.ToEveryone}, 100_000)
		got := distinct(members)
		if len(got) != 1237 || pages > 4 {
			t.Errorf("%d of 1237 members in %d pages", len(got), pages)
		}
		for id, want := range map[string]string{"u-0000": "u-0000@example.org", "u-1233": "u-1233@example.org", "none": "",
			"odd": "odd@example.org", "two": "first@example.org"} {
			if got[id] != want {
				t.Errorf("%s has %q, want %q", id, got[id], want)
			}
		}
		before := b.count("/Users")
		if e, err := b.dir.Emails(t.Context(), []string{"none"}); err != nil || len(e) != 1 || e["none"] != "" ||
			b.count("/Users") != before {
			t.Errorf("%v, %v, and asked again", e, err)
		}
	}
}

// No member is missed when others are removed between two pages.
func TestMembersLeaveMeanwhile(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 300 {
		id := fmt.Sprintf("u-%04d", i)
		b.users[id] = []email{{id + "@example.org", true}}
		b.roles["space-1"] = append(b.roles["space-1"], "space_developer "+id)
	}
	leave := 0
	b.afterPage = func() {
		if leave < 4 {
			delete(b.users, fmt.Sprintf("u-%04d", leave))
			b.roles["space-1"] = b.roles["space-1"][1:]
			leave++
		}
	}
	for _, a := range []notify.Audience{{Type: notify.ToEveryone}, {Type: notify.ToSpace, ID: "space-1"}} {
		b.mu.Lock() // the last answer may come before afterPage ends
		leave = 0
		b.mu.Unlock()
		members, _ := b.all(t, a, 50)
		got := distinct(members)
		for i := 8; i < 300; i++ {
			if _, ok := got[fmt.Sprintf("u-%04d", i)]; !ok {
				t.Errorf("%s: member %d is missed", a.Type, i)
			}
		}
	}
}

func TestSpacesAndOrganizations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for i := range 700 {
		b.roles["space-1"] = append(b.roles["space-1"], fmt.Sprintf("space_developer u-%d", i),
			fmt.Sprintf("space_manager u-%d", i))
		b.roles["org-1"] = append(b.roles["org-1"], fmt.Sprintf("organization_user u-%d", i))
	}
	b.roles["org-1"] = append(b.roles["org-1"], "organization_manager boss", "organization_auditor aud",
		"organization_billing_manager bill", "organization_manager u-3", "space_developer stranger")
	for _, test := range []struct {
		a    notify.Audience
		want int
		has  string
	}{
		{notify.Audience{Type: notify.ToSpace, ID: "space-1"}, 700, "u-699"},
		{notify.Audience{Type: notify.ToOrg, ID: "org-1"}, 703, "boss"},
		{notify.Audience{Type: notify.ToOrg, ID: "org-1", Role: "OrgManager"}, 2, "u-3"},
		{notify.Audience{Type: notify.ToOrg, ID: "org-1", Role: "OrgAuditor"}, 1, "aud"},
		{notify.Audience{Type: notify.ToOrg, ID: "org-1", Role: "BillingManager"}, 1, "bill"},
		{notify.Audience{Type: notify.ToSpace, ID: "space-1,org-1"}, 0, ""},
	} {
		for _, limit := range []int{1, 64, 100_000} {
			members, _ := b.all(t, test.a, limit)
			got := distinct(members)
			if _, ok := got[test.has]; len(got) != test.want || !ok && test.has != "" {
				t.Errorf("%+v by %d: %d members, want %d with %s", test.a, limit, len(got), test.want, test.has)
			}
		}
	}
	page, _, err := b.dir.Page(t.Context(), notify.Audience{Type: notify.ToSpace, ID: "space-1"}, "", 5000)
	if err != nil || len(page) != 700 {
		t.Errorf("a page has %d members of 700 with two roles each, %v", len(page), err)
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	user := func(id string) uaaclient.Member { return uaaclient.Member{ID: id, Type: "USER"} }
	outer := group{ID: "g-1", Name: "a.b", Members: []uaaclient.Member{{ID: "g-2", Type: "GROUP"},
		{ID: "gone", Type: "GROUP"}, user("u-1")}}
	for i := range 250 {
		outer.Members = append(outer.Members, user(fmt.Sprintf("u-%d", i)))
	}
	// The inner group names the outer one: that must end.
	b.groups = []group{outer, {ID: "g-2", Name: "inner", Members: []uaaclient.Member{user("inner-1"),
		{ID: "g-1", Type: "group"}}}, {ID: "g-3", Name: "empty"}}
	members, pages := b.all(t, notify.Audience{Type: notify.ToScope, ID: "a.b"}, 100)
	if got := distinct(members); len(got) != 251 || len(members) != 251 || pages != 3 || b.count("/Groups") != 1 {
		t.Errorf("%d members in %d pages of %d questions", len(got), pages, b.count("/Groups"))
	}
	if members, _ := b.all(t, notify.Audience{Type: notify.ToScope, ID: "empty"}, 100); len(members) != 0 {
		t.Errorf("an empty scope has %v", members)
	}
	// What is kept for the next page does not stay for long.
	b.now = b.now.Add(3 * time.Minute)
	b.groups[0].Members = b.groups[0].Members[:1]
	if members, _ := b.all(t, notify.Audience{Type: notify.ToScope, ID: "a.b"}, 100); len(members) != 1 {
		t.Errorf("later there are %d members", len(members))
	}
}

func TestPhones(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for id, numbers := range map[string][]string{"usable": {"+49 (151) 1234-5678"}, "second": {"0151", "tel:+15550100"},
		"local": {"0151 12345678"}, "none": nil} {
		b.users[id] = nil
		for _, n := range numbers {
			b.phones[id] = append(b.phones[id], map[string]string{"value": n, "type": "mobile"})
		}
	}
	want := map[string]string{"usable": "+4915112345678", "second": "+15550100", "local": "", "none": ""}
	for range 2 { // the second time from the cache
		got, err := b.dir.Phones(t.Context(), []string{"usable", "second", "local", "none", "unknown", ""})
		if err != nil || !maps.Equal(got, want) {
			t.Errorf("the numbers are %q, %v", got, err)
		}
		clear(b.phones)
	}
}

func TestEmails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var ids []string
	for i := range 120 {
		id := fmt.Sprintf("u-%d", i)
		ids = append(ids, id, id)
		b.users[id] = []email{{id + "@example.org", true}}
	}
	b.users["none"] = nil
	ids = append(ids, "none", "unknown", "")
	want := func(calls int, email string) {
		t.Helper()
		got, err := b.dir.Emails(t.Context(), ids)
		if err != nil || len(got) != 121 || got["u-7"] != email {
			t.Errorf("%d addresses, %q, %v", len(got), got["u-7"], err)
		}
		if _, ok := got["none"]; !ok {
			t.Error("who has no address is missing")
		}
		if n := b.count("/Users"); n != calls {
			t.Errorf("%d calls, want %d", n, calls)
		}
	}
	want(3, "u-7@example.org")
	b.users["u-7"] = []email{{"new@example.org", true}}
	want(3, "u-7@example.org")
	b.now = b.now.Add(11 * time.Second) // the unknown one is asked for again
	want(4, "u-7@example.org")
	b.now = b.now.Add(50 * time.Second)
	want(7, "new@example.org")
	if b.tokens != 1 {
		t.Errorf("%d tokens", b.tokens)
	}
}

func TestSingles(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, a := range []notify.Audience{{Type: notify.ToUser, ID: "u"}, {Type: notify.ToEmail, ID: "a@b"}} {
		members, pages := b.all(t, a, 10)
		if len(members) != 1 || pages != 1 || members[0].UserID+members[0].Email != a.ID {
			t.Errorf("members of %+v are %v on %d pages, want itself on one", a, members, pages)
		}
	}
	if _, _, err := b.dir.Page(t.Context(), notify.Audience{Type: "bananas"}, "", 1); !fault.Is(err, fault.Unprocessable) {
		t.Errorf("got %v", err)
	}
	if len(b.asked) != 0 {
		t.Errorf("asked %v", b.asked)
	}
}
