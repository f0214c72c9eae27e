-- +goose Up

-- The git repositories that apps are deployed from. password and secret are sealed: what the repository
-- asks for, and what signs its webhooks.

CREATE TABLE platform_git_sources (
    guid        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    app_guid    TEXT COLLATE "C" NOT NULL,
    space_guid  TEXT COLLATE "C" NOT NULL,
    url         TEXT COLLATE "C" NOT NULL,
    branch      TEXT COLLATE "C" NOT NULL,
    folder      TEXT COLLATE "C" NOT NULL,
    username    TEXT COLLATE "C" NOT NULL,
    password    TEXT COLLATE "C" NOT NULL,
    secret      TEXT COLLATE "C" NOT NULL,
    owner_guid  TEXT COLLATE "C" NOT NULL,
    owner_name  TEXT COLLATE "C" NOT NULL,
    deliveries  TEXT NOT NULL,
    commit_hash TEXT COLLATE "C" NOT NULL,
    subject     TEXT COLLATE "C" NOT NULL,
    deployed_at BIGINT NOT NULL,
    error       TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX platform_git_sources_app ON platform_git_sources (app_guid);
CREATE INDEX platform_git_sources_space ON platform_git_sources (space_guid, created_at, guid);
CREATE INDEX platform_git_sources_created ON platform_git_sources (created_at, guid);
CREATE INDEX platform_git_sources_updated ON platform_git_sources (updated_at, guid);
