-- +goose Up

-- The language of a user as a BCP 47 tag.
ALTER TABLE auth_users ADD COLUMN locale TEXT;
