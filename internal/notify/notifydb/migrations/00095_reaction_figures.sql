-- +goose Up

-- Messages that were opened, and of which a link was followed, for the first time; and how often.
ALTER TABLE notify_figures ADD COLUMN opened BIGINT NOT NULL DEFAULT 0;
ALTER TABLE notify_figures ADD COLUMN clicked BIGINT NOT NULL DEFAULT 0;
ALTER TABLE notify_figures ADD COLUMN opens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE notify_figures ADD COLUMN clicks BIGINT NOT NULL DEFAULT 0;
