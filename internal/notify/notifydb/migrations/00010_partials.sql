-- +goose Up

-- Texts that the templates of a client share; those without an owner are for all clients. variants is as that of
-- templates. uses has the names of the partials that a text uses, each between spaces.
CREATE TABLE notify_partials (
    owner    TEXT COLLATE "C" NOT NULL,
    name     TEXT COLLATE "C" NOT NULL,
    text     TEXT NOT NULL,
    html     TEXT NOT NULL,
    variants TEXT NOT NULL,
    uses     TEXT NOT NULL,
    created  BIGINT NOT NULL,
    updated  BIGINT NOT NULL,
    PRIMARY KEY (owner, name)
);
ALTER TABLE notify_templates ADD COLUMN uses TEXT NOT NULL DEFAULT '';
CREATE INDEX notify_templates_uses ON notify_templates (id) WHERE uses <> '';
