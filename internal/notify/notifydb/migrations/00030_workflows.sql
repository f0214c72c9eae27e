-- +goose Up

-- The workflow of a kind as JSON, empty if it has none. That of a send is in its data.
ALTER TABLE notify_kinds ADD COLUMN workflow TEXT NOT NULL DEFAULT '';

-- Messages with the status 7, which a workflow skipped.
ALTER TABLE notify_counts ADD COLUMN skipped BIGINT NOT NULL DEFAULT 0;

-- Attempts that failed and were not the last: messages have no more than their latest state.
CREATE TABLE notify_attempts (
    number  BIGINT NOT NULL,
    attempt INTEGER NOT NULL,
    at      BIGINT NOT NULL,
    reason  TEXT NOT NULL,
    PRIMARY KEY (number, attempt)
) /* CLUSTERED */;
