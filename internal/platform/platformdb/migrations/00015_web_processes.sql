-- +goose Up

-- A deployment has a web process of its own beside the one that it replaces. So an
-- app may have several; of other types it has one.

DROP INDEX platform_processes_type;
CREATE UNIQUE INDEX platform_processes_type ON platform_processes (app_guid, type) WHERE type <> 'web';
CREATE INDEX platform_processes_app ON platform_processes (app_guid, created_at, guid);

ALTER TABLE platform_deployments ADD COLUMN web_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_deployments ADD COLUMN prior_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_deployments ADD COLUMN instances BIGINT NOT NULL DEFAULT 0;
ALTER TABLE platform_deployments ADD COLUMN original_instances BIGINT NOT NULL DEFAULT 0;
ALTER TABLE platform_deployments DROP COLUMN web_before;
UPDATE platform_deployments SET web_guid = app_guid, prior_guid = app_guid;

-- Those that were active had changed the web process itself: it is replaced like in
-- a restart.

UPDATE platform_deployments SET status = 'FINALIZED', reason = CASE reason WHEN 'CANCELING' THEN 'CANCELED' ELSE 'DEPLOYED' END WHERE status = 'ACTIVE';
