-- +goose Up

-- Services: brokers, what they offer, and what was made of it. password and
-- credentials are sealed. The lists organizations (of plans) and shared_spaces
-- are in their rows, to be read, and once more in tables of their own, to be
-- searched.

CREATE TABLE platform_service_brokers (
    guid        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    url         TEXT COLLATE "C" NOT NULL,
    username    TEXT COLLATE "C" NOT NULL,
    password    TEXT NOT NULL,
    space_guid  TEXT COLLATE "C" NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    labels      TEXT NOT NULL,
    annotations TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_service_brokers_name ON platform_service_brokers (name);
CREATE INDEX platform_service_brokers_space ON platform_service_brokers (space_guid, guid);
CREATE INDEX platform_service_brokers_created ON platform_service_brokers (created_at, guid);
CREATE INDEX platform_service_brokers_updated ON platform_service_brokers (updated_at, guid);

CREATE TABLE platform_service_offerings (
    guid                  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at            BIGINT NOT NULL,
    updated_at            BIGINT NOT NULL,
    name                  TEXT COLLATE "C" NOT NULL,
    description           TEXT COLLATE "C" NOT NULL,
    broker_guid           TEXT COLLATE "C" NOT NULL,
    catalog_id            TEXT COLLATE "C" NOT NULL,
    available             BOOLEAN NOT NULL,
    bindable              BOOLEAN NOT NULL,
    plan_updateable       BOOLEAN NOT NULL,
    instances_retrievable BOOLEAN NOT NULL,
    bindings_retrievable  BOOLEAN NOT NULL,
    allow_context_updates BOOLEAN NOT NULL,
    shareable             BOOLEAN NOT NULL,
    tags                  TEXT NOT NULL,
    requires              TEXT NOT NULL,
    documentation_url     TEXT COLLATE "C" NOT NULL,
    catalog_metadata      TEXT NOT NULL,
    labels                TEXT NOT NULL,
    annotations           TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_service_offerings_catalog ON platform_service_offerings (broker_guid, catalog_id);
CREATE INDEX platform_service_offerings_name ON platform_service_offerings (name, guid);
CREATE INDEX platform_service_offerings_created ON platform_service_offerings (created_at, guid);
CREATE INDEX platform_service_offerings_updated ON platform_service_offerings (updated_at, guid);

CREATE TABLE platform_service_plans (
    guid                    TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at              BIGINT NOT NULL,
    updated_at              BIGINT NOT NULL,
    name                    TEXT COLLATE "C" NOT NULL,
    description             TEXT COLLATE "C" NOT NULL,
    offering_guid           TEXT COLLATE "C" NOT NULL,
    catalog_id              TEXT COLLATE "C" NOT NULL,
    available               BOOLEAN NOT NULL,
    free                    BOOLEAN NOT NULL,
    bindable                BOOLEAN NOT NULL,
    plan_updateable         BOOLEAN NOT NULL,
    visibility              TEXT COLLATE "C" NOT NULL,
    organizations           TEXT NOT NULL,
    maintenance_version     TEXT COLLATE "C" NOT NULL,
    maintenance_description TEXT COLLATE "C" NOT NULL,
    max_polling_seconds     BIGINT NOT NULL,
    catalog_metadata        TEXT NOT NULL,
    schemas                 TEXT NOT NULL,
    labels                  TEXT NOT NULL,
    annotations             TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_service_plans_catalog ON platform_service_plans (offering_guid, catalog_id);
CREATE INDEX platform_service_plans_name ON platform_service_plans (name, guid);
CREATE INDEX platform_service_plans_created ON platform_service_plans (created_at, guid);
CREATE INDEX platform_service_plans_updated ON platform_service_plans (updated_at, guid);

CREATE TABLE platform_service_plan_organizations (
    plan_guid         TEXT COLLATE "C" NOT NULL,
    organization_guid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (plan_guid, organization_guid)
);
CREATE INDEX platform_service_plan_organizations_organization ON platform_service_plan_organizations (organization_guid, plan_guid);

CREATE TABLE platform_service_instances (
    guid                TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at          BIGINT NOT NULL,
    updated_at          BIGINT NOT NULL,
    kind                TEXT COLLATE "C" NOT NULL,
    name                TEXT COLLATE "C" NOT NULL,
    space_guid          TEXT COLLATE "C" NOT NULL,
    plan_guid           TEXT COLLATE "C" NOT NULL,
    tags                TEXT NOT NULL,
    dashboard_url       TEXT COLLATE "C" NOT NULL,
    syslog_drain_url    TEXT COLLATE "C" NOT NULL,
    route_service_url   TEXT COLLATE "C" NOT NULL,
    maintenance_version TEXT COLLATE "C" NOT NULL,
    credentials         TEXT NOT NULL,
    broker_metadata     TEXT NOT NULL,
    shared_spaces       TEXT NOT NULL,
    last_type           TEXT COLLATE "C" NOT NULL,
    last_state          TEXT COLLATE "C" NOT NULL,
    last_description    TEXT COLLATE "C" NOT NULL,
    last_created_at     BIGINT NOT NULL,
    last_updated_at     BIGINT NOT NULL,
    labels              TEXT NOT NULL,
    annotations         TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_service_instances_name ON platform_service_instances (space_guid, name);
CREATE INDEX platform_service_instances_names ON platform_service_instances (name, guid);
CREATE INDEX platform_service_instances_plan ON platform_service_instances (plan_guid, guid);
CREATE INDEX platform_service_instances_created ON platform_service_instances (created_at, guid);
CREATE INDEX platform_service_instances_updated ON platform_service_instances (updated_at, guid);

CREATE TABLE platform_service_instance_spaces (
    instance_guid TEXT COLLATE "C" NOT NULL,
    space_guid    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (instance_guid, space_guid)
);
CREATE INDEX platform_service_instance_spaces_space ON platform_service_instance_spaces (space_guid, instance_guid);

CREATE TABLE platform_service_bindings (
    guid              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    kind              TEXT COLLATE "C" NOT NULL,
    name              TEXT COLLATE "C" NOT NULL,
    instance_guid     TEXT COLLATE "C" NOT NULL,
    app_guid          TEXT COLLATE "C" NOT NULL,
    route_guid        TEXT COLLATE "C" NOT NULL,
    space_guid        TEXT COLLATE "C" NOT NULL,
    syslog_drain_url  TEXT COLLATE "C" NOT NULL,
    route_service_url TEXT COLLATE "C" NOT NULL,
    volume_mounts     TEXT NOT NULL,
    credentials       TEXT NOT NULL,
    last_type         TEXT COLLATE "C" NOT NULL,
    last_state        TEXT COLLATE "C" NOT NULL,
    last_description  TEXT COLLATE "C" NOT NULL,
    last_created_at   BIGINT NOT NULL,
    last_updated_at   BIGINT NOT NULL,
    labels            TEXT NOT NULL,
    annotations       TEXT NOT NULL
);
CREATE INDEX platform_service_bindings_instance ON platform_service_bindings (instance_guid, created_at, guid);
CREATE INDEX platform_service_bindings_app ON platform_service_bindings (app_guid, created_at, guid);
CREATE INDEX platform_service_bindings_route ON platform_service_bindings (route_guid, guid);
CREATE INDEX platform_service_bindings_space ON platform_service_bindings (space_guid, created_at, guid);
CREATE INDEX platform_service_bindings_created ON platform_service_bindings (created_at, guid);
CREATE INDEX platform_service_bindings_updated ON platform_service_bindings (updated_at, guid);
