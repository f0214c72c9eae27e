-- +goose Up

-- The client that created a template of the first API, which all clients see and
-- only that one changes. Empty for those of before.
ALTER TABLE notify_templates ADD COLUMN creator TEXT NOT NULL DEFAULT '';
