-- +goose Up

-- How many bytes of sends and lists are stored of each client, in shards.
CREATE TABLE notify_usage (
    client_id TEXT COLLATE "C" NOT NULL,
    shard     INTEGER NOT NULL,
    bytes     BIGINT NOT NULL,
    PRIMARY KEY (client_id, shard)
) /* CLUSTERED */;

-- Whose list it is.
ALTER TABLE notify_lists ADD COLUMN client_id TEXT NOT NULL DEFAULT '';
UPDATE notify_lists SET client_id = COALESCE((SELECT s.client_id FROM notify_sends AS s WHERE s.number = send), '')
    WHERE send <> 0;

-- What clients defined is summed by client.
CREATE INDEX notify_templates_creator ON notify_templates (creator);
CREATE INDEX notify_campaign_types_client ON notify_campaign_types (client_id);

INSERT INTO notify_usage (client_id, shard, bytes)
    SELECT client_id, 0, SUM(octet_length(data) + 512) FROM notify_sends GROUP BY client_id;
INSERT INTO notify_usage (client_id, shard, bytes)
    SELECT l.client_id, 1, SUM(octet_length(m.members)) FROM notify_lists AS l
    JOIN notify_list_members AS m ON m.list = l.id GROUP BY l.client_id;

-- The texts in other languages, as an object in JSON by locale; empty for none.
ALTER TABLE notify_templates ADD COLUMN variants TEXT NOT NULL DEFAULT '';
