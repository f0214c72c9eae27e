-- +goose Up

-- What templates were before each change, the newest few of each. client is the one whose storage they count for.
CREATE TABLE notify_template_versions (
    template_id TEXT COLLATE "C" NOT NULL,
    version     BIGINT NOT NULL,
    client      TEXT COLLATE "C" NOT NULL,
    name        TEXT NOT NULL,
    subject     TEXT NOT NULL,
    text        TEXT NOT NULL,
    html        TEXT NOT NULL,
    metadata    TEXT NOT NULL,
    variants    TEXT NOT NULL,
    updated     BIGINT NOT NULL,
    changed_by  TEXT NOT NULL,
    PRIMARY KEY (template_id, version)
);
CREATE INDEX notify_template_versions_client ON notify_template_versions (client);
ALTER TABLE notify_templates ADD COLUMN version BIGINT NOT NULL DEFAULT 1;
ALTER TABLE notify_templates ADD COLUMN changed_by TEXT NOT NULL DEFAULT '';
