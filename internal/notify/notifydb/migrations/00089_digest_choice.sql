-- +goose Up

-- How a user wants the messages of a kind to be collected: 0 as its client says, 1 at once, 2 hourly, 3 daily, 4 weekly. A
-- row with 0 in both columns does not exist.
ALTER TABLE notify_unsubscribes ADD COLUMN digest BIGINT NOT NULL DEFAULT 0;
