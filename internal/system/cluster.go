package system

import (
	"context"
	"errors"
	"slices"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
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
	o := c.seams.clusterWith(cluster.Options{DB: d, ListenURL: c.DatabaseListenURL, Channels: []string{logdb.Channel},
		Exclusive: c.Engine != "kubernetes", Version: version.Version, Log: c.Log})
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

// unenforced returns what users have to know about rules that the engine does not
// enforce; empty if it does.
func (r *runtime) unenforced(g *platform.SecurityGroup) string {
	if _, pods := r.engine.(*kubernetes.Engine); pods &&
		slices.ContainsFunc(g.Rules, func(r platform.SecurityRule) bool { return r.Protocol == platform.ProtocolICMP }) {
		return "The rules for ICMP of security group " + g.Name + " are NOT enforced here: Kubernetes has none."
	}
	if r.Rules != nil {
		return ""
	}
	return "Security groups are stored and NOT enforced here: the " + r.engine.Describe().Name +
		" engine does not restrict the connections of apps."
}

// noPolicies returns why network policies cannot be created; empty if they can.
func (r *runtime) noPolicies() string {
	if r.Rules != nil {
		return ""
	}
	return "Network policies cannot be created here: the " + r.engine.Describe().Name +
		" engine does not restrict the connections between apps."
}

// clusterHandler returns what is done when other servers changed something.
func (r *runtime) clusterHandler() cluster.Handler {
	return cluster.Handler{
		Gained:   func(s cluster.Shards) { r.Gained(uint64(s)) },
		Lost:     func(s cluster.Shards) { r.Lost(uint64(s)) },
		Received: r.Received, Resync: r.Resync,
	}
}

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
