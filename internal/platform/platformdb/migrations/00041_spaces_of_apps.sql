-- +goose Up

-- What belongs to an app repeats the space of the app, which never changes, so that the lists of someone who sees some
-- spaces are found by an index instead of by all apps of these spaces. Servers of an older version do not fill it:
-- that is done by those of this one (FillSpaces).

ALTER TABLE platform_processes ADD COLUMN space_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_sidecars ADD COLUMN space_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_deployments ADD COLUMN space_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_revisions ADD COLUMN space_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_tasks ADD COLUMN space_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_packages ADD COLUMN space_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_builds ADD COLUMN space_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_droplets ADD COLUMN space_guid TEXT COLLATE "C" NOT NULL DEFAULT '';

UPDATE platform_processes SET space_guid = (SELECT a.space_guid FROM platform_apps a WHERE a.guid = platform_processes.app_guid)
    WHERE EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = platform_processes.app_guid);
UPDATE platform_sidecars SET space_guid = (SELECT a.space_guid FROM platform_apps a WHERE a.guid = platform_sidecars.app_guid)
    WHERE EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = platform_sidecars.app_guid);
UPDATE platform_deployments SET space_guid = (SELECT a.space_guid FROM platform_apps a WHERE a.guid = platform_deployments.app_guid)
    WHERE EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = platform_deployments.app_guid);
UPDATE platform_revisions SET space_guid = (SELECT a.space_guid FROM platform_apps a WHERE a.guid = platform_revisions.app_guid)
    WHERE EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = platform_revisions.app_guid);
UPDATE platform_tasks SET space_guid = (SELECT a.space_guid FROM platform_apps a WHERE a.guid = platform_tasks.app_guid)
    WHERE EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = platform_tasks.app_guid);
UPDATE platform_packages SET space_guid = (SELECT a.space_guid FROM platform_apps a WHERE a.guid = platform_packages.app_guid)
    WHERE EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = platform_packages.app_guid);
UPDATE platform_builds SET space_guid = (SELECT a.space_guid FROM platform_apps a WHERE a.guid = platform_builds.app_guid)
    WHERE EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = platform_builds.app_guid);
UPDATE platform_droplets SET space_guid = (SELECT a.space_guid FROM platform_apps a WHERE a.guid = platform_droplets.app_guid)
    WHERE EXISTS (SELECT 1 FROM platform_apps a WHERE a.guid = platform_droplets.app_guid);

CREATE INDEX platform_processes_space ON platform_processes (space_guid, created_at, guid);
CREATE INDEX platform_sidecars_space ON platform_sidecars (space_guid, created_at, guid);
CREATE INDEX platform_deployments_space ON platform_deployments (space_guid, created_at, guid);
CREATE INDEX platform_revisions_space ON platform_revisions (space_guid, created_at, guid);
CREATE INDEX platform_tasks_space ON platform_tasks (space_guid, created_at, guid);
CREATE INDEX platform_packages_space ON platform_packages (space_guid, created_at, guid);
CREATE INDEX platform_builds_space ON platform_builds (space_guid, created_at, guid);
CREATE INDEX platform_droplets_space ON platform_droplets (space_guid, created_at, guid);
CREATE INDEX platform_service_instances_space ON platform_service_instances (space_guid, created_at, guid);
