package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ingot/internal/cf"
)

// counting counts the reads of a store. Each is one statement, or two for a
// page and its total.
type counting struct {
	cf.Store
	reads atomic.Int64
}

func (c *counting) View(ctx context.Context, f func(cf.Tx) error) error {
	return c.Store.View(ctx, func(tx cf.Tx) error { return f(&countingTx{tx, &c.reads}) })
}

type countingTx struct {
	cf.Tx
	n *atomic.Int64
}

func (t *countingTx) Organizations() cf.Repo[cf.Organization] {
	return counted(t, t.Tx.Organizations())
}
func (t *countingTx) Spaces() cf.Repo[cf.Space]             { return counted(t, t.Tx.Spaces()) }
func (t *countingTx) Apps() cf.Repo[cf.App]                 { return counted(t, t.Tx.Apps()) }
func (t *countingTx) Processes() cf.Repo[cf.Process]        { return counted(t, t.Tx.Processes()) }
func (t *countingTx) Instances() cf.Repo[cf.Instance]       { return counted(t, t.Tx.Instances()) }
func (t *countingTx) Routes() cf.Repo[cf.Route]             { return counted(t, t.Tx.Routes()) }
func (t *countingTx) Domains() cf.Repo[cf.Domain]           { return counted(t, t.Tx.Domains()) }
func (t *countingTx) Destinations() cf.Repo[cf.Destination] { return counted(t, t.Tx.Destinations()) }
func (t *countingTx) Droplets() cf.Repo[cf.Droplet]         { return counted(t, t.Tx.Droplets()) }
func (t *countingTx) Roles() cf.Repo[cf.Role]               { return counted(t, t.Tx.Roles()) }

type countingRepo[T any] struct {
	cf.Repo[T]
	n *atomic.Int64
}

func counted[T any](t *countingTx, r cf.Repo[T]) cf.Repo[T] { return countingRepo[T]{r, t.n} }

func (r countingRepo[T]) Get(guid string) (*T, error) { r.n.Add(1); return r.Repo.Get(guid) }
func (r countingRepo[T]) List(q cf.Query) ([]*T, int, error) {
	r.n.Add(1)
	return r.Repo.List(q)
}
func (r countingRepo[T]) First(q cf.Query) (*T, error)  { r.n.Add(1); return r.Repo.First(q) }
func (r countingRepo[T]) Count(q cf.Query) (int, error) { r.n.Add(1); return r.Repo.Count(q) }

// Lists read a bounded number of times, however many there are on the page and
// in the store. How long it takes is only told: that is for the benchmarks.
func TestListsReadTheStoreAFewTimes(t *testing.T) {
	t.Parallel()
	var reads *counting
	f := setupWith(t, func(s cf.Store) cf.Store { reads = &counting{Store: s}; return reads })
	org := f.org("o")
	space := f.space(org, "s")
	f.role("dev", "organization_user", org)
	f.role("dev", "space_developer", space)
	domain, _ := f.call(f.admin(), "GET", "/v3/domains", nil).at("resources.0.guid").(string)
	fill := func(from, to int) {
		err := f.store.Update(t.Context(), func(tx cf.Tx) error {
			for i := from; i < to; i++ {
				app := &cf.App{Name: fmt.Sprintf("app-%05d", i), SpaceGUID: space, State: cf.AppStarted, Lifecycle: cf.Lifecycle{Type: "buildpack", Stack: "cflinuxfs4"}, Env: map[string]string{"A": "b"}}
				if err := tx.Apps().Insert(app); err != nil {
					return err
				}
				if i >= 100 {
					continue
				}
				route := &cf.Route{SpaceGUID: space, DomainGUID: domain, Host: app.Name, Protocol: "http"}
				if err := tx.Routes().Insert(route); err != nil {
					return err
				}
				for _, err := range []error{
					tx.Processes().Insert(&cf.Process{Resource: cf.Resource{GUID: app.GUID}, AppGUID: app.GUID, Type: "web", Instances: 1, Command: "x", Health: cf.HealthCheck{Type: cf.CheckPort}, Readiness: cf.HealthCheck{Type: cf.CheckProcess}}),
					tx.Destinations().Insert(&cf.Destination{RouteGUID: route.GUID, AppGUID: app.GUID, ProcessType: "web", Protocol: "http1"}),
				} {
					if err != nil {
						return err
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{
		"/v3/apps?per_page=50&space_guids=" + space, "/v3/apps?per_page=50&include=space.organization", "/v3/processes?per_page=50&embed=process_instances",
		"/v3/routes?per_page=50&include=domain,space", "/v3/spaces?include=org", "/v3/droplets?per_page=50", "/v3/roles?include=space,organization",
	}
	tok := f.as("dev")
	count := func() map[string]int64 {
		out := map[string]int64{}
		for _, path := range paths {
			before := reads.reads.Load()
			f.want(f.call(tok, "GET", path, nil), 200)
			out[path] = reads.reads.Load() - before
		}
		return out
	}
	fill(0, 2)
	few := count()
	fill(2, manyApps)
	many := count()
	for _, path := range paths {
		if few[path] != many[path] || many[path] > 8 {
			t.Errorf("%s reads %d times of two apps and %d times of %d", path, few[path], many[path], manyApps)
		}
	}
	if n := many[paths[0]]; n != 1 {
		t.Errorf("a page of apps is read %d times", n)
	}
	var took []time.Duration
	for range 200 {
		r := httptest.NewRequest(http.MethodGet, paths[0], nil)
		r.Header.Set("Authorization", "bearer "+tok)
		w := httptest.NewRecorder()
		began := time.Now()
		f.handler.ServeHTTP(w, r)
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("GET /v3/apps?per_page=50 of %d apps: median %v, p99 %v", manyApps, took[len(took)/2], took[len(took)*99/100])
}
