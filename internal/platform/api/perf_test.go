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

	"github.com/google/uuid"

	"ingot/internal/platform"
)

// counting counts the reads of a store. Each is one statement, or two for a
// page and its total.
type counting struct {
	platform.Store
	reads atomic.Int64
}

func (c *counting) View(ctx context.Context, f func(platform.Tx) error) error {
	return c.Store.View(ctx, func(tx platform.Tx) error { return f(&countingTx{tx, &c.reads}) })
}

type countingTx struct {
	platform.Tx
	n *atomic.Int64
}

func (t *countingTx) Organizations() platform.Repo[platform.Organization] {
	return counted(t, t.Tx.Organizations())
}
func (t *countingTx) Spaces() platform.Repo[platform.Space]      { return counted(t, t.Tx.Spaces()) }
func (t *countingTx) Apps() platform.Repo[platform.App]          { return counted(t, t.Tx.Apps()) }
func (t *countingTx) Processes() platform.Repo[platform.Process] { return counted(t, t.Tx.Processes()) }
func (t *countingTx) Instances() platform.Repo[platform.Instance] {
	return counted(t, t.Tx.Instances())
}
func (t *countingTx) Routes() platform.Repo[platform.Route]   { return counted(t, t.Tx.Routes()) }
func (t *countingTx) Domains() platform.Repo[platform.Domain] { return counted(t, t.Tx.Domains()) }
func (t *countingTx) Destinations() platform.Repo[platform.Destination] {
	return counted(t, t.Tx.Destinations())
}
func (t *countingTx) Droplets() platform.Repo[platform.Droplet] { return counted(t, t.Tx.Droplets()) }
func (t *countingTx) Roles() platform.Repo[platform.Role]       { return counted(t, t.Tx.Roles()) }

type countingRepo[T any] struct {
	platform.Repo[T]
	n *atomic.Int64
}

func counted[T any](t *countingTx, r platform.Repo[T]) platform.Repo[T] {
	return countingRepo[T]{r, t.n}
}

func (r countingRepo[T]) Get(guid string) (*T, error) { r.n.Add(1); return r.Repo.Get(guid) }
func (r countingRepo[T]) List(q platform.Query) ([]*T, int, error) {
	r.n.Add(1)
	return r.Repo.List(q)
}
func (r countingRepo[T]) First(q platform.Query) (*T, error)  { r.n.Add(1); return r.Repo.First(q) }
func (r countingRepo[T]) Count(q platform.Query) (int, error) { r.n.Add(1); return r.Repo.Count(q) }

// Lists read a bounded number of times, however many there are on the page and
// in the store. How long it takes is only told: that is for the benchmarks.
func TestListsReadTheStoreAFewTimes(t *testing.T) {
	t.Parallel()
	var reads *counting
	f := setupWith(t, func(s platform.Store) platform.Store { reads = &counting{Store: s}; return reads })
	org := f.org("o")
	space := f.space(org, "s")
	f.role("dev", "organization_user", org)
	f.role("dev", "space_developer", space)
	domain, _ := f.call(f.admin(), "GET", "/v3/domains", nil).at("resources.0.guid").(string)
	fill := func(from, to int) {
		err := f.store.Update(t.Context(), func(tx platform.Tx) error {
			for i := from; i < to; i++ {
				app := &platform.App{Name: fmt.Sprintf("app-%05d", i), SpaceGUID: space, State: platform.AppStarted,
					Lifecycle: platform.Lifecycle{Type: "buildpack", Stack: "cflinuxfs4"}, Env: map[string]string{"A": "b"}}
				if err := tx.Apps().Insert(app); err != nil {
					return err
				}
				if i >= 100 {
					continue
				}
				route := &platform.Route{SpaceGUID: space, DomainGUID: domain, Host: app.Name, Protocol: "http"}
				if err := tx.Routes().Insert(route); err != nil {
					return err
				}
				for _, err := range []error{
					tx.Processes().Insert(&platform.Process{Resource: platform.Resource{GUID: app.GUID}, AppGUID: app.GUID,
						Type: "web", Version: uuid.NewString(), Instances: 1,
						ProcessSettings: platform.ProcessSettings{Command: "x",
							Health:    platform.HealthCheck{Type: platform.CheckPort},
							Readiness: platform.HealthCheck{Type: platform.CheckProcess}}}),
					tx.Destinations().Insert(&platform.Destination{RouteGUID: route.GUID, AppGUID: app.GUID, ProcessType: "web",
						Protocol: "http1"}),
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
		"/v3/apps?per_page=50&space_guids=" + space, "/v3/apps?per_page=50&include=space.organization",
		"/v3/processes?per_page=50&embed=process_instances",
		"/v3/routes?per_page=50&include=domain,space", "/v3/spaces?include=org", "/v3/droplets?per_page=50",
		"/v3/roles?include=space,organization",
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
