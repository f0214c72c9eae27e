-- +goose Up

-- Messages that were not mailed because the user unsubscribed have a status of
-- their own, 5. Those of before are counted as undeliverable (4), or as delivered (2)
-- if they belong to a campaign.
ALTER TABLE notify_counts ADD COLUMN unsubscribed BIGINT NOT NULL DEFAULT 0;
