package authtest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"ingot/internal/auth"
)

func testGroups(t *testing.T, s auth.Store) {
	ctx := t.Context()
	full := &auth.Group{
		ID: "g1", Name: "cloud_controller.Admin", Description: "may do all",
		Members: []auth.Member{{ID: "a", Type: auth.MemberUser, Origin: "ldap"}, groupMember("b")},
		Created: base, Modified: base.Add(1), Version: 3,
	}
	must(t, s.CreateGroup(ctx, full))
	got, err := s.Group(ctx, "g1")
	must(t, err)
	same(t, got, full)

	t.Run("Bare", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateGroup(t.Context(), &auth.Group{ID: "bare", Name: "bare"}))
		got, err := s.Group(t.Context(), "bare")
		must(t, err)
		same(t, got, &auth.Group{ID: "bare", Name: "bare"})
	})
	t.Run("MembersAreASet", func(t *testing.T) {
		t.Parallel()
		// If an id is given twice, the first member is stored.
		must(t, s.CreateGroup(t.Context(), newGroup("set", "set", userMember("a"), groupMember("a"))))
		got, err := s.Group(t.Context(), "set")
		must(t, err)
		same(t, got.Members, []auth.Member{userMember("a")})
	})
	t.Run("ErrConflict", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		must(t, s.CreateGroup(ctx, newGroup("c1", "Taken")))
		refused(t, s.CreateGroup(ctx, newGroup("c1", "other")), auth.ErrConflict)
		refused(t, s.CreateGroup(ctx, newGroup("c2", "tAKEN", userMember("a"))), auth.ErrConflict)
		_, err := s.Group(ctx, "c2")
		refused(t, err, auth.ErrNotFound)
		must(t, s.CreateGroup(ctx, newGroup("c3", "free", userMember("a"))))
		_, err = s.UpdateGroup(ctx, "c3", func(g *auth.Group) error {
			g.Name, g.Members = "taken", nil
			return nil
		})
		refused(t, err, auth.ErrConflict)
		got, err := s.Group(ctx, "c3")
		must(t, err)
		same(t, got, newGroup("c3", "free", userMember("a")))
	})
	t.Run("ErrNotFound", func(t *testing.T) {
		t.Parallel()
		_, err := s.Group(t.Context(), "nobody")
		refused(t, err, auth.ErrNotFound)
		_, err = s.UpdateGroup(t.Context(), "nobody", func(*auth.Group) error { return errors.New("was called") })
		refused(t, err, auth.ErrNotFound)
		_, err = s.DeleteGroup(t.Context(), "nobody")
		refused(t, err, auth.ErrNotFound)
	})
	t.Run("Update", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		must(t, s.CreateGroup(ctx, newGroup("update", "before", userMember("a"), userMember("b"), userMember("c"))))
		want := newGroup("update", "after", userMember("b"), groupMember("c"), userMember("d"))
		want.Description, want.Version, want.Modified = "new", 1, base.Add(time.Hour)
		change := func(g *auth.Group) error {
			g.ID = "must not move"
			g.Name, g.Description, g.Version, g.Modified = want.Name, want.Description, want.Version, want.Modified
			// In place, as a caller may: the store must not use this slice as the old list.
			g.Members = append(g.Members[:0], want.Members...)
			return nil
		}
		changed, err := s.UpdateGroup(ctx, "update", change)
		must(t, err)
		same(t, changed, want)
		got, err := s.Group(ctx, "update")
		must(t, err)
		same(t, got, want)

		no := errors.New("no")
		_, err = s.UpdateGroup(ctx, "update", func(g *auth.Group) error {
			g.Members = nil
			return no
		})
		refused(t, err, no)
		got, err = s.Group(ctx, "update")
		must(t, err)
		same(t, got, want)
	})
	t.Run("ManyMembers", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		many := newGroup("many", "many")
		for i := range 1234 {
			many.Members = append(many.Members, userMember(fmt.Sprintf("m%04d", i)))
		}
		must(t, s.CreateGroup(ctx, many))
		got, err := s.Group(ctx, "many")
		must(t, err)
		same(t, got, many)
		_, err = s.UpdateGroup(ctx, "many", func(g *auth.Group) error {
			g.Members = g.Members[1200:1201]
			return nil
		})
		must(t, err)
		got, err = s.Group(ctx, "many")
		must(t, err)
		same(t, got.Members, many.Members[1200:1201])
	})
	t.Run("Delete", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		gone := newGroup("delete", "delete", userMember("someone"))
		must(t, s.CreateGroup(ctx, gone))
		must(t, s.CreateGroup(ctx, newGroup("outer", "outer", groupMember("delete"), userMember("x"))))
		got, err := s.DeleteGroup(ctx, "delete")
		must(t, err)
		same(t, got, gone)
		_, err = s.Group(ctx, "delete")
		refused(t, err, auth.ErrNotFound)
		outer, err := s.Group(ctx, "outer")
		must(t, err)
		same(t, outer.Members, []auth.Member{userMember("x")})
		of, err := s.GroupsOf(ctx, "someone")
		must(t, err)
		same(t, of, nil)
		// A group created again is empty.
		must(t, s.CreateGroup(ctx, newGroup("delete", "delete")))
		got, err = s.Group(ctx, "delete")
		must(t, err)
		same(t, got.Members, nil)
	})
}

