-- +goose Up

-- Quotas of organizations and of spaces. Organizations and spaces name theirs.

CREATE TABLE platform_organization_quotas (
    guid       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    name_key   TEXT COLLATE "C" NOT NULL,
    limits     TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_organization_quotas_name ON platform_organization_quotas (name_key);
CREATE INDEX platform_organization_quotas_created ON platform_organization_quotas (created_at, guid);
CREATE INDEX platform_organization_quotas_updated ON platform_organization_quotas (updated_at, guid);

CREATE TABLE platform_space_quotas (
    guid              TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at        BIGINT NOT NULL,
    updated_at        BIGINT NOT NULL,
    name              TEXT COLLATE "C" NOT NULL,
    name_key          TEXT COLLATE "C" NOT NULL,
    organization_guid TEXT COLLATE "C" NOT NULL,
    limits            TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_space_quotas_name ON platform_space_quotas (organization_guid, name_key);
CREATE INDEX platform_space_quotas_names ON platform_space_quotas (name_key, guid);
CREATE INDEX platform_space_quotas_created ON platform_space_quotas (created_at, guid);
CREATE INDEX platform_space_quotas_updated ON platform_space_quotas (updated_at, guid);

CREATE INDEX platform_organizations_quota ON platform_organizations (quota_guid, created_at, guid);
CREATE INDEX platform_spaces_quota ON platform_spaces (quota_guid, created_at, guid);
