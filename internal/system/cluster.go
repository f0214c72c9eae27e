package system

import (
	"context"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/cluster"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/version"
	"ingot/internal/platform"
)

// joinCluster makes this server one of those that use the database. It fails if
// another is alive and their apps run on their own machines.
func (s *System) joinCluster(ctx context.Context, b *frontend, dir *datadir.Dir, d *db.DB) (*cluster.Cluster, error) {
	c := s.config
	o := c.seams.clusterWith(cluster.Options{DB: d, ListenURL: c.DatabaseListenURL, Exclusive: true, Version: version.Version, Log: c.Log})
	if d.Shared() {
		var err error
		if o.Directory, err = dir.ID(); err != nil {
			return nil, err
		}
	}
	joined := cluster.New(o)
	b.registry.MustRegister(joined.Metrics()...)
	return joined, s.run(ctx, joined)
}

// What servers tell each other. Some words are followed by a space and a guid.
const (
	toldApp      = "app"      // an app changed, or what it is bound to
	toldBindings = "bindings" // bindings changed
	toldRoute    = "route"
	toldNames    = "names"
	toldBuild    = "build"
	toldTasks    = "tasks"
	toldJob      = "job"
)

// routesFor is how long an answer of the API waits until the other servers use a
// changed route.
const routesFor = 250 * time.Millisecond

// items returns the words for a number of guids.
func items(word string, guids []string) []string {
	all := make([]string, len(guids))
	for i, guid := range guids {
		all[i] = word + " " + guid
	}
	return all
}

// AppsChanged implements api.Signals.
func (r *runtime) AppsChanged(guids ...string) {
	r.appsChanged(guids...)
	r.cluster.Tell(append(items(toldApp, guids), toldBindings)...)
}

func (r *runtime) appsChanged(guids ...string) {
	r.apps.Kick(guids...)
	r.tasks.Kick()  // tasks of a deleted app are canceled
	r.drains.Kick() // a binding may have been created or deleted
}

// Changed implements platform.Sink. When it returns, and with it the Update that
// announced c, the router uses the new routes, and normally those of the other
// servers do too.
func (r *runtime) Changed(ctx context.Context, c platform.Changes) {
	if c.Names { // first, because the lines are shown with names
		r.namesChanged()
		r.cluster.Tell(toldNames)
	}
	if len(c.Routes) > 0 {
		await := r.cluster.Ask(items(toldRoute, c.Routes)...)
		_ = r.publisher.Announce(c.Routes...) // it logs a failure and tries again
		limited, cancel := context.WithTimeout(ctx, routesFor)
		defer cancel()
		await(limited)
	}
	if err := r.logs.Tell(c.Lines...); err != nil {
		r.log.WarnContext(ctx, "lines could not be written to the log of an app", "error", err)
	}
}

func (r *runtime) namesChanged() {
	r.info.Forget()
	r.drains.Kick()
}

// BuildCreated implements api.Signals.
func (r *runtime) BuildCreated(string) {
	r.builds.Kick()
	r.cluster.Tell(toldBuild)
}

// TasksChanged implements api.Signals.
func (r *runtime) TasksChanged() {
	r.tasks.Kick()
	r.cluster.Tell(toldTasks)
}

// JobCreated implements api.Signals.
func (r *runtime) JobCreated(string) {
	r.services.Kick()
	r.cluster.Tell(toldJob)
}

// clusterHandler returns what is done when other servers changed something.
func (r *runtime) clusterHandler() cluster.Handler {
	return cluster.Handler{Received: r.received, Resync: r.resync}
}

// received does what other servers told.
func (r *runtime) received(told []string, done func()) {
	var routes, apps []string
	for _, item := range told {
		word, guid, _ := strings.Cut(item, " ")
		switch word {
		case toldApp:
			apps = append(apps, guid)
		case toldRoute:
			routes = append(routes, guid)
		case toldNames:
			r.namesChanged()
		case toldBuild:
			r.builds.Kick()
		case toldTasks:
			r.tasks.Kick()
		case toldJob:
			r.services.Kick()
		}
	}
	if len(apps) > 0 || slices.Contains(told, toldBindings) {
		r.appsChanged(apps...)
	}
	if len(routes) > 0 {
		background.Go("routes of another server", func() {
			_ = r.publisher.Announce(routes...) // it logs a failure and tries again
			done()
		})
		return
	}
	done()
}

// resync looks at everything, because messages were lost.
func (r *runtime) resync() {
	r.namesChanged()
	r.apps.KickAll()
	r.tasks.Kick()
	r.builds.Kick()
	r.services.Kick()
	r.publisher.Kick()
}
