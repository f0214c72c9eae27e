-- +goose Up

-- Tasks: single runs of a command with an app's droplet. command is sealed.

CREATE TABLE platform_tasks (
    guid         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    app_guid     TEXT COLLATE "C" NOT NULL,
    sequence_id  BIGINT NOT NULL,
    name         TEXT COLLATE "C" NOT NULL,
    command      TEXT NOT NULL,
    droplet_guid TEXT COLLATE "C" NOT NULL,
    state        TEXT COLLATE "C" NOT NULL,
    reason       TEXT NOT NULL,
    memory_mb    BIGINT NOT NULL,
    disk_mb      BIGINT NOT NULL,
    log_rate     BIGINT NOT NULL,
    labels       TEXT NOT NULL,
    annotations  TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_tasks_sequence ON platform_tasks (app_guid, sequence_id);
CREATE INDEX platform_tasks_app ON platform_tasks (app_guid, created_at, guid);
CREATE INDEX platform_tasks_state ON platform_tasks (state, created_at, guid);
CREATE INDEX platform_tasks_droplet ON platform_tasks (droplet_guid);
CREATE INDEX platform_tasks_created ON platform_tasks (created_at, guid);
CREATE INDEX platform_tasks_updated ON platform_tasks (updated_at, guid);
