package controller

import (
	"context"
	"maps"
	"slices"

	"ingot/internal/platform"
)

// WatchRoutes returns the store with somebody watching: after every change that
// was stored and matters to the route table, changed is told the guids of the
// routes in question. So nobody who changes something has to know which routes
// that concerns, and the publisher never has to look at all of them for it.
func WatchRoutes(store platform.Store, changed func(routeGUIDs ...string)) platform.Store {
	return watchedStore{store, changed}
}

type watchedStore struct {
	platform.Store
	changed func(routeGUIDs ...string)
}

// Update implements platform.Store.
func (s watchedStore) Update(ctx context.Context, f func(platform.Tx) error) error {
	var touched map[string]bool
	err := s.Store.Update(ctx, func(tx platform.Tx) error {
		touched = map[string]bool{} // f may run again
		return f(watchedTx{tx, touched})
	})
	delete(touched, "")
	if len(touched) > 0 {
		// After a failure as well: whether a commit that failed has happened
		// is not always known.
		s.changed(slices.Collect(maps.Keys(touched))...)
	}
	return err
}

// watchedTx notes what routes are touched. Domains are not watched: their names
// stay, and their routes go before them.
type watchedTx struct {
	platform.Tx
	touched map[string]bool
}

func (t watchedTx) Routes() platform.Repo[platform.Route] {
	return watchedRepo[platform.Route]{t.Tx.Routes(), t.touched, func(r *platform.Route) ([]string, error) { return []string{r.GUID}, nil }}
}

func (t watchedTx) Destinations() platform.Repo[platform.Destination] {
	return watchedRepo[platform.Destination]{t.Tx.Destinations(), t.touched, func(d *platform.Destination) ([]string, error) { return []string{d.RouteGUID}, nil }}
}

func (t watchedTx) ServiceBindings() platform.Repo[platform.ServiceBinding] {
	return watchedRepo[platform.ServiceBinding]{t.Tx.ServiceBindings(), t.touched, func(b *platform.ServiceBinding) ([]string, error) { return []string{b.RouteGUID}, nil }}
}

// ServiceInstances are watched for what they say of a route service.
func (t watchedTx) ServiceInstances() platform.Repo[platform.ServiceInstance] {
	return watchedRepo[platform.ServiceInstance]{t.Tx.ServiceInstances(), t.touched, func(i *platform.ServiceInstance) ([]string, error) {
		return guidsBy(t.Tx.ServiceBindings(), platform.Where("instance_guid", i.GUID).And(platform.In("type", platform.BindingRoute)),
			func(b *platform.ServiceBinding) string { return b.RouteGUID })
	}}
}

func guidsBy[T any](repo platform.Repo[T], q platform.Query, guid func(*T) string) ([]string, error) {
	rows, _, err := repo.List(q)
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = guid(row)
	}
	return out, err
}

// watchedRepo notes the routes of every row that is written.
type watchedRepo[T any] struct {
	platform.Repo[T]
	touched map[string]bool
	routes  func(*T) ([]string, error)
}

func (r watchedRepo[T]) note(rows ...*T) error {
	for _, row := range rows {
		guids, err := r.routes(row)
		if err != nil {
			return err
		}
		for _, guid := range guids {
			r.touched[guid] = true
		}
	}
	return nil
}

// Insert notes the row afterwards, when it has a guid.
func (r watchedRepo[T]) Insert(row *T) error {
	if err := r.Repo.Insert(row); err != nil {
		return err
	}
	return r.note(row)
}

// Update notes the routes that the row had, too.
func (r watchedRepo[T]) Update(row *T) error {
	if err := r.noteAll(platform.Where("guid", guidOf(row))); err != nil {
		return err
	}
	if err := r.Repo.Update(row); err != nil {
		return err
	}
	return r.note(row)
}

func (r watchedRepo[T]) Delete(guid string) error {
	if err := r.noteAll(platform.Where("guid", guid)); err != nil {
		return err
	}
	return r.Repo.Delete(guid)
}

func (r watchedRepo[T]) DeleteAll(q platform.Query) (int, error) {
	if err := r.noteAll(q); err != nil {
		return 0, err
	}
	return r.Repo.DeleteAll(q)
}

// noteAll notes what matches before it changes.
func (r watchedRepo[T]) noteAll(q platform.Query) error {
	q.Page, q.PerPage = 0, 0
	rows, _, err := r.Repo.List(q)
	if err != nil {
		return err
	}
	return r.note(rows...)
}

func guidOf[T any](row *T) string {
	if r, ok := any(row).(interface{ Base() *platform.Resource }); ok {
		return r.Base().GUID
	}
	return ""
}