func testGroupList(t *testing.T, s auth.Store) {
	ctx := t.Context()
	for i, name := range []string{"b.read", "A.read", "c.write", "a.Write"} {
		g := newGroup(fmt.Sprint("g", i), name, userMember(fmt.Sprint("u", i)), userMember("all"))
		g.Created, g.Modified = base.Add(time.Duration(i)), base.Add(time.Duration(-i))
		if i%2 == 0 {
			g.Description = fmt.Sprint("number ", i)
		}
		must(t, s.CreateGroup(ctx, g))
	}
	for name, test := range map[string]struct {
		query auth.Query
		total int
		ids   []string
	}{
		"ByCreation":    {auth.Query{Start: 1, Count: 9}, 4, []string{"g0", "g1", "g2", "g3"}},
		"Page":          {auth.Query{Start: 2, Count: 2}, 4, []string{"g1", "g2"}},
		"ByName":        {auth.Query{SortBy: "displayName", Start: 1, Count: 9}, 4, []string{"g1", "g3", "g0", "g2"}},
		"ByModified":    {auth.Query{SortBy: "meta.lastModified", Start: 1, Count: 1}, 4, []string{"g3"}},
		"ByDescription": {auth.Query{SortBy: "description", Start: 1, Count: 2}, 4, []string{"g0", "g2"}},
		"Named":         {auth.Query{Filter: parse(t, `displayName eq "A.WRITE"`), Start: 1, Count: 9}, 1, []string{"g3"}},
		"Either": {auth.Query{Filter: parse(t, `displayName eq "a.read" or displayName eq "B.read"`), Start: 1,
			Count: 9}, 2, []string{"g0", "g1"}},
		"Contains": {auth.Query{Filter: parse(t, `displayName co ".WR"`), Start: 1, Count: 1}, 2, []string{"g2"}},
		"Described": {auth.Query{Filter: parse(t, `description pr and meta.created gt "2026-01-02T03:04:05.678901234Z"`),
			Start: 1, Count: 9}, 1, []string{"g2"}},
		"ByID": {auth.Query{Filter: parse(t, `id gt "g1"`), SortBy: "id", Start: 1, Count: 9}, 2,
			[]string{"g2", "g3"}},
		"OnlyTheTotal": {auth.Query{Start: 1}, 4, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, total, err := s.Groups(t.Context(), test.query)
			must(t, err)
			var ids []string
			for _, g := range page {
				ids = append(ids, g.ID)
				want := []auth.Member{userMember("all"), userMember("u" + g.ID[1:])}
				slices.SortFunc(g.Members, func(a, b auth.Member) int { return len(b.ID) - len(a.ID) })
				same(t, g.Members, want)
			}
			same(t, ids, test.ids)
			same(t, total, test.total)
		})
	}
	t.Run("ErrAttribute", func(t *testing.T) {
		t.Parallel()
		_, _, err := s.Groups(t.Context(), auth.Query{Filter: parse(t, `members pr`), Start: 1, Count: 9})
		wantAttribute(t, err, "members")
		_, _, err = s.Groups(t.Context(), auth.Query{SortBy: "userName", Start: 1, Count: 9})
		wantAttribute(t, err, "userName")
	})
}

