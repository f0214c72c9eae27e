package api_test

import (
	"context"
	"maps"
	"slices"
	"testing"

	"ingot/internal/platform"
)

// announcedStore fails the test when a transaction changes what the route table, the names in
// logs or the instances of apps follow from and does not announce it: the Sink would not be
// told of such a change.
type announcedStore struct {
	platform.Store
	t *testing.T
}

func (s announcedStore) Update(ctx context.Context, f func(platform.Tx) error) error {
	var x *announcedTx
	err := s.Store.Update(ctx, func(tx platform.Tx) error {
		x = &announcedTx{Tx: tx, routes: map[string]bool{}}
		return f(x)
	})
	if err != nil {
		return err
	}
	for _, guid := range x.changes.Routes {
		delete(x.routes, guid)
	}
	if len(x.routes) > 0 {
		s.t.Errorf("the routes %q were changed and not announced", slices.Collect(maps.Keys(x.routes)))
	}
	if x.names && !x.changes.Names {
		s.t.Error("a name was changed and not announced")
	}
	for _, guid := range x.apps {
		if !slices.Contains(x.changes.Apps, guid) {
			s.t.Errorf("the app %s was started, stopped or deleted, and not announced", guid)
		}
	}
	for _, guid := range x.builds {
		if !slices.Contains(x.changes.Builds, guid) {
			s.t.Errorf("the build %s was created and not announced", guid)
		}
	}
	if x.tasks && !x.changes.Tasks {
		s.t.Error("a task was created and not announced")
	}
	return nil
}

// announcedTx notes what should be announced, and what is.
type announcedTx struct {
	platform.Tx
	changes platform.Changes
	routes  map[string]bool
	names   bool
	apps    []string
	builds  []string
	tasks   bool
}

func (x *announcedTx) Announce(c platform.Changes) {
	x.changes.Add(c)
	x.Tx.Announce(c)
}

func (x *announcedTx) route(guid string) {
	if guid != "" {
		x.routes[guid] = true
	}
}

func (x *announcedTx) Routes() platform.Repo[platform.Route] {
	return notedRepo[platform.Route]{x.Tx.Routes(), func(before, after *platform.Route) {
		for _, r := range notNil(before, after) {
			x.route(r.GUID)
		}
	}}
}

func (x *announcedTx) Destinations() platform.Repo[platform.Destination] {
	return notedRepo[platform.Destination]{x.Tx.Destinations(), func(before, after *platform.Destination) {
		for _, d := range notNil(before, after) {
			x.route(d.RouteGUID)
		}
	}}
}

func (x *announcedTx) ServiceBindings() platform.Repo[platform.ServiceBinding] {
	return notedRepo[platform.ServiceBinding]{x.Tx.ServiceBindings(), func(before, after *platform.ServiceBinding) {
		if before != nil && after != nil && before.RouteServiceURL == after.RouteServiceURL &&
			before.Last.Exists() == after.Last.Exists() {
			return // its metadata, for example
		}
		for _, b := range notNil(before, after) {
			x.route(b.RouteGUID)
		}
	}}
}

func (x *announcedTx) ServiceInstances() platform.Repo[platform.ServiceInstance] {
	return notedRepo[platform.ServiceInstance]{x.Tx.ServiceInstances(), func(before, after *platform.ServiceInstance) {
		if before == nil || after == nil || before.RouteServiceURL == after.RouteServiceURL {
			return
		}
		bound, _, _ := x.Tx.ServiceBindings().List(platform.Where("instance_guid", after.GUID))
		for _, b := range bound {
			x.route(b.RouteGUID)
		}
	}}
}

func (x *announcedTx) Apps() platform.Repo[platform.App] {
	return notedRepo[platform.App]{x.Tx.Apps(), func(before, after *platform.App) {
		x.names = x.names || before != nil && after != nil && before.Name != after.Name
		if before != nil && (after == nil || before.State != after.State) {
			x.apps = append(x.apps, before.GUID)
		}
	}}
}

func (x *announcedTx) Builds() platform.Repo[platform.Build] {
	return notedRepo[platform.Build]{x.Tx.Builds(), func(before, after *platform.Build) {
		if before == nil {
			x.builds = append(x.builds, after.GUID)
		}
	}}
}

func (x *announcedTx) Tasks() platform.Repo[platform.Task] {
	return notedRepo[platform.Task]{x.Tx.Tasks(), func(before, _ *platform.Task) {
		x.tasks = x.tasks || before == nil
	}}
}

func (x *announcedTx) Spaces() platform.Repo[platform.Space] {
	return notedRepo[platform.Space]{x.Tx.Spaces(), func(before, after *platform.Space) {
		x.names = x.names || before != nil && after != nil && before.Name != after.Name
	}}
}

func (x *announcedTx) Organizations() platform.Repo[platform.Organization] {
	return notedRepo[platform.Organization]{x.Tx.Organizations(), func(before, after *platform.Organization) {
		x.names = x.names || before != nil && after != nil && before.Name != after.Name
	}}
}

func notNil[T any](rows ...*T) []*T {
	return slices.DeleteFunc(rows, func(row *T) bool { return row == nil })
}

// notedRepo calls note with every row that is written, as it was and as it is.
type notedRepo[T any] struct {
	platform.Repo[T]
	note func(before, after *T)
}

func (r notedRepo[T]) Insert(row *T) error {
	err := r.Repo.Insert(row)
	if err == nil {
		r.note(nil, row)
	}
	return err
}

func (r notedRepo[T]) Update(row *T) error {
	resource, ok := any(row).(interface{ Base() *platform.Resource })
	if !ok {
		panic("a row without a guid")
	}
	before, err := r.Get(resource.Base().GUID)
	if err == nil {
		r.note(before, row)
	}
	return r.Repo.Update(row)
}

func (r notedRepo[T]) Delete(guid string) error {
	if before, err := r.Get(guid); err == nil {
		r.note(before, nil)
	}
	return r.Repo.Delete(guid)
}

func (r notedRepo[T]) DeleteAll(q platform.Query) (int, error) {
	rows, _, err := r.List(q)
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		r.note(row, nil)
	}
	return r.Repo.DeleteAll(q)
}
