package authtest

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/auth/scim"
)

// crowd stores users with few different values, many absent ones, and ids in
// another order than that of creation.
func crowd(t *testing.T, s auth.Store) []*auth.User {
	t.Helper()
	pick := func(i int, values ...string) string { return values[i%len(values)] }
	var all []*auth.User
	for i := range 24 {
		u := newUser(fmt.Sprintf("%02d-%d", (i*7)%24, i), fmt.Sprintf("%s%02d", pick(i, "anna", "Bert", "çelik"), (i*5)%24))
		u.Origin = pick(i, auth.OriginUAA, "ldap")
		u.ExternalID = pick(i, "", "x_1", "x%1", "X_1", "xy1")
		u.FamilyName = pick(i, "Meier", "", "meier", "Ärmel", "Zoë")
		u.GivenName = pick(i, "", "Jo", "JO")
		u.Email = pick(i, "A@x.org", "", "b@X.org", "ä@x.org", "Ä@x.org")
		u.Phone = pick(i, "", "1", "10", "9")
		u.Active, u.Verified = i%3 > 0, i%4 == 0
		u.Created = base.Add(time.Duration(i / 6))
		u.Modified = base.Add(time.Duration(i % 5))
		u.Version = i % 12
		must(t, s.CreateUser(t.Context(), u))
		all = append(all, u)
	}
	return all
}

// attributes are those a user has by name, as scim.Matches wants them.
var attributes = map[string]func(u *auth.User) any{
	"id":                 func(u *auth.User) any { return u.ID },
	"username":           func(u *auth.User) any { return scim.Fold(u.UserName) },
	"email":              func(u *auth.User) any { return present(scim.Fold(u.Email)) },
	"emails":             func(u *auth.User) any { return present(scim.Fold(u.Email)) },
	"emails.value":       func(u *auth.User) any { return present(scim.Fold(u.Email)) },
	"origin":             func(u *auth.User) any { return u.Origin },
	"externalid":         func(u *auth.User) any { return present(u.ExternalID) },
	"active":             func(u *auth.User) any { return u.Active },
	"verified":           func(u *auth.User) any { return u.Verified },
	"name.familyname":    func(u *auth.User) any { return present(u.FamilyName) },
	"familyname":         func(u *auth.User) any { return present(u.FamilyName) },
	"name.givenname":     func(u *auth.User) any { return present(u.GivenName) },
	"givenname":          func(u *auth.User) any { return present(u.GivenName) },
	"phonenumbers":       func(u *auth.User) any { return present(u.Phone) },
	"phonenumbers.value": func(u *auth.User) any { return present(u.Phone) },
	"meta.created":       func(u *auth.User) any { return u.Created },
	"created":            func(u *auth.User) any { return u.Created },
	"meta.lastmodified":  func(u *auth.User) any { return u.Modified },
	"lastmodified":       func(u *auth.User) any { return u.Modified },
}

func present[T ~string](s T) any {
	if s == "" {
		return nil
	}
	return s
}

