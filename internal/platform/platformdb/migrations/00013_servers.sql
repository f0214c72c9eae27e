-- +goose Up

-- Users' requests to restart an instance. The server that works on the app removes a row
-- in the transaction that stops the instance.

CREATE TABLE platform_instance_restarts (
    guid           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    app_guid       TEXT COLLATE "C" NOT NULL,
    process_guid   TEXT COLLATE "C" NOT NULL,
    instance_index BIGINT NOT NULL
);
CREATE INDEX platform_instance_restarts_app ON platform_instance_restarts (app_guid, created_at);
CREATE INDEX platform_instance_restarts_created ON platform_instance_restarts (created_at, guid);

-- How far log drains are: the number of the last line that the receiver has. Only servers
-- that share a database use it.

CREATE TABLE platform_drain_positions (
    app_guid TEXT COLLATE "C" NOT NULL,
    drain    TEXT COLLATE "C" NOT NULL,
    sent     BIGINT NOT NULL,
    PRIMARY KEY (app_guid, drain)
);

-- Requests to instances through all servers that share a database, as JSON.

CREATE TABLE platform_instance_traffic (
    instance_guid TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    traffic       TEXT NOT NULL
);

-- Small states of parts of which one server at a time works, by the name of the part.

CREATE TABLE platform_states (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
