package authtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/auth/scim"
)

func testClients(t *testing.T, s auth.Store) {
	ctx := t.Context()
	full := &auth.Client{
		ID: "cf", Secrets: []string{"hash one", "hash two"}, Name: "The CLI",
		Scopes: []string{"openid", "cloud_controller.read"}, Authorities: []string{"uaa.none"},
		GrantTypes: []string{auth.GrantPassword, auth.GrantRefreshToken}, RedirectURIs: []string{"https://a/b?c=d&e"},
		AutoApprove: []string{"true"}, ResourceIDs: []string{"none"},
		AccessValidity: 600 * time.Second, RefreshValidity: 30 * 24 * time.Hour, Public: true,
		Created: base, Modified: base.Add(time.Nanosecond),
		More: map[string]json.RawMessage{"big": json.RawMessage("12345678901234567890"),
			"x": json.RawMessage(`{"a":[1,null]}`)},
	}

	must(t, s.CreateClient(ctx, full))
	got, err := s.Client(ctx, "cf")
	must(t, err)
	same(t, got, full)

	t.Run("Bare", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateClient(t.Context(), &auth.Client{ID: "bare"}))
		got, err := s.Client(t.Context(), "bare")
		must(t, err)
		same(t, got, &auth.Client{ID: "bare"})
		if !got.Created.IsZero() || !got.Modified.IsZero() {
			t.Errorf("zero times became %v and %v", got.Created, got.Modified)
		}
	})
	t.Run("EmptyIsNil", func(t *testing.T) {
		t.Parallel()
		empty := []string{}
		must(t, s.CreateClient(t.Context(), &auth.Client{ID: "nil"}))
		must(t, s.CreateClient(t.Context(), &auth.Client{ID: "empty", Secrets: empty, Scopes: empty, Authorities: empty,
			GrantTypes: empty, RedirectURIs: empty, AutoApprove: empty, ResourceIDs: empty, More: map[string]json.RawMessage{}}))
		a, err := s.Client(t.Context(), "nil")
		must(t, err)
		b, err := s.Client(t.Context(), "empty")
		must(t, err)
		for i, pair := range [][2][]string{
			{a.Secrets, b.Secrets},
			{a.Scopes, b.Scopes},
			{a.Authorities, b.Authorities},
			{a.GrantTypes, b.GrantTypes},
			{a.RedirectURIs, b.RedirectURIs},
			{a.AutoApprove, b.AutoApprove},
			{a.ResourceIDs, b.ResourceIDs},
		} {
			if (pair[0] == nil) != (pair[1] == nil) {
				t.Errorf("list %d: nil reads as %#v, empty as %#v", i, pair[0], pair[1])
			}
		}
		if (a.More == nil) != (b.More == nil) {
			t.Errorf("More: nil reads as %#v, empty as %#v", a.More, b.More)
		}
	})
	t.Run("ErrConflict", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateClient(t.Context(), newClient("twice")))
		refused(t, s.CreateClient(t.Context(), newClient("twice")), auth.ErrConflict)
		must(t, s.CreateClient(t.Context(), newClient("TWICE"))) // ids are case-sensitive
	})
	t.Run("ErrNotFound", func(t *testing.T) {
		t.Parallel()
		_, err := s.Client(t.Context(), "nobody")
		refused(t, err, auth.ErrNotFound)
		_, err = s.UpdateClient(t.Context(), "nobody", func(*auth.Client) error { return errors.New("was called") })
		refused(t, err, auth.ErrNotFound)
		_, err = s.DeleteClient(t.Context(), "nobody")
		refused(t, err, auth.ErrNotFound)
	})
	t.Run("Update", func(t *testing.T) {
		t.Parallel()
		ctx := t.Context()
		must(t, s.CreateClient(ctx, newClient("update")))
		changed, err := s.UpdateClient(ctx, "update", func(c *auth.Client) error {
			c.ID = "must not move"
			c.Scopes = append(c.Scopes, "new")
			c.GrantTypes = nil
			c.Modified = base.Add(time.Hour)
			return nil
		})
		must(t, err)
		want := newClient("update")
		want.Scopes, want.GrantTypes, want.Modified = []string{"new"}, nil, base.Add(time.Hour)
		same(t, changed, want)
		got, err := s.Client(ctx, "update")
		must(t, err)
		same(t, got, want)

		no := errors.New("no")
		_, err = s.UpdateClient(ctx, "update", func(c *auth.Client) error {
			c.Scopes[0] = "changed"
			return no
		})
		refused(t, err, no)
		got, err = s.Client(ctx, "update")
		must(t, err)
		same(t, got, want)
	})
	t.Run("Delete", func(t *testing.T) {
		t.Parallel()
		must(t, s.CreateClient(t.Context(), newClient("delete")))
		gone, err := s.DeleteClient(t.Context(), "delete")
		must(t, err)
		same(t, gone, newClient("delete"))
		_, err = s.Client(t.Context(), "delete")
		refused(t, err, auth.ErrNotFound)
	})
}

