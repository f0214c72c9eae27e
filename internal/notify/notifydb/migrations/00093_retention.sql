-- +goose Up

-- How many hours the messages of a kind are kept after they are final, and those of a send, whose kind said it when the send
-- was accepted; 0 means as long as the server keeps others.
ALTER TABLE notify_kinds ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;
ALTER TABLE notify_sends ADD COLUMN kept INTEGER NOT NULL DEFAULT 0;

-- For the purge, which finds the oldest sends of each retention without those that are kept longer.
CREATE INDEX notify_sends_kept ON notify_sends (kept, number);
