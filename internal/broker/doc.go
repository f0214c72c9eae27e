// Package broker is the bundled service broker: it offers PostgreSQL, MariaDB,
// Redis and the notification service through the Open Service Broker API, version
// 2.17.
//
//	platform ──OSBAPI, basic auth──▶ Broker ──SQL──▶ server ◀── apps, with the
//	                                   │ record              credentials of a
//	                                   ▼                     binding
//	                              DIR/broker/*.json
//
// A server belongs to one instance and is started by package daemon with the first
// connection, or it is an external one, given by a URL. Apps reach it
// through a forwarder, which has the port of the instance on loopback and on the
// host's address in the network of containers, and starts the server. The forwarder
// limits the connections of each app. Everything else that a tenant can use up, from
// locks to the disk, belongs to its own server (decision 48). Instances that earlier
// versions created share a server.
//
// A service instance is a database whose owner cannot log in; a binding
// is a user that acts as the owner. A binding of
// the notification service is an OAuth client.
//
// Before anything is created or removed, the intent is recorded in a file, and the
// file is marked "ready", or deleted, when the server has done it. So a process can
// be killed at any time: what was begun is recorded, and is completed or undone by
// the next attempt or the next start. Names are derived from ids, so that repeating
// a step creates nothing twice. Passwords are derived from one sealed secret and
// are not stored.
//
// It must not import the platform, or a store.
//
// Imports: base/background, base/cgroup, base/clock, base/daemon,
// base/loopdisk, base/pattern, base/rootless, base/safedial, base/seal,
// broker/dump, broker/forward, broker/ownserver,
// code.cloudfoundry.org/brokerapi/v13,
// code.cloudfoundry.org/brokerapi/v13/domain,
// code.cloudfoundry.org/brokerapi/v13/domain/apiresponses,
// github.com/go-sql-driver/mysql, github.com/jackc/pgx/v5,
// github.com/jackc/pgx/v5/pgconn, github.com/jackc/pgx/v5/stdlib,
// github.com/redis/go-redis/v9.
package broker