// matching returns the ids of the users that a filter selects, sorted.
func matching(t *testing.T, all []*auth.User, filter scim.Expr) []string {
	t.Helper()
	var ids []string
	for _, u := range all {
		ok, err := scim.Matches(filter, func(name string) any { return attributes[name](u) })
		must(t, err)
		if ok {
			ids = append(ids, u.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// selects fails the test unless a filter selects the same users as it does in
// memory.
func selects(t *testing.T, s auth.Store, all []*auth.User, filter scim.Expr) {
	t.Helper()
	page, total, err := s.Users(t.Context(), auth.Query{Filter: filter, SortBy: "id", Start: 1, Count: 1000})
	if err != nil {
		t.Fatalf("%s: %v", filter, err)
	}
	same(t, userIDs(page), matching(t, all, filter))
	same(t, total, len(page))
	// The count must agree with the list, also when the page does not show it.
	_, total, err = s.Users(t.Context(), auth.Query{Filter: filter, Start: 1, Count: 1})
	must(t, err)
	same(t, total, len(page))
}

func testUserFilters(t *testing.T, s auth.Store) {
	all := crowd(t, s)
	t.Run("Operators", func(t *testing.T) {
		t.Parallel()
		texts := []string{"", "A", "anna1", "ANNA15", "Ç", "ä@x.org", "Ä@X.ORG", "x_1", "x%1", "%", "_", "meier", "Meier",
			"1", "uaa", "07-1", "~"}
		// Aliases differ only in their name, so they are not all tested.
		for _, attr := range []string{"id", "username", "emails.value", "origin", "externalid", "name.familyname",
			"name.givenname", "phonenumbers.value"} {
			selects(t, s, all, scim.Compare{Attr: attr, Op: scim.Pr})
			selects(t, s, all, scim.Compare{Attr: attr, Op: scim.Eq})
			for op := scim.Eq; op < scim.Pr; op++ {
				for i := int(op) % 3; i < len(texts); i += 3 {
					selects(t, s, all, scim.Compare{Attr: attr, Op: op, Value: texts[i]})
				}
			}
		}
	})
	t.Run("EveryAttribute", func(t *testing.T) {
		t.Parallel()
		for name := range attributes {
			selects(t, s, all, scim.Compare{Attr: name, Op: scim.Pr})
			selects(t, s, all, scim.Not{X: scim.Compare{Attr: strings.ToUpper(name), Op: scim.Pr}})
		}
	})
	t.Run("Written", func(t *testing.T) {
		t.Parallel()
		moment := base.Add(2).Format(time.RFC3339Nano)
		for _, filter := range []string{
			`userName eq "ANNA15" and origin eq "ldap"`,
			`userName EQ 'bert05' or USERNAME eq "Bert20"`,
			`active eq true and verified ne true`,
			`active eq false or not (emails pr)`,
			`not (familyName eq "Meier") and (givenName eq "Jo" or givenName eq null)`,
			`meta.created eq "` + moment + `"`,
			`created gt "` + moment + `" and meta.lastModified le "` + moment + `"`,
			`lastModified lt "` + moment + `"`,
			`id gt "05" and id le "11-5"`,
			`phoneNumbers gt "1"`,
			`emails.value sw "a" or email ew "X.ORG"`,
			`externalId co "_"`,
			`id eq "a" and id eq "b"`,
		} {
			selects(t, s, all, parse(t, filter))
		}
	})
	t.Run("Version", func(t *testing.T) {
		t.Parallel()
		for filter, want := range map[string]int{
			`version eq 11`:       2,
			`meta.version eq "1"`: 2,
			`version ne 3`:        22,
			`version eq 1.5`:      0,
			`version eq null`:     0,
			`version pr`:          24,
		} {
			_, total, err := s.Users(t.Context(), auth.Query{Filter: parse(t, filter), Start: 1, Count: 5})
			must(t, err)
			if total != want {
				t.Errorf("%s: got %d, want %d", filter, total, want)
			}
		}
	})
	t.Run("ManyIDs", func(t *testing.T) {
		t.Parallel()
		var filter scim.Expr = scim.Compare{Attr: "id", Op: scim.Eq, Value: "nobody"}
		for i := 1; i < scim.MaxComparisons; i++ {
			id := fmt.Sprint("unknown ", i)
			if i < len(all) && i%2 == 0 {
				id = all[i].ID
			}
			filter = scim.Or{Left: filter, Right: scim.Compare{Attr: "id", Op: scim.Eq, Value: id}}
		}
		selects(t, s, all, filter)
		selects(t, s, all, scim.Not{X: filter})
	})
	t.Run("ErrAttribute", func(t *testing.T) {
		t.Parallel()
		for _, filter := range []string{`password_hash sw "a"`, `user_name_key pr`, `id pr or nickName pr`,
			`not (nickName pr and id pr)`} {
			_, _, err := s.Users(t.Context(), auth.Query{Filter: parse(t, filter), Start: 1, Count: 5})
			var unknown *scim.AttributeError
			if !errors.As(err, &unknown) {
				t.Errorf("%s: got error %v", filter, err)
			}
		}
		for _, name := range []string{"password_hash", "id; DROP TABLE auth_users", "id desc", "1", `"id"`} {
			_, _, err := s.Users(t.Context(), auth.Query{SortBy: name, Start: 1, Count: 5})
			wantAttribute(t, err, name)
		}
	})
	t.Run("ErrValue", func(t *testing.T) {
		t.Parallel()
		for _, filter := range []string{`active eq "yes"`, `active gt true`, `id eq 1`, `id gt null`, `created eq "today"`,
			`created co "2026"`, `version eq true`} {
			_, _, err := s.Users(t.Context(), auth.Query{Filter: parse(t, filter), Start: 1, Count: 5})
			var bad *scim.ValueError
			if !errors.As(err, &bad) {
				t.Errorf("%s: got error %v", filter, err)
			}
		}
	})
}

func testUserOrder(t *testing.T, s auth.Store) {
	all := crowd(t, s)
	orders := map[string]func(a, b *auth.User) int{
		"":         func(a, b *auth.User) int { return a.Created.Compare(b.Created) },
		"USERNAME": func(a, b *auth.User) int { return compareAttribute(scim.Fold(a.UserName), scim.Fold(b.UserName)) },
	}
	for name, get := range attributes {
		orders[name] = func(a, b *auth.User) int { return compareAttribute(get(a), get(b)) }
	}
	for _, name := range []string{"version", "meta.version"} {
		orders[name] = func(a, b *auth.User) int { return cmp.Compare(a.Version, b.Version) }
	}
	for name, compare := range orders {
		for _, down := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/down=%t", cmp.Or(name, "default"), down), func(t *testing.T) {
				t.Parallel()
				query := auth.Query{SortBy: name, Descending: down}
				once := pages(t, s, query, len(all))
				same(t, len(once), len(all))
				for i := 1; i < len(once); i++ {
					// Equal keys are sorted by id, so that the order is total.
					order := cmp.Or(compare(once[i-1], once[i]), cmp.Compare(once[i-1].ID, once[i].ID))
					if down {
						order = -order
					}
					if order > 0 {
						t.Fatalf("%s comes before %s", once[i-1].ID, once[i].ID)
					}
				}
				// Pages give the same list, although many keys are equal.
				same(t, userIDs(pages(t, s, query, 5)), userIDs(once))
			})
		}
	}
	t.Run("Filtered", func(t *testing.T) {
		t.Parallel()
		filter := parse(t, `active eq true and familyName pr`)
		query := auth.Query{Filter: filter, SortBy: "familyName"}
		paged := userIDs(pages(t, s, query, 3))
		same(t, paged, userIDs(pages(t, s, query, 100)))
		slices.Sort(paged)
		same(t, paged, matching(t, all, filter))
	})
	t.Run("FromIDToID", func(t *testing.T) {
		t.Parallel()
		// How a client reads a list of any length: by filtering on the last id.
		var ids []string
		for last := ""; ; {
			page, _, err := s.Users(t.Context(), auth.Query{
				Filter: scim.Compare{Attr: "id", Op: scim.Gt, Value: last}, SortBy: "id", Start: 1, Count: 7,
			})
			must(t, err)
			// For a list of addresses it needs no more than these.
			contacts, _, err := s.Users(t.Context(), auth.Query{
				Filter: scim.Compare{Attr: "id", Op: scim.Gt, Value: last}, SortBy: "id", Start: 1, Count: 7,
				Contacts: true, Uncounted: true,
			})
			must(t, err)
			same(t, userIDs(contacts), userIDs(page))
			if len(page) == 0 {
				break
			}
			for i, u := range page {
				if got := *contacts[i]; got.Email != u.Email || got.PasswordHash != "" {
					t.Errorf("contact %+v, want the address %q only", got, u.Email)
				}
			}
			ids = append(ids, userIDs(page)...)
			last = page[len(page)-1].ID
		}
		same(t, ids, slices.Sorted(slices.Values(userIDs(all))))
	})
}

// compareAttribute orders values as a list does: an absent one is last.
func compareAttribute(a, b any) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	switch a := a.(type) {
	case string:
		return cmp.Compare(a, b.(string)) //nolint:errcheck // one attribute has one type
	case scim.Fold:
		fold := func(s scim.Fold) string {
			return strings.Map(func(r rune) rune {
				if 'A' <= r && r <= 'Z' {
					return r + 'a' - 'A'
				}
				return r
			}, string(s))
		}
		return cmp.Compare(fold(a), fold(b.(scim.Fold))) //nolint:errcheck // one attribute has one type
	case time.Time:
		return a.Compare(b.(time.Time)) //nolint:errcheck // one attribute has one type
	case bool:
		if a == b {
			return 0
		} else if a {
			return 1
		}
		return -1
	}
	panic(fmt.Sprintf("an attribute of type %T", a))
}

// pages reads a whole list in pages of some size.
func pages(t *testing.T, s auth.Store, q auth.Query, size int) []*auth.User {
	t.Helper()
	var all []*auth.User
	q.Uncounted = size%2 == 0 // both give the same list
	for {
		q.Start, q.Count = len(all)+1, size
		page, total, err := s.Users(t.Context(), q)
		must(t, err)
		all = append(all, page...)
		if len(page) > size || len(all) > total {
			t.Fatalf("a page of %d, all in all %d, is more than asked for or there", len(page), len(all))
		}
		if len(all) == total {
			return all
		}
		if len(page) == 0 {
			t.Fatalf("the list ends after %d of %d", len(all), total)
		}
	}
}
