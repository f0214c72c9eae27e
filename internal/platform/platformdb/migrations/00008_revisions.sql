-- +goose Up

-- Revisions: the versions of an app that were started. environment is sealed.

CREATE TABLE platform_revisions (
    guid         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    app_guid     TEXT COLLATE "C" NOT NULL,
    version      BIGINT NOT NULL,
    droplet_guid TEXT COLLATE "C" NOT NULL,
    description  TEXT NOT NULL,
    environment  TEXT NOT NULL,
    processes    TEXT NOT NULL,
    sidecars     TEXT NOT NULL,
    labels       TEXT NOT NULL,
    annotations  TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_revisions_version ON platform_revisions (app_guid, version);
CREATE INDEX platform_revisions_app ON platform_revisions (app_guid, created_at, guid);
CREATE INDEX platform_revisions_created ON platform_revisions (created_at, guid);

-- The revision that a process runs and that a deployment deploys; nothing if the
-- app has none.

ALTER TABLE platform_processes ADD COLUMN revision_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_deployments ADD COLUMN revision_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_deployments ADD COLUMN revision_version BIGINT NOT NULL DEFAULT 0;
ALTER TABLE platform_deployments ADD COLUMN rolled_back_to BIGINT NOT NULL DEFAULT 0;
