-- +goose Up

-- The channels of kinds and campaign types, as a sum: 1 mail, 2 inbox; 0 means mail. The lane of a message is
-- that of its priority (0 to 2), plus 3 for the inbox.
ALTER TABLE notify_kinds ADD COLUMN channels INTEGER NOT NULL DEFAULT 0;
ALTER TABLE notify_campaign_types ADD COLUMN channels INTEGER NOT NULL DEFAULT 0;

-- What users have in their inboxes, by the numbers of the messages. position orders the notifications of a user;
-- change is the number of the change of the inbox that it was part of last. read and archived are times.
CREATE TABLE notify_inbox (
    number   BIGINT NOT NULL PRIMARY KEY,
    client_id   TEXT COLLATE "C" NOT NULL,
    user_id     TEXT COLLATE "C" NOT NULL,
    kind_id     TEXT COLLATE "C" NOT NULL,
    position    BIGINT NOT NULL,
    change      BIGINT NOT NULL,
    created     BIGINT NOT NULL,
    read_at     BIGINT NOT NULL DEFAULT 0,
    archived_at BIGINT NOT NULL DEFAULT 0,
    title       TEXT NOT NULL,
    content     TEXT NOT NULL
);
CREATE INDEX notify_inbox_position ON notify_inbox (client_id, user_id, position);
CREATE INDEX notify_inbox_change ON notify_inbox (client_id, user_id, change);
CREATE INDEX notify_inbox_unread ON notify_inbox (client_id, user_id) WHERE read_at = 0 AND archived_at = 0;
CREATE INDEX notify_inbox_created ON notify_inbox (created);

-- The inboxes: the latest change, the latest one that changed more than single notifications, how many
-- notifications there are, and when it changed.
CREATE TABLE notify_inboxes (
    client_id TEXT COLLATE "C" NOT NULL,
    user_id   TEXT COLLATE "C" NOT NULL,
    change    BIGINT NOT NULL,
    reset     BIGINT NOT NULL,
    total     BIGINT NOT NULL,
    changed   BIGINT NOT NULL,
    PRIMARY KEY (client_id, user_id)
) /* CLUSTERED */;
CREATE INDEX notify_inboxes_changed ON notify_inboxes (changed);

-- The web sites whose pages may read the inboxes of a client.
CREATE TABLE notify_origins (
    client_id TEXT COLLATE "C" NOT NULL,
    origin    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (client_id, origin)
) /* CLUSTERED */;
