-- +goose Up

-- How many messages of a client wait for another attempt, by channel, of those that are not counted as delayed. Paced mail
-- is such a message; others that wait now are counted from their next attempt on.
CREATE TABLE notify_postponed (
    client_id TEXT COLLATE "C" NOT NULL,
    channel   INTEGER NOT NULL,
    shard     INTEGER NOT NULL,
    messages  BIGINT NOT NULL,
    PRIMARY KEY (client_id, channel, shard)
) /* CLUSTERED */;

INSERT INTO notify_postponed (client_id, channel, shard, messages)
    SELECT client_id, 0, shard, paced FROM notify_delayed WHERE paced <> 0;
ALTER TABLE notify_delayed DROP COLUMN paced;
ALTER TABLE notify_messages RENAME COLUMN paced TO postponed;