func testClientList(t *testing.T, s auth.Store) {
	ctx := t.Context()
	// Created in the order of their numbers; ids in the opposite one.
	for i := range 5 {
		c := newClient(fmt.Sprintf("client-%d", 9-i))
		c.Created = base.Add(time.Duration(i))
		must(t, s.CreateClient(ctx, c))
	}
	for name, test := range map[string]struct {
		query auth.Query
		total int
		ids   []string
	}{
		"ByCreation": {auth.Query{Start: 1, Count: 3}, 5, []string{"client-9", "client-8", "client-7"}},
		"Latest":     {auth.Query{Start: 1, Count: 2, Descending: true}, 5, []string{"client-5", "client-6"}},
		"LastPage":   {auth.Query{Start: 4, Count: 3}, 5, []string{"client-6", "client-5"}},
		"ByID":       {auth.Query{SortBy: "client_id", Start: 1, Count: 2}, 5, []string{"client-5", "client-6"}},
		"ByIDDown":   {auth.Query{SortBy: "id", Descending: true, Start: 2, Count: 2}, 5, []string{"client-8", "client-7"}},
		"Filter": {auth.Query{Filter: parse(t, `client_id eq "client-7" or id eq "client-5"`), Start: 1, Count: 9}, 2,
			[]string{"client-7", "client-5"}},
		"FilterMinds":  {auth.Query{Filter: parse(t, `client_id eq "CLIENT-7"`), Start: 1, Count: 9}, 0, nil},
		"StartAtZero":  {auth.Query{Start: 0, Count: 1}, 5, []string{"client-9"}},
		"StartBelow":   {auth.Query{Start: -3, Count: 1}, 5, []string{"client-9"}},
		"Beyond":       {auth.Query{Start: 6, Count: 3}, 5, nil},
		"FarBeyond":    {auth.Query{Start: 1 << 40, Count: 3}, 5, nil},
		"OnlyTheTotal": {auth.Query{Start: 1, Count: 0}, 5, nil},
		"CountBelow":   {auth.Query{Start: 1, Count: -1}, 5, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			page, total, err := s.Clients(t.Context(), test.query)
			must(t, err)
			var ids []string
			for _, c := range page {
				ids = append(ids, c.ID)
			}
			same(t, ids, test.ids)
			same(t, total, test.total)
		})
	}
	t.Run("ErrAttribute", func(t *testing.T) {
		t.Parallel()
		_, _, err := s.Clients(t.Context(), auth.Query{Filter: parse(t, `secrets pr`), Start: 1, Count: 9})
		wantAttribute(t, err, "secrets")
		_, _, err = s.Clients(t.Context(), auth.Query{SortBy: "secrets", Start: 1, Count: 9})
		wantAttribute(t, err, "secrets")
	})
}

// wantAttribute fails the test unless the error says that the attribute does not
// exist.
func wantAttribute(t *testing.T, err error, name string) {
	t.Helper()
	var unknown *scim.AttributeError
	if !errors.As(err, &unknown) || unknown.Attr != name || len(unknown.Known) == 0 {
		t.Fatalf("got error %v, want one that says there is no attribute %q", err, name)
	}
}
