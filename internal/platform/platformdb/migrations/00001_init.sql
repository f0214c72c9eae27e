-- +goose Up

-- Times are nanoseconds since 1970, 0 when there is none; text that is absent is
-- empty, and so is an absent guid. Lists and maps are JSON, and empty text when
-- they are empty. Columns named ..._key hold the text beside them with A to Z in
-- lower case: names are unique, compared and sorted through them. environment,
-- password, payload and variables are sealed; see platformdb.SealedColumns.
--
-- Labels and the lists shared_organizations and shared_spaces are in the row
-- that has them, to be read, and once more in tables of their own, to be
-- searched. The store keeps both the same.
--
-- No foreign keys: on PostgreSQL every app that is inserted would lock, and so
-- write, the row of its space. Whoever deletes decides what goes with it, inside
-- one serializable transaction.
--
-- SQLite plans without statistics: it takes an index on a state to be as good as
-- one on a guid. Where a table has both, that on the guid has the state in it, so
-- that it wins when a query names both; and nothing that many rows share, such as
-- the type of an event or the domain of a route, has an index to itself.

CREATE TABLE platform_organizations (
    guid        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    name_key    TEXT COLLATE "C" NOT NULL,
    suspended   BOOLEAN NOT NULL,
    quota_guid  TEXT COLLATE "C" NOT NULL,
    labels      TEXT NOT NULL,
    annotations TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_organizations_name ON platform_organizations (name_key);
CREATE INDEX platform_organizations_created ON platform_organizations (created_at, guid);
CREATE INDEX platform_organizations_updated ON platform_organizations (updated_at, guid);

CREATE TABLE platform_spaces (
    guid              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    name              TEXT COLLATE "C" NOT NULL,
    name_key          TEXT COLLATE "C" NOT NULL,
    organization_guid TEXT COLLATE "C" NOT NULL,
    quota_guid        TEXT COLLATE "C" NOT NULL,
    ssh_allowed       BOOLEAN NOT NULL,
    labels            TEXT NOT NULL,
    annotations       TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_spaces_name ON platform_spaces (organization_guid, name_key);
CREATE INDEX platform_spaces_names ON platform_spaces (name_key, guid);
CREATE INDEX platform_spaces_organization ON platform_spaces (organization_guid, created_at, guid);
CREATE INDEX platform_spaces_created ON platform_spaces (created_at, guid);
CREATE INDEX platform_spaces_updated ON platform_spaces (updated_at, guid);

CREATE TABLE platform_users (
    guid        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    labels      TEXT NOT NULL,
    annotations TEXT NOT NULL
);
CREATE INDEX platform_users_created ON platform_users (created_at, guid);
CREATE INDEX platform_users_updated ON platform_users (updated_at, guid);

CREATE TABLE platform_roles (
    guid              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    type              TEXT COLLATE "C" NOT NULL,
    user_guid         TEXT COLLATE "C" NOT NULL,
    organization_guid TEXT COLLATE "C" NOT NULL,
    space_guid        TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX platform_roles_once ON platform_roles (user_guid, type, organization_guid, space_guid);
CREATE INDEX platform_roles_organization ON platform_roles (organization_guid, user_guid);
CREATE INDEX platform_roles_space ON platform_roles (space_guid, user_guid);
CREATE INDEX platform_roles_created ON platform_roles (created_at, guid);
CREATE INDEX platform_roles_updated ON platform_roles (updated_at, guid);

CREATE TABLE platform_domains (
    guid                 TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at           BIGINT NOT NULL,
    updated_at           BIGINT NOT NULL,
    name                 TEXT COLLATE "C" NOT NULL,
    name_key             TEXT COLLATE "C" NOT NULL,
    internal             BOOLEAN NOT NULL,
    organization_guid    TEXT COLLATE "C" NOT NULL,
    shared_organizations TEXT NOT NULL,
    labels               TEXT NOT NULL,
    annotations          TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_domains_name ON platform_domains (name_key);
CREATE INDEX platform_domains_organization ON platform_domains (organization_guid, created_at, guid);
CREATE INDEX platform_domains_created ON platform_domains (created_at, guid);
CREATE INDEX platform_domains_updated ON platform_domains (updated_at, guid);

CREATE TABLE platform_routes (
    guid          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    space_guid    TEXT COLLATE "C" NOT NULL,
    domain_guid   TEXT COLLATE "C" NOT NULL,
    host          TEXT COLLATE "C" NOT NULL,
    host_key      TEXT COLLATE "C" NOT NULL,
    path          TEXT COLLATE "C" NOT NULL,
    port          BIGINT NOT NULL,
    protocol      TEXT NOT NULL,
    options       TEXT NOT NULL,
    shared_spaces TEXT NOT NULL,
    labels        TEXT NOT NULL,
    annotations   TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_routes_address ON platform_routes (domain_guid, host_key, path, port);
CREATE INDEX platform_routes_host ON platform_routes (host_key, guid);
CREATE INDEX platform_routes_space ON platform_routes (space_guid, created_at, guid);
CREATE INDEX platform_routes_created ON platform_routes (created_at, guid);
CREATE INDEX platform_routes_updated ON platform_routes (updated_at, guid);

CREATE TABLE platform_destinations (
    guid         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    route_guid   TEXT COLLATE "C" NOT NULL,
    app_guid     TEXT COLLATE "C" NOT NULL,
    process_type TEXT COLLATE "C" NOT NULL,
    port         BIGINT NOT NULL,
    weight       BIGINT NOT NULL,
    protocol     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX platform_destinations_route ON platform_destinations (route_guid, created_at, guid);
CREATE INDEX platform_destinations_app ON platform_destinations (app_guid, route_guid);
CREATE INDEX platform_destinations_created ON platform_destinations (created_at, guid);

CREATE TABLE platform_apps (
    guid           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    name           TEXT COLLATE "C" NOT NULL,
    name_key       TEXT COLLATE "C" NOT NULL,
    space_guid     TEXT COLLATE "C" NOT NULL,
    state          TEXT COLLATE "C" NOT NULL,
    lifecycle_type TEXT COLLATE "C" NOT NULL,
    stack          TEXT COLLATE "C" NOT NULL,
    buildpacks     TEXT NOT NULL,
    droplet_guid   TEXT COLLATE "C" NOT NULL,
    environment    TEXT NOT NULL,
    features       TEXT NOT NULL,
    labels         TEXT NOT NULL,
    annotations    TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_apps_name ON platform_apps (space_guid, name_key);
CREATE INDEX platform_apps_names ON platform_apps (name_key, guid);
CREATE INDEX platform_apps_space ON platform_apps (space_guid, created_at, guid);
CREATE INDEX platform_apps_space_updated ON platform_apps (space_guid, updated_at, guid);
CREATE INDEX platform_apps_droplet ON platform_apps (droplet_guid);
CREATE INDEX platform_apps_created ON platform_apps (created_at, guid);
CREATE INDEX platform_apps_updated ON platform_apps (updated_at, guid);

CREATE TABLE platform_processes (
    guid         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at   BIGINT NOT NULL,
    updated_at   BIGINT NOT NULL,
    app_guid     TEXT COLLATE "C" NOT NULL,
    type         TEXT COLLATE "C" NOT NULL,
    command      TEXT COLLATE "C" NOT NULL,
    run_as       TEXT COLLATE "C" NOT NULL,
    instances    BIGINT NOT NULL,
    memory_mb    BIGINT NOT NULL,
    disk_mb      BIGINT NOT NULL,
    log_rate     BIGINT NOT NULL,
    health       TEXT NOT NULL,
    readiness    TEXT NOT NULL,
    version      TEXT COLLATE "C" NOT NULL,
    droplet_guid TEXT COLLATE "C" NOT NULL,
    labels       TEXT NOT NULL,
    annotations  TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_processes_type ON platform_processes (app_guid, type);
CREATE INDEX platform_processes_droplet ON platform_processes (droplet_guid);
CREATE INDEX platform_processes_created ON platform_processes (created_at, guid);
CREATE INDEX platform_processes_updated ON platform_processes (updated_at, guid);

CREATE TABLE platform_sidecars (
    guid          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    app_guid      TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    command       TEXT COLLATE "C" NOT NULL,
    process_types TEXT NOT NULL,
    memory_mb     BIGINT NOT NULL,
    origin        TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX platform_sidecars_name ON platform_sidecars (app_guid, name);
CREATE INDEX platform_sidecars_created ON platform_sidecars (created_at, guid);

CREATE TABLE platform_packages (
    guid        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    app_guid    TEXT COLLATE "C" NOT NULL,
    type        TEXT COLLATE "C" NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    error       TEXT COLLATE "C" NOT NULL,
    checksum    TEXT COLLATE "C" NOT NULL,
    image       TEXT COLLATE "C" NOT NULL,
    username    TEXT COLLATE "C" NOT NULL,
    password    TEXT NOT NULL,
    labels      TEXT NOT NULL,
    annotations TEXT NOT NULL
);
CREATE INDEX platform_packages_app ON platform_packages (app_guid, created_at, guid);
CREATE INDEX platform_packages_created ON platform_packages (created_at, guid);
CREATE INDEX platform_packages_updated ON platform_packages (updated_at, guid);

CREATE TABLE platform_builds (
    guid           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    app_guid       TEXT COLLATE "C" NOT NULL,
    package_guid   TEXT COLLATE "C" NOT NULL,
    droplet_guid   TEXT COLLATE "C" NOT NULL,
    state          TEXT COLLATE "C" NOT NULL,
    error          TEXT COLLATE "C" NOT NULL,
    lifecycle_type TEXT COLLATE "C" NOT NULL,
    stack          TEXT COLLATE "C" NOT NULL,
    buildpacks     TEXT NOT NULL,
    memory_mb      BIGINT NOT NULL,
    disk_mb        BIGINT NOT NULL,
    log_rate       BIGINT NOT NULL,
    creator_guid   TEXT COLLATE "C" NOT NULL,
    creator_name   TEXT COLLATE "C" NOT NULL,
    creator_mail   TEXT COLLATE "C" NOT NULL,
    labels         TEXT NOT NULL,
    annotations    TEXT NOT NULL
);
CREATE INDEX platform_builds_app ON platform_builds (app_guid, state, created_at, guid);
CREATE INDEX platform_builds_package ON platform_builds (package_guid, created_at, guid);
CREATE INDEX platform_builds_droplet ON platform_builds (droplet_guid);
CREATE INDEX platform_builds_state ON platform_builds (state, created_at, guid);
CREATE INDEX platform_builds_created ON platform_builds (created_at, guid);
CREATE INDEX platform_builds_updated ON platform_builds (updated_at, guid);

CREATE TABLE platform_droplets (
    guid               TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at         BIGINT NOT NULL,
    updated_at         BIGINT NOT NULL,
    app_guid           TEXT COLLATE "C" NOT NULL,
    package_guid       TEXT COLLATE "C" NOT NULL,
    build_guid         TEXT COLLATE "C" NOT NULL,
    state              TEXT COLLATE "C" NOT NULL,
    error              TEXT COLLATE "C" NOT NULL,
    lifecycle          TEXT COLLATE "C" NOT NULL,
    checksum           TEXT COLLATE "C" NOT NULL,
    size               BIGINT NOT NULL,
    stack              TEXT COLLATE "C" NOT NULL,
    image              TEXT COLLATE "C" NOT NULL,
    buildpacks         TEXT NOT NULL,
    process_types      TEXT NOT NULL,
    sidecars           TEXT NOT NULL,
    execution_metadata TEXT COLLATE "C" NOT NULL,
    labels             TEXT NOT NULL,
    annotations        TEXT NOT NULL
);
CREATE INDEX platform_droplets_app ON platform_droplets (app_guid, created_at, guid);
CREATE INDEX platform_droplets_package ON platform_droplets (package_guid, created_at, guid);
CREATE INDEX platform_droplets_build ON platform_droplets (build_guid);
CREATE INDEX platform_droplets_checksum ON platform_droplets (checksum);
CREATE INDEX platform_droplets_created ON platform_droplets (created_at, guid);
CREATE INDEX platform_droplets_updated ON platform_droplets (updated_at, guid);

CREATE TABLE platform_deployments (
    guid                  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at            BIGINT NOT NULL,
    updated_at            BIGINT NOT NULL,
    app_guid              TEXT COLLATE "C" NOT NULL,
    strategy              TEXT COLLATE "C" NOT NULL,
    status                TEXT COLLATE "C" NOT NULL,
    reason                TEXT COLLATE "C" NOT NULL,
    last_change           BIGINT NOT NULL,
    droplet_guid          TEXT COLLATE "C" NOT NULL,
    previous_droplet_guid TEXT COLLATE "C" NOT NULL,
    max_in_flight         BIGINT NOT NULL,
    labels                TEXT NOT NULL,
    annotations           TEXT NOT NULL
);
CREATE INDEX platform_deployments_app ON platform_deployments (app_guid, status, created_at, guid);
CREATE INDEX platform_deployments_status ON platform_deployments (status, created_at, guid);
CREATE INDEX platform_deployments_droplet ON platform_deployments (droplet_guid);
CREATE INDEX platform_deployments_previous ON platform_deployments (previous_droplet_guid);
CREATE INDEX platform_deployments_created ON platform_deployments (created_at, guid);
CREATE INDEX platform_deployments_updated ON platform_deployments (updated_at, guid);

CREATE TABLE platform_instances (
    guid           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at     BIGINT NOT NULL,
    updated_at     BIGINT NOT NULL,
    app_guid       TEXT COLLATE "C" NOT NULL,
    process_guid   TEXT COLLATE "C" NOT NULL,
    instance_index BIGINT NOT NULL,
    version        TEXT COLLATE "C" NOT NULL,
    state          TEXT COLLATE "C" NOT NULL,
    ready          BOOLEAN NOT NULL,
    since          BIGINT NOT NULL,
    crashes        BIGINT NOT NULL,
    crashed_at     BIGINT NOT NULL,
    restart_at     BIGINT NOT NULL,
    details        TEXT COLLATE "C" NOT NULL,
    host           TEXT COLLATE "C" NOT NULL,
    internal_ip    TEXT COLLATE "C" NOT NULL,
    ports          TEXT NOT NULL,
    records_after  BIGINT NOT NULL
);
CREATE INDEX platform_instances_process ON platform_instances (process_guid, state, instance_index);
CREATE INDEX platform_instances_app ON platform_instances (app_guid, state);
CREATE INDEX platform_instances_state ON platform_instances (state, restart_at);
CREATE INDEX platform_instances_created ON platform_instances (created_at, guid);

CREATE TABLE platform_buildpacks (
    guid        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    name_key    TEXT COLLATE "C" NOT NULL,
    stack       TEXT COLLATE "C" NOT NULL,
    position    BIGINT NOT NULL,
    enabled     BOOLEAN NOT NULL,
    locked      BOOLEAN NOT NULL,
    state       TEXT COLLATE "C" NOT NULL,
    filename    TEXT COLLATE "C" NOT NULL,
    lifecycle   TEXT COLLATE "C" NOT NULL,
    bundled     BOOLEAN NOT NULL,
    checksum    TEXT COLLATE "C" NOT NULL,
    labels      TEXT NOT NULL,
    annotations TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_buildpacks_name ON platform_buildpacks (name_key, stack);
CREATE INDEX platform_buildpacks_position ON platform_buildpacks (position, guid);
CREATE INDEX platform_buildpacks_created ON platform_buildpacks (created_at, guid);

CREATE TABLE platform_stacks (
    guid        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at  BIGINT NOT NULL,
    updated_at  BIGINT NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    name_key    TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C" NOT NULL,
    is_default  BOOLEAN NOT NULL,
    labels      TEXT NOT NULL,
    annotations TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_stacks_name ON platform_stacks (name_key);
CREATE INDEX platform_stacks_created ON platform_stacks (created_at, guid);

CREATE TABLE platform_audit_events (
    guid              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    type              TEXT COLLATE "C" NOT NULL,
    actor_guid        TEXT COLLATE "C" NOT NULL,
    actor_type        TEXT COLLATE "C" NOT NULL,
    actor_name        TEXT COLLATE "C" NOT NULL,
    target_guid       TEXT COLLATE "C" NOT NULL,
    target_type       TEXT COLLATE "C" NOT NULL,
    target_name       TEXT COLLATE "C" NOT NULL,
    data              TEXT NOT NULL,
    space_guid        TEXT COLLATE "C" NOT NULL,
    organization_guid TEXT COLLATE "C" NOT NULL
);
CREATE INDEX platform_audit_events_target ON platform_audit_events (target_guid, created_at, guid);
CREATE INDEX platform_audit_events_actor ON platform_audit_events (actor_guid, created_at, guid);
CREATE INDEX platform_audit_events_space ON platform_audit_events (space_guid, created_at, guid);
CREATE INDEX platform_audit_events_organization ON platform_audit_events (organization_guid, created_at, guid);
CREATE INDEX platform_audit_events_created ON platform_audit_events (created_at, guid);
CREATE INDEX platform_audit_events_updated ON platform_audit_events (updated_at, guid);

CREATE TABLE platform_jobs (
    guid          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    operation     TEXT COLLATE "C" NOT NULL,
    state         TEXT COLLATE "C" NOT NULL,
    errors        TEXT NOT NULL,
    warnings      TEXT NOT NULL,
    resource_type TEXT COLLATE "C" NOT NULL,
    resource_guid TEXT COLLATE "C" NOT NULL,
    payload       TEXT NOT NULL,
    lease         BIGINT NOT NULL,
    worker        TEXT COLLATE "C" NOT NULL,
    attempt       BIGINT NOT NULL,
    due           BIGINT NOT NULL
);
CREATE INDEX platform_jobs_due ON platform_jobs (state, due, guid);
CREATE INDEX platform_jobs_resource ON platform_jobs (resource_guid, state);
CREATE INDEX platform_jobs_created ON platform_jobs (created_at, guid);
CREATE INDEX platform_jobs_updated ON platform_jobs (updated_at, guid);

-- resource_type is the name of the table without platform_.
CREATE TABLE platform_labels (
    resource_type TEXT COLLATE "C" NOT NULL,
    resource_guid TEXT COLLATE "C" NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    value         TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (resource_type, resource_guid, name)
);
CREATE INDEX platform_labels_value ON platform_labels (resource_type, name, value, resource_guid);

CREATE TABLE platform_domain_organizations (
    domain_guid       TEXT COLLATE "C" NOT NULL,
    organization_guid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (domain_guid, organization_guid)
);
CREATE INDEX platform_domain_organizations_organization ON platform_domain_organizations (organization_guid, domain_guid);

CREATE TABLE platform_route_spaces (
    route_guid TEXT COLLATE "C" NOT NULL,
    space_guid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (route_guid, space_guid)
);
CREATE INDEX platform_route_spaces_space ON platform_route_spaces (space_guid, route_guid);

CREATE TABLE platform_feature_flags (
    name                 TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    enabled              BOOLEAN NOT NULL,
    custom_error_message TEXT NOT NULL,
    updated_at           BIGINT NOT NULL
);

CREATE TABLE platform_env_groups (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    variables  TEXT NOT NULL,
    updated_at BIGINT NOT NULL
);
