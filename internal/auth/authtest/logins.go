package authtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"ingot/internal/auth"
)

// people stores the users and clients that logins need.
func people(t *testing.T, s auth.Store) {
	t.Helper()
	for _, name := range []string{"anna", "bert"} {
		must(t, s.CreateUser(t.Context(), newUser(name, name)))
	}
	for _, id := range []string{"cf", "app"} {
		must(t, s.CreateClient(t.Context(), newClient(id)))
	}
}

func testCodes(t *testing.T, s auth.Store) {
	people(t, s)
	full := auth.Code{
		Hash: "full", Kind: auth.CodeAuthorization, ClientID: "cf", UserID: "anna", Scopes: []string{"openid", "a b"},
		RedirectURI: "https://x/y?z", Challenge: "S256", Nonce: "n", AuthTime: base, Expires: base.Add(time.Minute),
		Family: "f",
	}
	t.Run("OK", func(t *testing.T) {
		t.Parallel()
		must(t, s.SaveCode(t.Context(), &full))
		got, err := s.TakeCode(t.Context(), "full", base.Add(time.Second))
		must(t, err)
		same(t, got, &full)

		// The second time, TakeCode returns when the code was first used.
		want := full
		want.Used = base.Add(time.Second)
		for range 2 {
			got, err = s.TakeCode(t.Context(), "full", base.Add(time.Hour))
			must(t, err)
			same(t, got, &want)
		}
		// Saving it again does not make it unused.
		must(t, s.SaveCode(t.Context(), &full))
		got, err = s.TakeCode(t.Context(), "full", base.Add(time.Hour))
		must(t, err)
		same(t, got, &want)
	})
	t.Run("Passcode", func(t *testing.T) {
		t.Parallel()
		code := auth.Code{Hash: "pass", Kind: auth.CodePasscode, UserID: "anna", Expires: base}
		must(t, s.SaveCode(t.Context(), &code))
		got, err := s.TakeCode(t.Context(), "pass", base)
		must(t, err)
		same(t, got, &code)
	})
	t.Run("ErrNotFound", func(t *testing.T) {
		t.Parallel()
		_, err := s.TakeCode(t.Context(), "nothing", base)
		refused(t, err, auth.ErrNotFound)
		refused(t, s.SaveCode(t.Context(), &auth.Code{Hash: "x", UserID: "nobody", ClientID: "cf"}), auth.ErrNotFound)
		refused(t, s.SaveCode(t.Context(), &auth.Code{Hash: "x", UserID: "anna", ClientID: "nothing"}), auth.ErrNotFound)
		_, err = s.TakeCode(t.Context(), "x", base)
		refused(t, err, auth.ErrNotFound)
	})
	t.Run("OneTakes", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		code := full
		code.Hash = "race"
		must(t, s.SaveCode(ctx, &code))
		used := errors.New("used")
		oneWins(t, atOnce(func(i int) error {
			got, err := s.TakeCode(ctx, "race", base.Add(time.Duration(i)))
			if err == nil && !got.Used.IsZero() {
				return used
			}
			return err
		}), used)
	})
}

func testSessions(t *testing.T, s auth.Store) {
	people(t, s)
	ctx := t.Context()
	session := auth.Session{Hash: "s", UserID: "anna", AuthTime: base, Expires: base.Add(time.Hour)}
	must(t, s.SaveSession(ctx, &session))
	got, err := s.Session(ctx, "s")
	must(t, err)
	same(t, got, &session)

	session.Expires = base.Add(2 * time.Hour)
	must(t, s.SaveSession(ctx, &session))
	got, err = s.Session(ctx, "s")
	must(t, err)
	same(t, got, &session)

	refused(t, s.SaveSession(ctx, &auth.Session{Hash: "x", UserID: "nobody"}), auth.ErrNotFound)
	_, err = s.Session(ctx, "x")
	refused(t, err, auth.ErrNotFound)

	must(t, s.DeleteSession(ctx, "s"))
	_, err = s.Session(ctx, "s")
	refused(t, err, auth.ErrNotFound)
	must(t, s.DeleteSession(ctx, "s"))
}

