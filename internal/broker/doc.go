// Package broker is the service broker that comes with Ingot: PostgreSQL,
// MariaDB, Redis and the notification service behind the Open Service Broker
// API, version 2.17.
//
//	platform ──OSBAPI, basic auth──▶ Broker ──SQL──▶ server ◀── apps, with the
//	                                   │ intent              credentials of a
//	                                   ▼                     binding
//	                              DIR/broker/*.json
//
// A server is started by package servers on first use, on a data directory and
// a loopback port of its own, or is somebody else's, named by a URL. Where apps
// run in containers they reach it through a forwarder on the address that the
// host has in their network. The forwarder bounds the connections of each app,
// so that none takes a server from the others.
//
// An instance is a database with an owner that nobody can log in as; a binding
// is a user that acts as the owner. An instance of Redis is a server of its own,
// because key names of one server can be listed by all its users. A binding of
// the notification service is an OAuth client.
//
// What is about to be made or removed is written to a file first, and the file
// says "ready", or goes, when the server has done it. So whatever is killed, and
// whenever: what was begun is known, and is finished or undone by the next try
// or the next start. Names are derived from ids, so that doing it twice makes
// nothing twice. Passwords are derived from one sealed secret and are kept
// nowhere.
//
// It must not import anything of the platform, or a store.
//
// Imports: base/background, base/connlimit, base/daemon, base/safedial,
// base/seal, code.cloudfoundry.org/brokerapi/v13,
// code.cloudfoundry.org/brokerapi/v13/domain,
// code.cloudfoundry.org/brokerapi/v13/domain/apiresponses,
// github.com/go-sql-driver/mysql, github.com/jackc/pgx/v5,
// github.com/jackc/pgx/v5/stdlib, github.com/redis/go-redis/v9.
package broker
