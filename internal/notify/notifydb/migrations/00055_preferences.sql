-- +goose Up

-- On which channels a user does not want a kind: a bit for each channel, and 32767 for all, also those that kinds get
-- later. That is what rows from before mean, and what the row for everything means.
ALTER TABLE notify_unsubscribes ADD COLUMN channels BIGINT NOT NULL DEFAULT 32767;
ALTER TABLE notify_objections ADD COLUMN channels BIGINT NOT NULL DEFAULT 32767;
