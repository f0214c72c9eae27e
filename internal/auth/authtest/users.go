package authtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"ingot/internal/auth"
)

func testUsers(t *testing.T, s auth.Store) {
	ctx := t.Context()
	full := &auth.User{
		ID: "u1", UserName: "Marissa", Origin: "ldap", ExternalID: "ext", GivenName: "Marissa", FamilyName: "Bloggs",
		Email: "Marissa@Test.org", Phone: "+49 1", Active: true, Verified: true,
		PasswordHash: "hash", PasswordChanged: base.Add(-time.Nanosecond),
		Created: base.In(time.FixedZone("away", 3600)), Modified: base.Add(time.Nanosecond), Version: 7,
		Login: auth.LoginState{
			Last: base.Add(1), Previous: base.Add(2),
		},
	}

	must(t, s.CreateUser(ctx, full))
	got, err := s.User(ctx, "u1")
	must(t, err)
	same(t, got, full)

	t.Run("Bare", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateUser(t.Context(), &auth.User{ID: "bare", UserName: "bare"}))
		got, err := s.User(t.Context(), "bare")
		must(t, err)
		if *got != (auth.User{ID: "bare", UserName: "bare"}) {
			t.Errorf("got %+v, want all else to be zero", got)
		}
	})
	t.Run("ByName", func(t *testing.T) {
		t.Parallel()
		for _, name := range []string{"Marissa", "marissa", "MARISSA"} {
			got, err := s.UserByName(t.Context(), name, "ldap")
			must(t, err)
			same(t, got, full)
		}
		for _, name := range []string{"marissa", "marissa ", "m%", "maris_a", ""} {
			_, err := s.UserByName(t.Context(), name, auth.OriginUAA)
			refused(t, err, auth.ErrNotFound)
		}
	})
	t.Run("ErrConflict", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		must(t, s.CreateUser(ctx, newUser("c1", "Conny")))
		refused(t, s.CreateUser(ctx, newUser("c1", "other")), auth.ErrConflict)
		refused(t, s.CreateUser(ctx, newUser("c2", "cONNY")), auth.ErrConflict)
		_, err := s.User(ctx, "c2")
		refused(t, err, auth.ErrNotFound)
		elsewhere := newUser("c3", "Conny")
		elsewhere.Origin = "ldap"
		must(t, s.CreateUser(ctx, elsewhere))

		must(t, s.CreateUser(ctx, newUser("c4", "Dora")))
		_, err = s.UpdateUser(ctx, "c4", func(u *auth.User) error {
			u.UserName = "conny"
			return nil
		})
		refused(t, err, auth.ErrConflict)
		got, err := s.User(ctx, "c4")
		must(t, err)
		same(t, got, newUser("c4", "Dora"))
	})
	t.Run("ErrNotFound", func(t *testing.T) {
		t.Parallel()
		_, err := s.User(t.Context(), "nobody")
		refused(t, err, auth.ErrNotFound)
		_, err = s.UpdateUser(t.Context(), "nobody", func(*auth.User) error { return errors.New("was called") })
		refused(t, err, auth.ErrNotFound)
		_, err = s.DeleteUser(t.Context(), "nobody")
		refused(t, err, auth.ErrNotFound)
	})
	t.Run("Update", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		before := newUser("update", "Emil")
		before.Email = "e@x"
		must(t, s.CreateUser(ctx, before))
		change := func(u *auth.User) error {
			u.ID = "must not move"
			u.UserName, u.Email, u.GivenName, u.Active = "EMIL", "", "Emil", false
			u.Login.Last = base
			u.Version++
			return nil
		}
		want := *before
		must(t, change(&want))
		want.ID = "update"
		changed, err := s.UpdateUser(ctx, "update", change)
		must(t, err)
		same(t, changed, &want)
		got, err := s.UserByName(ctx, "emil", auth.OriginUAA)
		must(t, err)
		same(t, got, &want)

		no := errors.New("no")
		_, err = s.UpdateUser(ctx, "update", func(u *auth.User) error {
			u.UserName = "changed"
			return no
		})
		refused(t, err, no)
		got, err = s.User(ctx, "update")
		must(t, err)
		same(t, got, &want)

		// The old name can be used again, the new one cannot.

		_, err = s.UpdateUser(ctx, "update", func(u *auth.User) error {
			u.UserName = "Emilia"
			return nil
		})
		must(t, err)
		must(t, s.CreateUser(ctx, newUser("update2", "emil")))
		refused(t, s.CreateUser(ctx, newUser("update3", "emilia")), auth.ErrConflict)
	})
	t.Run("Delete", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		must(t, s.CreateUser(ctx, newUser("delete", "Frida")))
		gone, err := s.DeleteUser(ctx, "delete")
		must(t, err)
		same(t, gone, newUser("delete", "Frida"))
		_, err = s.User(ctx, "delete")
		refused(t, err, auth.ErrNotFound)
		must(t, s.CreateUser(ctx, newUser("again", "frida")))
	})
}

func testUserRaces(t *testing.T, s auth.Store) {
	ctx := t.Context()
	t.Run("OneName", func(t *testing.T) {
		t.Parallel()
		names := []string{"one", "One", "oNe", "onE", "ONE", "ONe"}
		oneWins(t, atOnce(func(i int) error { return s.CreateUser(ctx, newUser(fmt.Sprint("id", i), names[i])) }),
			auth.ErrConflict)
	})
	t.Run("NoUpdateIsLost", func(t *testing.T) {
		t.Parallel()
		const each = 4
		counted := newUser("count", "count")
		before := counted.Version
		must(t, s.CreateUser(ctx, counted))
		for _, err := range atOnce(func(int) error {
			for range each {
				if _, err := s.UpdateUser(ctx, "count", func(u *auth.User) error {
					u.Version++
					return nil
				}); err != nil {
					return err
				}
			}
			return nil
		}) {
			must(t, err)
		}
		u, err := s.User(ctx, "count")
		must(t, err)
		same(t, u.Version, before+racers*each)
	})
	t.Run("OneDeletes", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateUser(ctx, newUser("gone", "gone")))
		oneWins(t, atOnce(func(int) error {
			_, err := s.DeleteUser(ctx, "gone")
			return err
		}), auth.ErrNotFound)
	})
}