func testMembers(t *testing.T, s auth.Store) {
	ctx := t.Context()
	must(t, s.CreateGroup(ctx, newGroup("g", "g")))

	must(t, s.AddMember(ctx, "g", userMember("a")))
	must(t, s.AddMember(ctx, "g", groupMember("b")))
	refused(t, s.AddMember(ctx, "g", userMember("a")), auth.ErrConflict)
	refused(t, s.AddMember(ctx, "g", groupMember("a")), auth.ErrConflict)
	refused(t, s.AddMember(ctx, "nobody", userMember("a")), auth.ErrNotFound)
	got, err := s.Group(ctx, "g")
	must(t, err)
	same(t, got, newGroup("g", "g", userMember("a"), groupMember("b")))

	must(t, s.RemoveMember(ctx, "g", "a"))
	refused(t, s.RemoveMember(ctx, "g", "a"), auth.ErrNotFound)
	refused(t, s.RemoveMember(ctx, "nobody", "b"), auth.ErrNotFound)
	got, err = s.Group(ctx, "g")
	must(t, err)
	same(t, got, newGroup("g", "g", groupMember("b")))

	t.Run("OneAdds", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateGroup(t.Context(), newGroup("race", "race")))
		oneWins(t, atOnce(func(int) error { return s.AddMember(ctx, "race", userMember("same")) }), auth.ErrConflict)
	})
	t.Run("AllAreAdded", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateGroup(t.Context(), newGroup("crowd", "crowd")))
		for _, err := range atOnce(func(i int) error { return s.AddMember(ctx, "crowd", userMember(fmt.Sprint(i))) }) {
			must(t, err)
		}
		got, err := s.Group(t.Context(), "crowd")
		must(t, err)
		same(t, len(got.Members), racers)
	})
	t.Run("NoneOfADeletedGroup", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateGroup(t.Context(), newGroup("brief", "brief")))
		atOnce(func(i int) error {
			if i == 0 {
				_, err := s.DeleteGroup(ctx, "brief")
				return err
			}
			return s.AddMember(ctx, "brief", userMember(fmt.Sprint(i)))
		})
		must(t, s.CreateGroup(t.Context(), newGroup("brief", "brief")))
		got, err := s.Group(t.Context(), "brief")
		must(t, err)
		same(t, got.Members, nil)
	})
}

func testNesting(t *testing.T, s auth.Store) {
	ctx := t.Context()
	create := func(name string, members ...auth.Member) {
		t.Helper()
		must(t, s.CreateGroup(ctx, newGroup("id "+name, name, members...)))
	}
	of := func(t *testing.T, member string) []string {
		t.Helper()
		groups, err := s.GroupsOf(t.Context(), member)
		must(t, err)
		for _, g := range groups {
			same(t, g, &auth.Group{ID: "id " + g.Name, Name: g.Name})
		}
		return groupNames(groups)
	}
	const depth = 40
	create("deep 00", userMember("diver"))
	var chain []string
	for i := range depth {
		chain = append(chain, fmt.Sprintf("deep %02d", i))
		create(fmt.Sprintf("deep %02d", i+1), groupMember("id "+chain[i]))
	}
	chain = append(chain, fmt.Sprintf("deep %02d", depth))

	create("left", userMember("anna"))
	create("right", userMember("anna"), userMember("bert"))
	create("top", groupMember("id left"), groupMember("id right"))

	create("ring 1", groupMember("id ring 3"), userMember("anna"))
	create("ring 2", groupMember("id ring 1"))
	create("ring 3", groupMember("id ring 2"))
	create("self", groupMember("id self"), userMember("carl"))
	// A user with the id of a group is not that group.
	create("confused", userMember("id left"))

	want := map[string][]string{
		"diver":     chain,
		"anna":      {"left", "right", "ring 1", "ring 2", "ring 3", "top"},
		"bert":      {"right", "top"},
		"carl":      {"self"},
		"id ring 1": {"ring 1", "ring 2", "ring 3"},
		"id right":  {"top"},
		"nobody":    nil,
		"":          nil,
		"%":         nil,
	}
	for member, names := range want {
		same(t, of(t, member), names)
	}

	t.Run("All", func(t *testing.T) {
		t.Parallel()
		ids := []string{"anna", "anna"}
		for i := range 1300 {
			ids = append(ids, fmt.Sprint("unknown ", i))
		}
		for member := range want {
			ids = append(ids, member)
		}
		all, err := s.GroupsOfAll(t.Context(), ids)
		must(t, err)
		for _, id := range ids {
			same(t, groupNames(all[id]), want[id])
		}
		for id := range all {
			if !slices.Contains(ids, id) {
				t.Errorf("groups of %q, who was not asked for", id)
			}
		}
	})
	t.Run("None", func(t *testing.T) {
		t.Parallel()
		all, err := s.GroupsOfAll(t.Context(), nil)
		must(t, err)
		same(t, len(all), 0)
	})
}
