// Package cluster lets several servers share one PostgreSQL: it knows which
// servers are alive, divides the work among them, and tells them what the others
// changed. PostgreSQL decides everything; servers do not talk to each other.
//
// # Servers
//
// Every server has a row with the time at which it expires, by the clock of the
// database, and renews it every 3 seconds for 10. A server whose apps run on its
// own machine is exclusive: no other server may be alive beside it, because both
// would run every app. [Cluster.Start] refuses to join then, after it has waited
// to see whether the other server is alive or only left its row.
//
// # Leases
//
// A lease is a row with a name, a holder and a token. It is held while its holder
// is alive, so that renewing costs one row however many leases a server has, and
// it changes only when it moves. The token grows with every move. A transaction
// that must not be overtaken reads the token FOR SHARE ([Check]): a takeover waits
// until it has ended, and afterwards the check fails. A holder trusts itself until
// a second before the end of its last renewal, counted on its own monotonic clock
// from before the request.
//
// Apps are divided into 64 shards by a hash of their guid; each has a lease. A
// server takes as many shards as its share of the living servers and gives back
// what it has beyond that, one at a time. Other work that only one server may do
// at a time has named leases ([Cluster.Lead]).
//
// # Messages
//
// After a commit a server tells the others what changed ([Cluster.Tell]), with
// NOTIFY in a separate transaction: PostgreSQL serializes the commits of
// transactions that notify. Messages are gathered for up to 10 ms. They can be
// lost, with a connection or a crash; after every gap the receiver checks
// everything. Where LISTEN is not possible, behind a pooler for example, it does so
// every 2 seconds.
//
// On SQLite, and for an exclusive server, the same calls cost nothing: all shards
// are owned, all leases are held, and no other server exists. SQLite needs no rows and
// no goroutines either.
//
// Imports: base/background, base/db,
// github.com/prometheus/client_golang/prometheus.
package cluster
