// Package broker is the bundled service broker: it offers PostgreSQL, MariaDB,
// Redis and the notification service through the Open Service Broker API, version
// 2.17.
//
//	platform ──OSBAPI, basic auth──▶ Broker ──SQL──▶ server ◀── apps, with the
//	                                   │ record              credentials of a
//	                                   ▼                     binding
//	                              DIR/broker/*.json
//
// A server is either started by package daemon on first use, with its own data
// directory and loopback port, or an external one, given by a URL. Apps in
// containers reach it through a forwarder that listens on the host's address in
// their network. The forwarder limits the connections of each app, so that no app
// can use up a server's connections.
//
// A service instance is a database whose owner cannot log in; a binding
// is a user that acts as the owner. A Redis instance has its own server, because
// every user of a Redis server can list all key names. A binding of
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
// Imports: base/background, base/clock, base/connlimit, base/daemon,
// base/safedial, base/seal, code.cloudfoundry.org/brokerapi/v13,
// code.cloudfoundry.org/brokerapi/v13/domain,
// code.cloudfoundry.org/brokerapi/v13/domain/apiresponses,
// github.com/go-sql-driver/mysql, github.com/jackc/pgx/v5,
// github.com/jackc/pgx/v5/stdlib, github.com/redis/go-redis/v9.
package broker
