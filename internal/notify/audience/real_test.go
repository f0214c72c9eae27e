package audience_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"ingot/internal/auth"
	"ingot/internal/auth/authdb"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/token"
	"ingot/internal/base/uaaclient"
	"ingot/internal/base/web"
	"ingot/internal/notify"
	"ingot/internal/notify/audience"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api"
	"ingot/internal/platform/api/orgs"
	"ingot/internal/platform/platformdb"
)

const realUsers = 120

// realAuth starts our authorization server with some users.
func realAuth(t *testing.T) (string, auth.Store, []string) {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, authdb.Migrations)
	store := authdb.New(d)
	quiet := slog.New(slog.DiscardHandler)
	secrets := auth.Secrets{AdminPassword: "p", AdminClientSecret: "s", Components: map[string]string{
		auth.ClientPlatform: "p", auth.ClientNotifications: "n&n", auth.ClientConsole: "c", auth.ClientSSH: "s",
	}}
	if err := auth.Bootstrap(t.Context(), store, secrets, nil, quiet); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for i := range realUsers {
		u := &auth.User{
			ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), UserName: fmt.Sprintf("user-%d", i), Origin: auth.OriginUAA,
			Email: fmt.Sprintf("user-%d@example.org", i), Active: true, Created: time.Now(), Modified: time.Now(),
		}
		if i == 9 {
			u.Locale = "de-CH"
		}
		if err := store.CreateUser(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, u.ID)
	}
	l := httptest.NewUnstartedServer(nil)
	base := "http://" + l.Listener.Addr().String()
	server, err := auth.New(auth.Options{Store: store, BaseURL: base, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	mux := web.NewMux(web.FormatOAuth, quiet, nil)
	server.Routes(mux)
	l.Config.Handler = web.Pipeline(mux, web.FormatOAuth, quiet)
	l.Start()
	t.Cleanup(func() {
		l.Close()
		server.Stop()
	})
	return base, store, ids
}

type noDirectory struct{}

func (noDirectory) UsersByID(context.Context, []string) (map[string]orgs.DirectoryUser, error) {
	return nil, nil
}

func (noDirectory) CreateUser(context.Context, string, string) (orgs.DirectoryUser, error) {
	return orgs.DirectoryUser{}, nil
}

func (noDirectory) ClientExists(context.Context, string) (bool, error) { return false, nil }

func (noDirectory) UsersByName(context.Context, []string, []string) ([]orgs.DirectoryUser, error) {
	return nil, nil
}

// realPlatform starts our platform's API with an organization and a space.
func realPlatform(t *testing.T, authURL string, users []string) (address, org, space string) {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, platformdb.Migrations)
	store := platformdb.New(d)
	o, s := &platform.Organization{Name: "acme"}, &platform.Space{Name: "dev"}
	err := store.Update(t.Context(), func(tx platform.Tx) error {
		if err := tx.Organizations().Insert(o); err != nil {
			return err
		}
		s.OrgGUID = o.GUID
		if err := tx.Spaces().Insert(s); err != nil {
			return err
		}
		for i, id := range users {
			if err := tx.Users().Insert(&platform.User{Resource: platform.Resource{GUID: id}}); err != nil {
				return err
			}
			roles := []*platform.Role{{Type: platform.OrgUser, UserGUID: id, OrgGUID: o.GUID}, {Type: platform.SpaceDeveloper,
				UserGUID: id, SpaceGUID: s.GUID}}
			if i < 3 {
				roles = append(roles, &platform.Role{Type: platform.OrgManager, UserGUID: id, OrgGUID: o.GUID},
					&platform.Role{Type: platform.SpaceManager, UserGUID: id, SpaceGUID: s.GUID})
			}
			for _, r := range roles {
				if err := tx.Roles().Insert(r); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	keys := &http.Client{Timeout: 10 * time.Second}
	a := api.New(api.Options{Store: store, Platform: actions.New(), Directory: noDirectory{}, Log: quiet,
		Verifier: token.NewVerifier(token.Options{
			Issuer: authURL + "/oauth/token", Audiences: []string{"cloud_controller"}, Keys: token.NewRemoteKeys(authURL, keys),
		})})
	mux := web.NewMux(web.FormatV3, quiet, nil)
	a.Routes(mux)
	l := httptest.NewServer(web.Pipeline(mux, web.FormatV3, quiet))
	t.Cleanup(func() {
		l.Close()
		keys.CloseIdleConnections()
	})
	return l.URL, o.GUID, s.GUID
}

// Our own authorization server and platform, with the authorities that the
// notification service's client has there, answer all that is asked.
func TestRealServers(t *testing.T) {
	t.Parallel()
	authURL, store, users := realAuth(t)
	platformURL, org, space := realPlatform(t, authURL, users[:60])
	uaa := uaaclient.New(uaaclient.Options{BaseURL: authURL, ClientID: auth.ClientNotifications, Secret: "n&n"})
	b := &bundle{dir: audience.New(audience.Options{UAA: uaa, PlatformURL: platformURL})}
	t.Cleanup(func() { uaa.Close(); b.dir.Close() })

	inner := &auth.Group{ID: "inner", Name: "inner.scope",
		Members: []auth.Member{{ID: users[0], Type: auth.MemberUser, Origin: auth.OriginUAA}}}
	outer := &auth.Group{ID: "outer", Name: "outer.scope", Members: []auth.Member{
		{ID: users[1], Type: auth.MemberUser, Origin: auth.OriginUAA}, {ID: "inner", Type: auth.MemberGroup,
			Origin: auth.OriginUAA},
	}}
	for _, g := range []*auth.Group{inner, outer} {
		if err := store.CreateGroup(t.Context(), g); err != nil {
			t.Fatal(err)
		}
	}

	everyone, pages := b.all(t, notify.Audience{Type: notify.ToEveryone}, 50)
	got := distinct(everyone)
	// and admin
	if len(got) != realUsers+1 || len(everyone) != realUsers+1 || pages != 3 || got[users[7]] != "user-7@example.org" {
		t.Errorf("%d of %d users, %d different, in %d pages", len(everyone), realUsers+1, len(got), pages)
	}
	for _, test := range []struct {
		a          notify.Audience
		want       []string
		spaceName  string
		perhapsTwo bool
	}{
		{notify.Audience{Type: notify.ToSpace, ID: space}, users[:60], "dev", true},
		{notify.Audience{Type: notify.ToOrg, ID: org}, users[:60], "", true},
		{notify.Audience{Type: notify.ToOrg, ID: org, Role: "OrgManager"}, users[:3], "", false},
		{notify.Audience{Type: notify.ToOrg, ID: org, Role: "OrgAuditor"}, nil, "", false},
		{notify.Audience{Type: notify.ToScope, ID: "outer.scope"}, users[:2], "", false},
	} {
		a, err := b.dir.Resolve(t.Context(), test.a)
		if err != nil || a.Type != notify.ToScope && (a.OrgName != "acme" || a.OrgID != org ||
			a.SpaceName != test.spaceName) {
			t.Errorf("audience is %+v, %v, want org acme and space %q", a, err, test.spaceName)
		}
		members, _ := b.all(t, a, 50)
		var ids []string
		for _, m := range members {
			ids = append(ids, m.UserID)
		}
		slices.Sort(ids)
		if test.perhapsTwo {
			ids = slices.Compact(ids)
		}
		if !slices.Equal(ids, test.want) {
			t.Errorf("%+v: %d members, want %d", test.a, len(ids), len(test.want))
		}
	}
	emails, err := b.dir.Emails(t.Context(), append(slices.Clone(users[:70]), "unknown"))
	if err != nil || len(emails) != 70 || emails[users[9]] != "user-9@example.org" {
		t.Errorf("%d addresses, %v", len(emails), err)
	}
	locales, err := b.dir.Locales(t.Context(), append(slices.Clone(users[:70]), "unknown"))
	if err != nil || len(locales) != 70 || locales[users[9]] != "de-CH" || locales[users[8]] != "" {
		t.Errorf("%d locales: %v, %v", len(locales), locales, err)
	}
	for a, code := range map[notify.Audience]fault.Code{
		{Type: notify.ToSpace, ID: "nope"}:          fault.NotFound,
		{Type: notify.ToOrg, ID: "nope"}:            fault.NotFound,
		{Type: notify.ToScope, ID: "no.such.scope"}: fault.NotFound,
		{Type: notify.ToScope, ID: "openid"}:        fault.NotAcceptable,
	} {
		if _, err := b.dir.Resolve(t.Context(), a); !fault.Is(err, code) {
			t.Errorf("resolving %+v: error is %v, want %s", a, err, code)
		}
	}
}
