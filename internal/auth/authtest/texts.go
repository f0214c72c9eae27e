package authtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"ingot/internal/auth"
	"ingot/internal/auth/scim"
)

// hostile are texts with a special meaning to some database, driver or display.
// No two differ only in the case of A to Z.
var hostile = []string{
	`'; DROP TABLE auth_users; --`, `" OR "1"="1`, `' OR 1=1 --`, `a''b`, `/* x`, `--`,
	`100%`, `%`, `_`, `a_c`, `abc`, `\`, `\%`, `a\\b`, `?`, `??`, `$1`, `:name`, `@name`, `{"json":[1]}`, `%!s(MISSING)`,
	`naïve`, `NAÏVE`, `straße`, `strasse`, `İstanbul`, `ıstanbul`, "e\u0301", "\u00e9", `日本語`, `👩‍👩‍👧‍👦`, `👩`,
	"\u202egnp.exe", "\ufeffbom", "zero\u200bwidth", "tab\tnew\nline\r", "\x01\x1f\x7f", ` padded `, `padded`, "\u00a0",
	"\U0010ffff", "\ufffd",
}

func testHostileText(t *testing.T, s auth.Store) {
	ctx := t.Context()
	var all []*auth.User
	for i, text := range hostile {
		u := newUser(fmt.Sprintf("%s %d", text, i), text)
		u.Origin, u.ExternalID, u.GivenName, u.FamilyName, u.Email, u.Phone, u.PasswordHash = text, text, text, text,
			text, text, text
		must(t, s.CreateUser(ctx, u))
		all = append(all, u)
	}
	t.Run("Users", func(t *testing.T) {
		t.Parallel()
		for _, u := range all {
			got, err := s.User(t.Context(), u.ID)
			must(t, err)
			same(t, got, u)
			got, err = s.UserByName(t.Context(), u.UserName, u.Origin)
			must(t, err)
			same(t, got, u)
		}
	})
	t.Run("Filters", func(t *testing.T) {
		t.Parallel()
		ops := []scim.Op{scim.Eq, scim.Co, scim.Ne, scim.Sw, scim.Gt, scim.Ew}
		for i, u := range all {
			selects(t, s, all, scim.Compare{Attr: "username", Op: scim.Eq, Value: u.UserName})
			selects(t, s, all, scim.Compare{Attr: "familyname", Op: ops[i%len(ops)], Value: u.UserName})
			selects(t, s, all, parse(t, scim.Compare{Attr: "email", Op: ops[(i+1)%len(ops)], Value: u.UserName}.String()))
		}
	})
	t.Run("Groups", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		for _, text := range hostile {
			g := newGroup(text, text, auth.Member{ID: text, Type: auth.MemberUser, Origin: text})
			g.Description = text
			must(t, s.CreateGroup(ctx, g))
			of, err := s.GroupsOf(ctx, text)
			must(t, err)
			same(t, of, []*auth.Group{{ID: text, Name: text}})
		}
		for _, text := range hostile {
			page, total, err := s.Groups(ctx, auth.Query{Filter: scim.Compare{Attr: "displayname", Op: scim.Eq, Value: text},
				Start: 1, Count: 9})
			must(t, err)
			same(t, total, 1)
			same(t, page[0].Members, []auth.Member{{ID: text, Type: auth.MemberUser, Origin: text}})
		}
	})
	t.Run("Clients", func(t *testing.T) {
		t.Parallel()
		c := newClient(hostile[0])
		c.Name, c.Scopes, c.Secrets, c.RedirectURIs = hostile[1], hostile, hostile, hostile
		must(t, s.CreateClient(t.Context(), c))
		got, err := s.Client(t.Context(), hostile[0])
		must(t, err)
		same(t, got, c)
	})
}

// testImpossibleText is about text that some databases cannot store: it is
// stored unchanged or rejected, but never truncated or confused with another.
func testImpossibleText(t *testing.T, s auth.Store) {
	must(t, s.CreateUser(t.Context(), newUser("a", "a")))
	must(t, s.CreateUser(t.Context(), newUser("ab", "ab")))
	for i, text := range []string{"a\x00b", "a\x00", "\x00", "a\xff", "\xed\xa0\x80"} {
		t.Run(fmt.Sprintf("%+q", text), func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			lookups := map[string]func() error{
				"User":       func() error { _, err := s.User(ctx, text); return err },
				"UserByName": func() error { _, err := s.UserByName(ctx, text, auth.OriginUAA); return err },
				"Origin":     func() error { _, err := s.UserByName(ctx, "a", text); return err },
				"UpdateUser": func() error {
					_, err := s.UpdateUser(ctx, text, func(*auth.User) error { return nil })
					return err
				},
				"DeleteUser":   func() error { _, err := s.DeleteUser(ctx, text); return err },
				"Client":       func() error { _, err := s.Client(ctx, text); return err },
				"Group":        func() error { _, err := s.Group(ctx, text); return err },
				"AddMember":    func() error { return s.AddMember(ctx, text, userMember("a")) },
				"RemoveMember": func() error { return s.RemoveMember(ctx, text, text) },
				"TakeCode":     func() error { _, err := s.TakeCode(ctx, text, base); return err },
				"Session":      func() error { _, err := s.Session(ctx, text); return err },
				"Refresh":      func() error { _, err := s.Refresh(ctx, text); return err },
			}
			for name, lookup := range lookups {
				if err := lookup(); !errors.Is(err, auth.ErrNotFound) {
					t.Errorf("%s: got error %v, want %v", name, err, auth.ErrNotFound)
				}
			}
			must(t, s.DeleteSession(ctx, text))
			must(t, s.DeleteFamily(ctx, text))
			must(t, s.DeleteKey(ctx, text))
			groups, err := s.GroupsOf(ctx, text)
			must(t, err)
			same(t, groups, nil)

			_, total, err := s.Users(ctx, auth.Query{Filter: scim.Compare{Attr: "username", Op: scim.Eq, Value: text},
				Start: 1, Count: 9})
			var bad *scim.ValueError
			if total != 0 || err != nil && !errors.As(err, &bad) {
				t.Errorf("a filter found %d, error %v", total, err)
			}

			u := newUser(fmt.Sprint("id ", i), text)
			if err := s.CreateUser(ctx, u); err == nil {
				got, err := s.User(ctx, u.ID)
				must(t, err)
				same(t, got, u)
			} else if errors.Is(err, auth.ErrConflict) {
				t.Errorf("the name was taken for another: %v", err)
			}
		})
	}
}

// testCanceled checks that no method works with a canceled context.
func testCanceled(t *testing.T, s auth.Store) {
	must(t, s.CreateUser(t.Context(), newUser("u", "u")))
	must(t, s.CreateClient(t.Context(), newClient("c")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, userErr := s.User(ctx, "u")
	_, _, usersErr := s.Users(ctx, auth.Query{Start: 1, Count: 1})
	_, updateErr := s.UpdateUser(ctx, "u", func(*auth.User) error { return nil })
	_, deleteErr := s.DeleteUser(ctx, "u")
	for name, err := range map[string]error{
		"User": userErr, "Users": usersErr, "UpdateUser": updateErr, "DeleteUser": deleteErr,
		"CreateUser":  s.CreateUser(ctx, newUser("v", "v")),
		"SaveRefresh": s.SaveRefresh(ctx, newRefresh("r", "f", "u", "c")),
		"Purge":       s.Purge(ctx, base),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got error %v, want %v", name, err, context.Canceled)
		}
	}
	_, err := s.User(t.Context(), "u")
	must(t, err)
	_, err = s.User(t.Context(), "v")
	refused(t, err, auth.ErrNotFound)
}
