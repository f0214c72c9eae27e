package signals_test

import (
	"errors"
	"log/slog"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/edge/router"
	"ingot/internal/platform/edge/routetable"
	"ingot/internal/platform/instance/dns"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/logs/logfiles"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/run/controller/routing"
	"ingot/internal/platform/run/signals"
	"ingot/internal/server/cluster"
)

type noBackends struct{}

func (noBackends) Backends(string, string) []routing.Backend { return nil }

// When an action's transaction has committed, the router has the routes that it
// created and no longer those that it deleted, with whatever they were deleted,
// and the app's log has its line. What was rolled back leaves no trace.
func TestChangesReachRouterAndLog(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	to, err := logfiles.Open(t.TempDir(), logfiles.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(to.Stop)
	store, table := platformdb.New(d), &router.Table{}
	store.Notify(&signals.Signals{
		Bus: cluster.New(cluster.Options{DB: d}), Lines: to, Log: log,
		Publisher: routing.New(routing.Config{
			Store: store, Backends: noBackends{}, Table: routetable.Tables{Public: table, Internal: &dns.InternalNames{}},
			Log: log,
		}),
	})
	p, by := actions.New(), actions.Actor{GUID: "admin", Type: "user", Admin: true}
	for name, remove := range map[string]func(platform.Tx, *platform.Organization, *platform.Space, *platform.Domain,
		*platform.Route) error{
		"route": func(tx platform.Tx, _ *platform.Organization, _ *platform.Space, _ *platform.Domain,
			route *platform.Route) error {
			return p.DeleteRoute(tx, by, route)
		},
		"domain": func(tx platform.Tx, _ *platform.Organization, _ *platform.Space, domain *platform.Domain,
			_ *platform.Route) error {
			return p.DeleteDomain(tx, by, domain)
		},
		"space": func(tx platform.Tx, _ *platform.Organization, space *platform.Space, _ *platform.Domain,
			_ *platform.Route) error {
			return p.DeleteSpace(tx, by, space)
		},
		"org": func(tx platform.Tx, org *platform.Organization, _ *platform.Space, _ *platform.Domain,
			_ *platform.Route) error {
			return p.DeleteOrganization(tx, by, org)
		},
	} {
		var (
			org    *platform.Organization
			space  *platform.Space
			domain *platform.Domain
			route  *platform.Route
			app    *platform.App
		)
		make := func(fail error) error {
			return store.Update(t.Context(), func(tx platform.Tx) error {
				org, domain = &platform.Organization{Name: name}, &platform.Domain{Name: name + ".example.org"}
				if err := errors.Join(p.CreateOrganization(tx, by, org), tx.Domains().Insert(domain)); err != nil {
					return err
				}
				space = &platform.Space{Name: name, OrgGUID: org.GUID}
				if err := p.CreateSpace(tx, by, space); err != nil {
					return err
				}
				route = &platform.Route{SpaceGUID: space.GUID, DomainGUID: domain.GUID, Host: "www"}
				app = &platform.App{Resource: platform.Resource{GUID: "app-" + name}, Name: name, SpaceGUID: space.GUID}
				return errors.Join(p.CreateRoute(tx, by, route, domain), p.RecordApp(tx, "audit.app.create", by, app, nil), fail)
			})
		}
		expect := func(when string, want bool) {
			t.Helper()
			if _, found := table.Lookup("www."+name+".example.org", "/"); found != want {
				t.Errorf("%s, %s: the route is in the table: %v, want %v", name, when, found, want)
			}
		}
		broken := errors.New("broken")
		if err := make(broken); !errors.Is(err, broken) {
			t.Fatalf("got %v, want %v", err, broken)
		}
		expect("rolled back", false)
		if all, err := to.Meta(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("%s: %d logs after a transaction that was rolled back, %v, want none", name, len(all), err)
		}
		if err := make(nil); err != nil {
			t.Fatal(err)
		}
		expect("created", true)
		lines, err := to.Read(t.Context(), app.GUID, logs.ReadQuery{})
		if err != nil || len(lines) != 1 || lines[0].Source != "API" || lines[0].Time.IsZero() {
			t.Errorf("%s: the app's log is %+v, %v; want one line of the API", name, lines, err)
		}
		if err := to.DeleteApp(app.GUID); err != nil {
			t.Fatal(err)
		}
		if err := store.Update(t.Context(), func(tx platform.Tx) error {
			return remove(tx, org, space, domain,
				route)
		}); err != nil {
			t.Fatal(err)
		}
		expect("deleted", false)
	}
}
