-- +goose Up

-- Whether a message waits for the end of its recipient's quiet hours.
ALTER TABLE notify_messages ADD COLUMN quiet BOOLEAN NOT NULL DEFAULT FALSE;
CREATE INDEX notify_messages_quiet ON notify_messages (user_id, lower(email)) WHERE quiet;

-- How many messages of a client do, of those that are not counted as delayed.
ALTER TABLE notify_delayed ADD COLUMN quiet BIGINT NOT NULL DEFAULT 0;
