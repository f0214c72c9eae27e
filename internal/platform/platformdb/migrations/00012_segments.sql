-- +goose Up

-- Isolation segments, the organizations that are entitled to them, and which one
-- an organization or a space uses.

CREATE TABLE platform_isolation_segments (
    guid          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    name          TEXT COLLATE "C" NOT NULL,
    name_key      TEXT COLLATE "C" NOT NULL,
    organizations TEXT NOT NULL,
    labels        TEXT NOT NULL,
    annotations   TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_isolation_segments_name ON platform_isolation_segments (name_key);
CREATE INDEX platform_isolation_segments_created ON platform_isolation_segments (created_at, guid);
CREATE INDEX platform_isolation_segments_updated ON platform_isolation_segments (updated_at, guid);

CREATE TABLE platform_segment_organizations (
    segment_guid      TEXT COLLATE "C" NOT NULL,
    organization_guid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (segment_guid, organization_guid)
);
CREATE INDEX platform_segment_organizations_organization ON platform_segment_organizations (organization_guid, segment_guid);

ALTER TABLE platform_organizations ADD COLUMN segment_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_spaces ADD COLUMN segment_guid TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX platform_organizations_segment ON platform_organizations (segment_guid, created_at, guid);
CREATE INDEX platform_spaces_segment ON platform_spaces (segment_guid, created_at, guid);
