-- +goose Up
-- The servers that use this database. Times are the database's, in nanoseconds
-- since 1970. A server is alive until expires, which it moves every few seconds.
CREATE TABLE cluster_servers (
	id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	directory TEXT NOT NULL, -- which data directory
	host TEXT NOT NULL,
	pid INTEGER NOT NULL,
	version TEXT NOT NULL,
	exclusive BOOLEAN NOT NULL, -- only this server can run its apps
	works BOOLEAN NOT NULL, -- it takes shards
	listens BOOLEAN NOT NULL, -- it receives notifications
	started BIGINT NOT NULL,
	expires BIGINT NOT NULL
);

-- A lease is held while its holder is alive. A row changes only when the lease
-- moves, so that transactions that read its token do not collide with heartbeats.
CREATE TABLE cluster_leases (
	name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
	holder TEXT COLLATE "C" NOT NULL, -- empty if it is free
	token BIGINT NOT NULL
);
