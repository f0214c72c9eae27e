package actions

import (
	"errors"
	"strings"
	"testing"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// routing returns the fixture with a second organization and space, and these
// domains: apps.example, which is shared; org.example of the first organization;
// int.example, which is internal. www.apps.example and docs.apps.example/docs are
// routes of the first space.
func routing(t *testing.T) (platform.Store, *Platform) {
	t.Helper()
	store, _, _ := fixture(t)
	id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
	update(t, store, func(tx platform.Tx) error {
		return errors.Join(
			tx.Organizations().Insert(&platform.Organization{Resource: id("org2"), Name: "o2", QuotaGUID: "quota"}),
			tx.Spaces().Insert(&platform.Space{Resource: id("space2"), Name: "s2", OrgGUID: "org2"}),
			tx.Domains().Insert(&platform.Domain{Resource: id("shared"), Name: "apps.example"}),
			tx.Domains().Insert(&platform.Domain{Resource: id("private"), Name: "org.example", OrgGUID: "org"}),
			tx.Domains().Insert(&platform.Domain{Resource: id("internal"), Name: "int.example", Internal: true}),
			tx.Routes().Insert(&platform.Route{Resource: id("www"), SpaceGUID: "space", DomainGUID: "shared", Host: "www",
				Protocol: "http"}),
			tx.Routes().Insert(&platform.Route{Resource: id("docs"), SpaceGUID: "space", DomainGUID: "shared", Host: "docs",
				Path: "/docs", Protocol: "http"}),
		)
	})
	p := New()
	p.SystemDomain, p.Reserved = "sys.example", []string{"api.sys.example", "login.apps.example"}
	return store, p
}

var errDone = errors.New("done")

func TestCreateRoute(t *testing.T) {
	t.Parallel()
	store, p := routing(t)
	for _, x := range []struct {
		what   string
		route  platform.Route
		domain string
		admin  bool
		want   string
	}{
		{"new", platform.Route{SpaceGUID: "space", Host: "shop"}, "shared", false, ""},
		{"the same", platform.Route{SpaceGUID: "space", Host: "www"}, "shared", false,
			"Route already exists with host 'www' for domain 'apps.example'."},
		{"the same in other case", platform.Route{SpaceGUID: "space", Host: "WWW"}, "shared", false, "Route already exists"},
		{"the same path", platform.Route{SpaceGUID: "space", Host: "docs", Path: "/docs"}, "shared", false,
			"Route already exists with host 'docs' and path '/docs'"},
		{"another path", platform.Route{SpaceGUID: "space", Host: "www", Path: "/shop"}, "shared", false, ""},
		{"another space's host", platform.Route{SpaceGUID: "space2", Host: "www", Path: "/shop"}, "shared", false,
			"reserved for another space"},
		{"reserved", platform.Route{SpaceGUID: "space", Host: "login"}, "shared", false,
			"conflicts with a reserved system route"},
		{"reserved, administrator", platform.Route{SpaceGUID: "space", Host: "LOGIN"}, "shared", true,
			"conflicts with a reserved system route"},
		{"wildcard", platform.Route{SpaceGUID: "space", Host: "*"}, "shared", false, "Wildcard hosts on shared domains"},
		{"wildcard, administrator", platform.Route{SpaceGUID: "space", Host: "*"}, "shared", true, ""},
		{"wildcard on a private domain", platform.Route{SpaceGUID: "space", Host: "*"}, "private", false, ""},
		{"domain itself", platform.Route{SpaceGUID: "space"}, "private", false, ""},
		{"shared domain itself", platform.Route{SpaceGUID: "space"}, "shared", false, "host"},
		{"internal", platform.Route{SpaceGUID: "space", Host: "db"}, "internal", false, ""},
		{"internal with a path", platform.Route{SpaceGUID: "space", Host: "db", Path: "/x"}, "internal", false, "internal"},
		{"bad host", platform.Route{SpaceGUID: "space", Host: "a b"}, "shared", false, "Host"},
	} {
		err := store.Update(t.Context(), func(tx platform.Tx) error {
			d, err := tx.Domains().Get(x.domain)
			if err != nil {
				return err
			}
			x.route.DomainGUID = d.GUID
			if err := p.CreateRoute(tx, Actor{Admin: x.admin}, &x.route, d); err != nil {
				return err
			}
			return errDone // undo it: each case sees the same routes
		})
		if x.want == "" && !errors.Is(err, errDone) || x.want != "" && (!fault.Is(err, fault.Unprocessable) ||
			!strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s: got %v, want %q", x.what, err, x.want)
		}
	}
}

// TestCreateRouteNested sees that a name cannot be both a domain and a route.
func TestCreateRouteNested(t *testing.T) {
	t.Parallel()
	store, p := routing(t)
	update(t, store, func(tx platform.Tx) error {
		sub := &platform.Domain{Name: "sub.org.example", OrgGUID: "org"}
		if err := p.CreateDomain(tx, Actor{}, sub); err != nil {
			return err
		}
		private, err := tx.Domains().Get("private")
		if err != nil {
			return err
		}
		err = p.CreateRoute(tx, Actor{}, &platform.Route{SpaceGUID: "space", DomainGUID: "private", Host: "sub"}, private)
		if want := "Route conflicts with domain 'sub.org.example'."; !fault.Is(err, fault.Unprocessable) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		return nil
	})
}

func TestCreateDomain(t *testing.T) {
	t.Parallel()
	store, p := routing(t)
	for _, x := range []struct {
		name, org string
		admin     bool
		want      string
	}{
		{"new.example", "org", false, ""},
		{"new.example", "", true, ""},
		{"ORG.example", "org", false, `The domain name "org.example" is already in use`},
		{"not a name", "org", false, "Name"},
		{"sub.org.example", "org", false, ""},
		{"sub.org.example", "org2", false, `"org.example" is already reserved by another domain`},
		{"sub.apps.example", "org2", false, `"apps.example" is already reserved by another domain`},
		{"sub.apps.example", "org2", true, ""},
		{"www.apps.example", "org", true, "already in use by a route"},
		{"api.sys.example", "org", true, "is reserved for the platform"},
		{"x.api.sys.example", "org", true, "is reserved for the platform"},
		{"more.sys.example", "org", false, "an administrator can create it"},
		{"more.sys.example", "org", true, ""},
	} {
		err := store.Update(t.Context(), func(tx platform.Tx) error {
			if err := p.CreateDomain(tx, Actor{Admin: x.admin}, &platform.Domain{Name: x.name, OrgGUID: x.org}); err != nil {
				return err
			}
			return errDone
		})
		if x.want == "" && !errors.Is(err, errDone) || x.want != "" && (!fault.Is(err, fault.Unprocessable) ||
			!strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s of %q, administrator %v: got %v, want %q", x.name, x.org, x.admin, err, x.want)
		}
	}
}

func TestShareDomain(t *testing.T) {
	t.Parallel()
	store, p := routing(t)
	update(t, store, func(tx platform.Tx) error {
		shared, err := tx.Domains().Get("shared")
		if err != nil {
			return err
		}
		private, err := tx.Domains().Get("private")
		if err != nil {
			return err
		}
		for _, x := range []struct {
			domain *platform.Domain
			org    string
			want   string
		}{
			{shared, "org2", "unless they are scoped to an organization"},
			{private, "org", "cannot be shared with owning organization"},
		} {
			if err := p.ShareDomain(tx, x.domain, []string{x.org}); !fault.Is(err, fault.Unprocessable) ||
				!strings.Contains(err.Error(), x.want) {
				t.Errorf("sharing %s with %s: got %v, want %q", x.domain.Name, x.org, err, x.want)
			}
		}
		for range 2 {
			if err := p.ShareDomain(tx, private, []string{"org2"}); err != nil || len(private.SharedOrgs) != 1 {
				t.Errorf("shared with %v (%v), want org2 once", private.SharedOrgs, err)
			}
		}
		route := &platform.Route{SpaceGUID: "space2", DomainGUID: "private", Host: "x"}
		if err := p.CreateRoute(tx, Actor{}, route, private); err != nil {
			return err
		}
		if err := p.UnshareDomain(tx, private, "org2"); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("unsharing a domain with routes: got %v, want fault.Unprocessable", err)
		}
		if err := p.DeleteRoute(tx, Actor{}, route); err != nil {
			return err
		}
		if err := p.UnshareDomain(tx, private, "org2"); err != nil || len(private.SharedOrgs) != 0 {
			t.Errorf("unshared (%v) it is shared with %v, want none", err, private.SharedOrgs)
		}
		return nil
	})
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	store, p := routing(t)
	update(t, store, func(tx platform.Tx) error {
		route, err := tx.Routes().Get("www")
		if err != nil {
			return err
		}
		count := func(want int, what string) {
			t.Helper()
			if n, err := tx.Destinations().Count(platform.Where("route_guid", "www")); n != want || err != nil {
				t.Errorf("%s: %d destinations (%v), want %d", what, n, err, want)
			}
		}
		to := func(kind, protocol string, weight int) *platform.Destination {
			return &platform.Destination{AppGUID: "app", ProcessType: kind, Protocol: protocol, Weight: weight}
		}
		if err := p.AddDestinations(tx, Actor{}, route, []*platform.Destination{to("web", "http1", 0), to("web", "http1", 0),
			to("api", "http1", 0)}); err != nil {
			return err
		}
		count(2, "one twice, another once")
		if err := p.AddDestinations(tx, Actor{}, route, []*platform.Destination{to("web", "http2", 0)}); !fault.Is(err,
			fault.Unprocessable) {
			t.Errorf("the same with another protocol: got %v, want fault.Unprocessable", err)
		}
		if err := p.ReplaceDestinations(tx, Actor{}, route, []*platform.Destination{to("web", "http1", 100)}); err != nil {
			return err
		}
		count(1, "replaced")
		if err := p.AddDestinations(tx, Actor{}, route, []*platform.Destination{to("api", "http1", 0)}); !fault.Is(err,
			fault.Unprocessable) {
			t.Errorf("beside a weighted one: got %v, want fault.Unprocessable", err)
		}
		if got, want := events(t, tx), "map-route map-route unmap-route unmap-route map-route"; got != want {
			t.Errorf("the events are %q, want %q", got, want)
		}
		return nil
	})
}
