-- +goose Up

-- The rule of a kind whose messages to a recipient are limited, as JSON; empty if it has none. That of a send is in its
-- data.
ALTER TABLE notify_kinds ADD COLUMN throttle TEXT NOT NULL DEFAULT '';

-- Messages with the status 9, which were over a limit.
ALTER TABLE notify_counts ADD COLUMN throttled BIGINT NOT NULL DEFAULT 0;
ALTER TABLE notify_figures ADD COLUMN throttled BIGINT NOT NULL DEFAULT 0;

-- The messages that count for a limit, in JSON: numbers and times. id is a hash of the kind, the channel and the
-- recipient; ends is when no message counts any more.
CREATE TABLE notify_throttles (
    id       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    ends     BIGINT NOT NULL,
    admitted TEXT NOT NULL
) /* CLUSTERED */;
CREATE INDEX notify_throttles_ends ON notify_throttles (ends);