func testRefresh(t *testing.T, s auth.Store) {
	people(t, s)
	t.Run("OK", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		first, second, third := newRefresh("1", "f", "anna", "cf"), newRefresh("2", "f", "anna", "cf"),
			newRefresh("3", "f", "anna", "cf")
		must(t, s.SaveRefresh(ctx, first))
		got, err := s.Refresh(ctx, "1")
		must(t, err)
		same(t, got, first)

		got, err = s.RotateRefresh(ctx, "1", base.Add(time.Minute), second)
		must(t, err)
		same(t, got, first)
		rotated := *first
		rotated.Rotated = base.Add(time.Minute)
		got, err = s.Refresh(ctx, "1")
		must(t, err)
		same(t, got, &rotated)

		// Used again, it says so, and nothing is stored: there is one chain.
		got, err = s.RotateRefresh(ctx, "1", base.Add(time.Hour), third)
		must(t, err)
		same(t, got, &rotated)
		got, err = s.Refresh(ctx, "1")
		must(t, err)
		same(t, got, &rotated)
		got, err = s.Refresh(ctx, second.ID)
		must(t, err)
		same(t, got, second)
		_, err = s.Refresh(ctx, third.ID)
		refused(t, err, auth.ErrNotFound)
		// Saving it again does not make it valid.
		must(t, s.SaveRefresh(ctx, first))
		got, err = s.Refresh(ctx, "1")
		must(t, err)
		same(t, got, &rotated)

		other := newRefresh("other", "g", "anna", "cf")
		must(t, s.SaveRefresh(ctx, other))
		must(t, s.DeleteFamily(ctx, "f"))
		for _, id := range []string{"1", "2", "3"} {
			_, err = s.Refresh(ctx, id)
			refused(t, err, auth.ErrNotFound)
		}
		_, err = s.RotateRefresh(ctx, "2", base, newRefresh("4", "f", "anna", "cf"))
		refused(t, err, auth.ErrNotFound)
		_, err = s.Refresh(ctx, "4")
		refused(t, err, auth.ErrNotFound)
		got, err = s.Refresh(ctx, "other")
		must(t, err)
		same(t, got, other)
		must(t, s.DeleteFamily(ctx, "f"))
	})
	t.Run("ErrNotFound", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		_, err := s.Refresh(ctx, "nothing")
		refused(t, err, auth.ErrNotFound)
		_, err = s.RotateRefresh(ctx, "nothing", base, newRefresh("x", "x", "anna", "cf"))
		refused(t, err, auth.ErrNotFound)
		refused(t, s.SaveRefresh(ctx, newRefresh("x", "x", "nobody", "cf")), auth.ErrNotFound)
		refused(t, s.SaveRefresh(ctx, newRefresh("x", "x", "anna", "nothing")), auth.ErrNotFound)
		_, err = s.Refresh(ctx, "x")
		refused(t, err, auth.ErrNotFound)
	})
	t.Run("RotateRefuses", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		old, taken := newRefresh("old", "h", "anna", "cf"), newRefresh("taken", "h", "anna", "cf")
		must(t, s.SaveRefresh(ctx, old))
		must(t, s.SaveRefresh(ctx, taken))
		if _, err := s.RotateRefresh(ctx, "old", base, newRefresh("new", "another", "anna", "cf")); err == nil {
			t.Error("a token of another family followed")
		}
		_, err := s.RotateRefresh(ctx, "old", base, newRefresh("taken", "h", "anna", "cf"))
		refused(t, err, auth.ErrConflict)
		got, err := s.Refresh(ctx, "old")
		must(t, err)
		same(t, got, old)
		_, err = s.Refresh(ctx, "new")
		refused(t, err, auth.ErrNotFound)
	})
}

