-- +goose Up

-- Whether a message waits because of the pacing of its receiving domain.
ALTER TABLE notify_messages ADD COLUMN paced BOOLEAN NOT NULL DEFAULT FALSE;

-- How many messages of a client do, of those that are not counted as delayed.
ALTER TABLE notify_delayed ADD COLUMN paced BIGINT NOT NULL DEFAULT 0;
