package system

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/base/tracing"
	"ingot/internal/base/version"
	"ingot/internal/platform"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/logs/logdb"
	"ingot/internal/server/cluster"
)

// joinCluster makes this server one of those that use the database. It fails if
// another is alive and their apps run on their own machines.
func (s *System) joinCluster(ctx context.Context, b *frontend, dir *datadir.Dir, d *db.DB) (*cluster.Cluster, error) {
	c := s.config
	o := c.seams.clusterWith(cluster.Options{DB: d, ListenURL: c.DatabaseListenURL, Channels: []string{logdb.Channel}, Exclusive: c.Engine != "kubernetes", Version: version.Version, Log: c.Log})
	if d.Shared() {
		var err error
		if o.Directory, err = dir.ID(); err != nil {
			return nil, err
		}
	}
	joined := cluster.New(o)
	b.registry.MustRegister(joined.Metrics()...)
	return joined, s.steps.Run(ctx, joined)
}

// leadOf returns a function that reports whether this server does the work of a name, of
// which all servers together need one at a time.
func leadOf(c *cluster.Cluster, name string) func(context.Context) bool {
	return func(ctx context.Context) bool { return c.Lead(ctx, name) }
}

// What servers tell each other. Some words are followed by a space and a guid.
const (
	toldApp      = "app"      // an app changed, or what it is bound to
	toldBindings = "bindings" // bindings changed
	toldRoute    = "route"
	toldNames    = "names"
	toldBuild    = "build"
	toldTasks    = "tasks"
	toldRules    = "rules" // security groups or network policies changed
	toldJob      = "job"
	toldBackends = "backends" // rows of an app's instances changed
	toldDrain    = "drain"    // an instance stops when its requests have finished
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
	if c.Rules {
		r.cluster.Tell(toldRules)
		r.applyRules(ctx)
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

// applyRules makes the engine use changed security groups and network policies.
func (r *runtime) applyRules(ctx context.Context) {
	if r.rules == nil {
		return
	}
	if err := r.rules.Apply(ctx); err != nil {
		r.log.ErrorContext(ctx, "changed security groups or network policies could not be applied; this is tried again", "error", err)
		r.rules.Kick()
	}
}

// unenforced returns what users have to know about rules that the engine does not
// enforce; empty if it does.
func (r *runtime) unenforced(g *platform.SecurityGroup) string {
	if _, pods := r.engine.(*kubernetes.Engine); pods && slices.ContainsFunc(g.Rules, func(r platform.SecurityRule) bool { return r.Protocol == platform.ProtocolICMP }) {
		return "The rules for ICMP of security group " + g.Name + " are NOT enforced here: Kubernetes has none."
	}
	if r.rules != nil {
		return ""
	}
	return "Security groups are stored and NOT enforced here: the " + r.engine.Describe().Name + " engine does not restrict the connections of apps."
}

// noPolicies returns why network policies cannot be created; empty if they can.
func (r *runtime) noPolicies() string {
	if r.rules != nil {
		return ""
	}
	return "Network policies cannot be created here: the " + r.engine.Describe().Name + " engine does not restrict the connections between apps."
}

func (r *runtime) kickRules() {
	if r.rules != nil {
		r.rules.Kick()
	}
}

func (r *runtime) namesChanged() {
	r.info.Forget()
	r.drains.Kick()
}

// BuildCreated implements api.Signals.
func (r *runtime) BuildCreated(guid string, by tracing.Origin) {
	r.builds.Requested(guid, by)
	r.cluster.Tell(strings.TrimRight(toldBuild+" "+guid+" "+by.Request+" "+by.Trace, " "))
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
	return cluster.Handler{
		Gained: func(s cluster.Shards) {
			for _, part := range r.sharded() {
				part.Gained(uint64(s))
			}
		},
		Lost: func(s cluster.Shards) {
			var all background.WaitGroup
			for _, part := range r.sharded() {
				all.Go("release shards", func() { part.Lost(uint64(s)) })
			}
			all.Wait()
		},
		Received: r.received, Resync: r.resync,
	}
}

// sharded is a part that works on the apps of this server's shards only.
type sharded interface {
	Gained(shards uint64)
	Lost(shards uint64)
}

func (r *runtime) sharded() []sharded { return []sharded{r.apps, r.tasks, r.builds, r.drains} }

// owner adapts the cluster for the parts that work on apps.
type owner struct{ *cluster.Cluster }

func (o owner) Shard(appGUID string) uint64 { return uint64(cluster.ShardOf(appGUID)) }
func (o owner) Shards() uint64              { return uint64(o.Cluster.Shards()) }

// Hold implements logdb.Fence.
func (o owner) Hold(tx *db.Tx, apps []string) (refused []string, err error) {
	names := make(map[string]string, len(apps)) // of leases, by app
	var leases []cluster.Lease
	for _, app := range apps {
		if l, ok := o.Lease(app); ok {
			leases, names[app] = append(leases, l), l.Name
		} else {
			refused = append(refused, app)
		}
	}
	err = cluster.Check(tx, leases...)
	var lost *cluster.LostError
	if errors.As(err, &lost) {
		for app, name := range names {
			if slices.Contains(lost.Names, name) {
				refused = append(refused, app)
			}
		}
		return refused, nil
	}
	return refused, err
}

// peers implements controller.Peers.
type peers struct{ *cluster.Cluster }

func (p peers) BackendsChanged(appGUID string) func(context.Context) bool {
	return p.Ask(toldBackends + " " + appGUID)
}

func (p peers) Drain(ctx context.Context, instanceGUID string) {
	p.Ask(toldDrain + " " + instanceGUID)(ctx)
}

// received does what other servers told.
func (r *runtime) received(told []string, done func()) {
	var routes, apps, backends []string
	var later []func(context.Context)
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
			build, by, _ := strings.Cut(guid, " ")
			request, trace, _ := strings.Cut(by, " ")
			r.builds.Requested(build, tracing.Origin{Request: request, Trace: trace})
		case toldTasks:
			r.tasks.Kick()
		case toldRules:
			r.kickRules()
		case toldJob:
			r.services.Kick()
		case toldBackends:
			backends = append(backends, guid)
		case toldDrain:
			later = append(later, func(ctx context.Context) { r.drained(ctx, guid) })
		}
	}
	if len(apps) > 0 || slices.Contains(told, toldBindings) {
		r.appsChanged(apps...)
	}
	if len(backends) > 0 {
		later = append(later, func(ctx context.Context) {
			if err := r.apps.LoadBackends(ctx, backends...); err != nil {
				r.log.Warn("the instances of another server could not be read; this is tried again", "error", err)
				r.apps.KickAll()
			}
		})
	}
	if len(routes) > 0 {
		later = append(later, func(context.Context) { _ = r.publisher.Announce(routes...) }) // it logs a failure and tries again
	}
	if len(later) == 0 {
		done()
		return
	}
	background.Go("message of another server", func() {
		ctx, cancel := context.WithTimeout(context.Background(), receivedFor)
		defer cancel()
		var all background.WaitGroup
		for _, f := range later {
			all.Go("message of another server", func() { f(ctx) })
		}
		all.Wait()
		done()
	})
}

const (
	// receivedFor limits the work on one message.
	receivedFor = 15 * time.Second
	// drainPoll is how often it is checked whether the requests to an instance have
	// finished.
	drainPoll = 20 * time.Millisecond
)

// drained returns when no requests to an instance are in progress.
func (r *runtime) drained(ctx context.Context, instanceGUID string) {
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for r.proxy.Busy(instanceGUID) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// resync looks at everything, because messages were lost.
func (r *runtime) resync() {
	r.namesChanged()
	r.apps.KickAll()
	r.tasks.Kick()
	r.builds.Kick()
	r.services.Kick()
	r.publisher.Kick()
	r.kickRules()
}