func testRefreshRaces(t *testing.T, s auth.Store) {
	people(t, s)
	t.Run("OneRotates", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		must(t, s.SaveRefresh(ctx, newRefresh("one", "one", "anna", "cf")))
		rotated := errors.New("rotated before")
		oneWins(t, atOnce(func(i int) error {
			before, err := s.RotateRefresh(ctx, "one", base.Add(time.Duration(i)), newRefresh(fmt.Sprint("one", i), "one",
				"anna", "cf"))
			if err == nil && !before.Rotated.IsZero() {
				return rotated
			}
			return err
		}), rotated)
		stored := 0
		for i := range racers {
			if _, err := s.Refresh(ctx, fmt.Sprint("one", i)); err == nil {
				stored++
			} else {
				refused(t, err, auth.ErrNotFound)
			}
		}
		same(t, stored, 1)
	})
	t.Run("NoneOutlivesItsFamily", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		must(t, s.SaveRefresh(ctx, newRefresh("two", "two", "anna", "cf")))
		errs := atOnce(func(i int) error {
			if i == 0 {
				return s.DeleteFamily(ctx, "two")
			}
			_, err := s.RotateRefresh(ctx, "two", base, newRefresh(fmt.Sprint("two", i), "two", "anna", "cf"))
			if errors.Is(err, auth.ErrNotFound) {
				return nil
			}
			return err
		})
		for i, err := range errs {
			must(t, err)
			_, err = s.Refresh(ctx, fmt.Sprint("two", i))
			refused(t, err, auth.ErrNotFound)
		}
	})
	t.Run("NoneOutlivesItsClient", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		must(t, s.CreateClient(ctx, newClient("brief")))
		errs := atOnce(func(i int) error {
			var err error
			if i == 0 {
				_, err = s.DeleteClient(ctx, "brief")
				return err
			}
			err = s.SaveRefresh(ctx, newRefresh(fmt.Sprint("brief", i), "brief", "anna", "brief"))
			if errors.Is(err, auth.ErrNotFound) {
				return nil
			}
			return err
		})
		for i, err := range errs {
			must(t, err)
			_, err = s.Refresh(ctx, fmt.Sprint("brief", i))
			refused(t, err, auth.ErrNotFound)
		}
	})
}

// testDeletions checks that deleting a user or client deletes all its logins and
// none of others.
func testDeletions(t *testing.T, s auth.Store) {
	people(t, s)
	ctx := t.Context()
	for _, user := range []string{"anna", "bert"} {
		must(t, s.CreateGroup(ctx, newGroup("g "+user, "g "+user, userMember("anna"), userMember("bert"))))
		must(t, s.SaveSession(ctx, &auth.Session{Hash: user, UserID: user, Expires: base}))
		must(t, s.SaveCode(ctx, &auth.Code{Hash: user, Kind: auth.CodePasscode, UserID: user}))
		for _, client := range []string{"cf", "app"} {
			id := user + " " + client
			must(t, s.SaveRefresh(ctx, newRefresh(id, id, user, client)))
			must(t, s.SaveCode(ctx, &auth.Code{Hash: id, Kind: auth.CodeAuthorization, UserID: user, ClientID: client}))
		}
	}
	there := func(hashes []string, there bool) {
		t.Helper()
		for _, hash := range hashes {
			_, codeErr := s.TakeCode(ctx, hash, base)
			_, refreshErr := s.Refresh(ctx, hash)
			_, sessionErr := s.Session(ctx, hash)
			isUser := hash == "anna" || hash == "bert" // else it is a user and a client
			for name, err := range map[string]error{"code": codeErr, "refresh token": refreshErr, "session": sessionErr} {
				switch {
				case isUser && name == "refresh token", !isUser && name == "session":
					continue // never was
				case there && err != nil, !there && !errors.Is(err, auth.ErrNotFound):
					t.Errorf("%s %q: %v", name, hash, err)
				}
			}
		}
	}

	_, err := s.DeleteUser(ctx, "anna")
	must(t, err)
	there([]string{"anna", "anna cf", "anna app"}, false)
	there([]string{"bert", "bert cf", "bert app"}, true)
	of, err := s.GroupsOf(ctx, "anna")
	must(t, err)
	same(t, of, nil)
	g, err := s.Group(ctx, "g anna")
	must(t, err)
	same(t, g.Members, []auth.Member{userMember("bert")})

	_, err = s.DeleteClient(ctx, "app")
	must(t, err)
	there([]string{"bert app"}, false)
	there([]string{"bert", "bert cf"}, true)
}
