-- +goose Up

-- The topics that clients declare. subscribers are how many there are, and held also counts those who left. The client is
-- empty, and the name is the id, while the members of a deleted topic are being deleted.
CREATE TABLE notify_topics (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    client_id   TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    description TEXT NOT NULL,
    closed      BOOLEAN NOT NULL,
    subscribers BIGINT NOT NULL,
    held        BIGINT NOT NULL,
    created     BIGINT NOT NULL,
    updated     BIGINT NOT NULL
);
CREATE UNIQUE INDEX notify_topics_name ON notify_topics (client_id, name);

-- Who subscribed to them, and who left them themselves: those are not active. id is a hash of the subscriber, which is
-- empty for those who left and were erased.
CREATE TABLE notify_topic_members (
    topic      TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    subscriber TEXT COLLATE "C" NOT NULL,
    active     BOOLEAN NOT NULL,
    since      BIGINT NOT NULL,
    PRIMARY KEY (topic, id)
) /* CLUSTERED */;
CREATE INDEX notify_topic_members_id ON notify_topic_members (id);

ALTER TABLE notify_erasures ADD COLUMN topics BIGINT NOT NULL DEFAULT 0;
