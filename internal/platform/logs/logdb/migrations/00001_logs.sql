-- +goose Up

-- One row per app that has a log. Rows change with every flush.
CREATE TABLE log_apps (
	app   TEXT COLLATE "C" PRIMARY KEY,
	epoch BIGINT NOT NULL,           -- another one after the log was deleted
	next  BIGINT NOT NULL DEFAULT 1, -- number of the next line
	lost  BIGINT NOT NULL DEFAULT 0
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);

-- The positions of streams.
CREATE TABLE log_streams (
	stream TEXT COLLATE "C" PRIMARY KEY,
	app    TEXT COLLATE "C" NOT NULL,
	seq    BIGINT NOT NULL,
	last   BIGINT NOT NULL, -- time of the last line
	lost   BIGINT NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX log_streams_by_app ON log_streams (app);

-- The partitions of log_chunks. Flushes write to the one that is open.
CREATE TABLE log_slots (
	slot    BIGINT PRIMARY KEY,
	created BIGINT NOT NULL,
	open    BOOLEAN NOT NULL,
	merged  BOOLEAN NOT NULL -- its lines are in log_runs; it will be dropped
);

-- Lines as they were flushed: compressed frames.
CREATE TABLE log_chunks (
	slot     BIGINT NOT NULL,
	app      TEXT COLLATE "C" NOT NULL,
	first    BIGINT NOT NULL, -- number of the first line
	count    BIGINT NOT NULL,
	min_time BIGINT NOT NULL,
	max_time BIGINT NOT NULL,
	raw      BIGINT NOT NULL, -- size before compression
	data     BYTEA NOT NULL,
	PRIMARY KEY (app, first, slot)
) PARTITION BY LIST (slot);
ALTER TABLE log_chunks ALTER COLUMN data SET STORAGE EXTERNAL;

-- Merged chunks. The data is here or in the object store.
CREATE TABLE log_runs (
	app      TEXT COLLATE "C" NOT NULL,
	first    BIGINT NOT NULL,
	count    BIGINT NOT NULL,
	min_time BIGINT NOT NULL,
	max_time BIGINT NOT NULL,
	raw      BIGINT NOT NULL,
	size     BIGINT NOT NULL, -- after compression
	data     BYTEA,
	object   TEXT,
	PRIMARY KEY (app, first)
);
ALTER TABLE log_runs ALTER COLUMN data SET STORAGE EXTERNAL;

-- Objects to delete: those that no run refers to, or does not refer to yet.
CREATE TABLE log_objects (
	object TEXT PRIMARY KEY,
	since  BIGINT NOT NULL
);
