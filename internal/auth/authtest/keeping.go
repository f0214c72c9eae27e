package authtest

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"ingot/internal/auth"
)

func revocations(t *testing.T, s auth.Store, now time.Time) []auth.Revocation {
	t.Helper()
	all, err := s.Revocations(t.Context(), now)
	must(t, err)
	slices.SortFunc(all, func(a, b auth.Revocation) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Subject, b.Subject))
	})
	return all
}

func testRevocations(t *testing.T, s auth.Store) {
	ctx := t.Context()
	same(t, revocations(t, s, base), nil)
	client := auth.Revocation{Kind: auth.RevokeClient, Subject: "x", Before: base, Expires: base.Add(3)}
	token := auth.Revocation{Kind: auth.RevokeToken, Subject: "x", Expires: base.Add(2)}
	user := auth.Revocation{Kind: auth.RevokeUser, Subject: "x", Before: base, Expires: base.Add(1)}
	for _, r := range []auth.Revocation{user, token, client} {
		must(t, s.Revoke(ctx, r))
	}
	same(t, revocations(t, s, base), []auth.Revocation{client, token, user})
	same(t, revocations(t, s, base.Add(2)), []auth.Revocation{client, token})
	same(t, revocations(t, s, base.Add(4)), nil)
	if got := revocations(t, s, base)[1].Before; !got.IsZero() {
		t.Errorf("a zero time became %v", got)
	}

	// A second revocation can only move each time to later.
	user.Before, user.Expires = base.Add(5), base.Add(-5)
	must(t, s.Revoke(ctx, user))
	user.Before, user.Expires = base.Add(-5), base.Add(5)
	must(t, s.Revoke(ctx, user))
	user.Before = base.Add(5)
	same(t, revocations(t, s, base.Add(4)), []auth.Revocation{user})

	for _, err := range atOnce(func(i int) error {
		return s.Revoke(ctx, auth.Revocation{Kind: auth.RevokeUser, Subject: "race", Before: base.Add(time.Duration(i)),
			Expires: base.Add(100)})
	}) {
		must(t, err)
	}
	all := revocations(t, s, base.Add(50))
	same(t, all, []auth.Revocation{{Kind: auth.RevokeUser, Subject: "race", Before: base.Add(racers - 1),
		Expires: base.Add(100)}})
}

func keyIDs(t *testing.T, s auth.Store) []string {
	t.Helper()
	keys, err := s.Keys(t.Context())
	must(t, err)
	var ids []string
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return ids
}

func testKeys(t *testing.T, s auth.Store) {
	ctx := t.Context()
	same(t, keyIDs(t, s), nil)
	must(t, s.AddKey(ctx, &auth.Key{ID: "b", Private: []byte("old"), Created: base}, true))
	must(t, s.AddKey(ctx, &auth.Key{ID: "ignored", Created: base}, true))
	must(t, s.AddKey(ctx, &auth.Key{ID: "b", Created: base}, true))
	same(t, keyIDs(t, s), []string{"b"})

	private := bytes.Repeat([]byte{0, 0xff, '\'', '\n'}, 700)
	must(t, s.AddKey(ctx, &auth.Key{ID: "a", Private: private, Created: base.Add(2)}, false))
	must(t, s.AddKey(ctx, &auth.Key{ID: "c", Private: []byte{1}, Created: base.Add(1)}, false))
	refused(t, s.AddKey(ctx, &auth.Key{ID: "a", Created: base}, false), auth.ErrConflict)
	got, err := s.Keys(ctx)
	must(t, err)
	same(t, got, []*auth.Key{
		{ID: "a", Private: private, Created: base.Add(2)},
		{ID: "c", Private: []byte{1}, Created: base.Add(1)},
		{ID: "b", Private: []byte("old"), Created: base},
	})

	must(t, s.DeleteKey(ctx, "b"))
	must(t, s.DeleteKey(ctx, "b"))
	same(t, keyIDs(t, s), []string{"a", "c"})
}

func testKeyRaces(t *testing.T, s auth.Store) {
	ctx := t.Context()
	// Several servers start at once.
	for _, err := range atOnce(func(i int) error {
		return s.AddKey(ctx, &auth.Key{ID: fmt.Sprint("key ", i/2), Private: []byte{1}, Created: base.Add(time.Duration(i))},
			true)
	}) {
		must(t, err)
	}
	same(t, len(keyIDs(t, s)), 1)
}

func testPurge(t *testing.T, s auth.Store) {
	people(t, s)
	ctx := t.Context()
	for name, expires := range map[string]time.Time{"before": base.Add(-1), "now": base, "after": base.Add(1)} {
		must(t, s.SaveCode(ctx, &auth.Code{Hash: name, Kind: auth.CodePasscode, UserID: "anna", Expires: expires}))
		must(t, s.SaveSession(ctx, &auth.Session{Hash: name, UserID: "anna", Expires: expires}))
		r := newRefresh(name, "family", "anna", "cf")
		r.Expires = expires
		must(t, s.SaveRefresh(ctx, r))
		must(t, s.Revoke(ctx, auth.Revocation{Kind: auth.RevokeToken, Subject: name, Expires: expires}))
	}
	must(t, s.AddKey(ctx, &auth.Key{ID: "k", Private: []byte{1}, Created: base.Add(-time.Hour)}, false))
	for range 2 {
		must(t, s.Purge(ctx, base))
	}
	for name, want := range map[string]error{"before": auth.ErrNotFound, "now": nil, "after": nil} {
		_, err := s.TakeCode(ctx, name, base)
		refused(t, err, want)
		_, err = s.Session(ctx, name)
		refused(t, err, want)
		_, err = s.Refresh(ctx, name)
		refused(t, err, want)
	}
	var subjects []string
	for _, r := range revocations(t, s, base.Add(-time.Hour)) {
		subjects = append(subjects, r.Subject)
	}
	same(t, subjects, []string{"after", "now"})
	same(t, keyIDs(t, s), []string{"k"})
	_, err := s.User(ctx, "anna")
	must(t, err)
}
