package controller

import (
	"context"
	"maps"
	"slices"

	"ingot/internal/cf"
)

// WatchRoutes returns the store with somebody watching: after every change that
// was stored and matters to the route table, changed is told the guids of the
// routes in question. So nobody who changes something has to know which routes
// that concerns, and the publisher never has to look at all of them for it.
func WatchRoutes(store cf.Store, changed func(routeGUIDs ...string)) cf.Store {
	return watchedStore{store, changed}
}

type watchedStore struct {
	cf.Store
	changed func(routeGUIDs ...string)
}

// Update implements cf.Store.
func (s watchedStore) Update(ctx context.Context, f func(cf.Tx) error) error {
	var touched map[string]bool
	err := s.Store.Update(ctx, func(tx cf.Tx) error {
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
	cf.Tx
	touched map[string]bool
}

func (t watchedTx) Routes() cf.Repo[cf.Route] {
	return watchedRepo[cf.Route]{t.Tx.Routes(), t.touched, func(r *cf.Route) ([]string, error) { return []string{r.GUID}, nil }}
}

func (t watchedTx) Destinations() cf.Repo[cf.Destination] {
	return watchedRepo[cf.Destination]{t.Tx.Destinations(), t.touched, func(d *cf.Destination) ([]string, error) { return []string{d.RouteGUID}, nil }}
}

func (t watchedTx) ServiceBindings() cf.Repo[cf.ServiceBinding] {
	return watchedRepo[cf.ServiceBinding]{t.Tx.ServiceBindings(), t.touched, func(b *cf.ServiceBinding) ([]string, error) { return []string{b.RouteGUID}, nil }}
}

// ServiceInstances are watched for what they say of a route service.
func (t watchedTx) ServiceInstances() cf.Repo[cf.ServiceInstance] {
	return watchedRepo[cf.ServiceInstance]{t.Tx.ServiceInstances(), t.touched, func(i *cf.ServiceInstance) ([]string, error) {
		return guidsBy(t.Tx.ServiceBindings(), cf.Where("instance_guid", i.GUID).And(cf.In("type", cf.BindingRoute)),
			func(b *cf.ServiceBinding) string { return b.RouteGUID })
	}}
}

func guidsBy[T any](repo cf.Repo[T], q cf.Query, guid func(*T) string) ([]string, error) {
	rows, _, err := repo.List(q)
	out := make([]string, len(rows))
	for i, row := range rows {
		out[i] = guid(row)
	}
	return out, err
}

// watchedRepo notes the routes of every row that is written.
type watchedRepo[T any] struct {
	cf.Repo[T]
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
	if err := r.noteAll(cf.Where("guid", guidOf(row))); err != nil {
		return err
	}
	if err := r.Repo.Update(row); err != nil {
		return err
	}
	return r.note(row)
}

func (r watchedRepo[T]) Delete(guid string) error {
	if err := r.noteAll(cf.Where("guid", guid)); err != nil {
		return err
	}
	return r.Repo.Delete(guid)
}

func (r watchedRepo[T]) DeleteAll(q cf.Query) (int, error) {
	if err := r.noteAll(q); err != nil {
		return 0, err
	}
	return r.Repo.DeleteAll(q)
}

// noteAll notes what matches before it changes.
func (r watchedRepo[T]) noteAll(q cf.Query) error {
	q.Page, q.PerPage = 0, 0
	rows, _, err := r.Repo.List(q)
	if err != nil {
		return err
	}
	return r.note(rows...)
}

func guidOf[T any](row *T) string {
	if r, ok := any(row).(interface{ Base() *cf.Resource }); ok {
		return r.Base().GUID
	}
	return ""
}
