-- +goose Up

-- What apps, tasks, builds and service instances use, for billing.

CREATE TABLE platform_app_usage_events (
    guid               TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL,
    state              TEXT COLLATE "C" NOT NULL,
    previous           TEXT COLLATE "C" NOT NULL,
    app_guid           TEXT COLLATE "C" NOT NULL,
    app_name           TEXT COLLATE "C" NOT NULL,
    process_guid       TEXT COLLATE "C" NOT NULL,
    process_type       TEXT COLLATE "C" NOT NULL,
    task_guid          TEXT COLLATE "C" NOT NULL,
    task_name          TEXT COLLATE "C" NOT NULL,
    build_guid         TEXT COLLATE "C" NOT NULL,
    space_guid         TEXT COLLATE "C" NOT NULL,
    space_name         TEXT COLLATE "C" NOT NULL,
    organization_guid  TEXT COLLATE "C" NOT NULL,
    buildpack_guid     TEXT COLLATE "C" NOT NULL,
    buildpack_name     TEXT COLLATE "C" NOT NULL,
    memory_mb          BIGINT NOT NULL,
    previous_memory_mb BIGINT NOT NULL,
    instances          BIGINT NOT NULL,
    previous_instances BIGINT NOT NULL
);
CREATE INDEX platform_app_usage_events_created ON platform_app_usage_events (created_at, guid);
CREATE INDEX platform_app_usage_events_updated ON platform_app_usage_events (updated_at, guid);
CREATE INDEX platform_app_usage_events_subject ON platform_app_usage_events (process_guid, task_guid, build_guid, created_at);

CREATE TABLE platform_service_usage_events (
    guid              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    state             TEXT COLLATE "C" NOT NULL,
    space_guid        TEXT COLLATE "C" NOT NULL,
    space_name        TEXT COLLATE "C" NOT NULL,
    organization_guid TEXT COLLATE "C" NOT NULL,
    instance_guid     TEXT COLLATE "C" NOT NULL,
    instance_name     TEXT COLLATE "C" NOT NULL,
    instance_type     TEXT COLLATE "C" NOT NULL,
    plan_guid         TEXT COLLATE "C" NOT NULL,
    plan_name         TEXT COLLATE "C" NOT NULL,
    offering_guid     TEXT COLLATE "C" NOT NULL,
    offering_name     TEXT COLLATE "C" NOT NULL,
    broker_guid       TEXT COLLATE "C" NOT NULL,
    broker_name       TEXT COLLATE "C" NOT NULL
);
CREATE INDEX platform_service_usage_events_created ON platform_service_usage_events (created_at, guid);
CREATE INDEX platform_service_usage_events_updated ON platform_service_usage_events (updated_at, guid);
CREATE INDEX platform_service_usage_events_instance ON platform_service_usage_events (instance_guid, created_at);
