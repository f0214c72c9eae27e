-- +goose Up

-- How many messages of a client wait that a workflow delays, in shards. They count until they are final.
CREATE TABLE notify_delayed (
    client_id TEXT COLLATE "C" NOT NULL,
    shard     INTEGER NOT NULL,
    messages  BIGINT NOT NULL,
    PRIMARY KEY (client_id, shard)
) /* CLUSTERED */;
