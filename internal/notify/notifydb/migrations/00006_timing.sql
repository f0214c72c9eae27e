-- +goose Up

-- Sends that wait for their time. They have no messages, and are not in notify_sends, so that
-- nothing that searches there meets them. recipients is 0 if only an audience is known.
CREATE TABLE notify_scheduled (
    number   BIGINT NOT NULL PRIMARY KEY,
    client_id  TEXT COLLATE "C" NOT NULL,
    kind_id    TEXT COLLATE "C" NOT NULL,
    received   BIGINT NOT NULL,
    data       TEXT NOT NULL,
    recipients INTEGER NOT NULL,
    due        BIGINT NOT NULL
);
CREATE INDEX notify_scheduled_due ON notify_scheduled (due, number);
CREATE INDEX notify_scheduled_client ON notify_scheduled (client_id, number);

-- How many messages of a client wait there; an audience counts as one.
CREATE TABLE notify_schedules (
    client_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    messages  BIGINT NOT NULL
);

-- When a send was canceled. Its messages that were claimed then are marked by parked while they wait;
-- the others have the status 6.
ALTER TABLE notify_sends ADD COLUMN canceled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE notify_counts ADD COLUMN canceled BIGINT NOT NULL DEFAULT 0;
