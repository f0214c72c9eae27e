-- +goose Up

-- Whether apps may still be staged with a stack, and why not.

ALTER TABLE platform_stacks ADD COLUMN state TEXT COLLATE "C" NOT NULL DEFAULT 'ACTIVE';
ALTER TABLE platform_stacks ADD COLUMN state_reason TEXT NOT NULL DEFAULT '';
