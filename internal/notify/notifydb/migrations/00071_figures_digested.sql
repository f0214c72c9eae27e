-- +goose Up

-- Messages that became part of a digest.
ALTER TABLE notify_figures ADD COLUMN digested BIGINT NOT NULL DEFAULT 0;
