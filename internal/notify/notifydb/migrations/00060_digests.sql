-- +goose Up

-- The rule of a kind whose messages are collected in digests, as JSON; empty if it has none. That of a send is in its data.
ALTER TABLE notify_kinds ADD COLUMN digest TEXT NOT NULL DEFAULT '';

-- Messages with the status 8, which became part of a digest.
ALTER TABLE notify_counts ADD COLUMN digested BIGINT NOT NULL DEFAULT 0;

-- The digest that a waiting message is collected in; with the status 8, the digest's message. What is collected has a lane
-- that no claim reads: its own, plus 256.
ALTER TABLE notify_messages ADD COLUMN digest BIGINT NOT NULL DEFAULT 0;
CREATE INDEX notify_messages_digest ON notify_messages (digest, number) WHERE digest > 0 AND status < 2;

-- Digests that collect, and those that are full (sealed is then their number) or due and were not sent yet. name is what
-- distinguishes those of a recipient. entries are those that were collected; some may have been canceled since.
CREATE TABLE notify_digests (
    number   BIGINT NOT NULL PRIMARY KEY,
    client_id TEXT COLLATE "C" NOT NULL,
    kind_id   TEXT COLLATE "C" NOT NULL,
    channel   INTEGER NOT NULL,
    recipient TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    sealed    BIGINT NOT NULL DEFAULT 0,
    due       BIGINT NOT NULL,
    entries   BIGINT NOT NULL
);
CREATE UNIQUE INDEX notify_digests_open ON notify_digests (client_id, kind_id, channel, recipient, name, sealed);
CREATE INDEX notify_digests_due ON notify_digests (due, number);
CREATE INDEX notify_digests_client ON notify_digests (client_id, due, number);
