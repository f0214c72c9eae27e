-- +goose Up

-- Security groups: what instances may connect to. The spaces that a group is
-- bound to are in its row, to be read, and once more in tables of their own, to
-- be searched.

CREATE TABLE platform_security_groups (
    guid             TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at       BIGINT NOT NULL,
    updated_at       BIGINT NOT NULL,
    name             TEXT COLLATE "C" NOT NULL,
    name_key         TEXT COLLATE "C" NOT NULL,
    rules            TEXT NOT NULL,
    globally_running BOOLEAN NOT NULL,
    globally_staging BOOLEAN NOT NULL,
    running_spaces   TEXT NOT NULL,
    staging_spaces   TEXT NOT NULL
);
CREATE UNIQUE INDEX platform_security_groups_name ON platform_security_groups (name_key);
CREATE INDEX platform_security_groups_created ON platform_security_groups (created_at, guid);
CREATE INDEX platform_security_groups_updated ON platform_security_groups (updated_at, guid);

CREATE TABLE platform_security_group_running_spaces (
    group_guid TEXT COLLATE "C" NOT NULL,
    space_guid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (group_guid, space_guid)
);
CREATE INDEX platform_security_group_running_spaces_space ON platform_security_group_running_spaces (space_guid, group_guid);

CREATE TABLE platform_security_group_staging_spaces (
    group_guid TEXT COLLATE "C" NOT NULL,
    space_guid TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (group_guid, space_guid)
);
CREATE INDEX platform_security_group_staging_spaces_space ON platform_security_group_staging_spaces (space_guid, group_guid);

-- What was done once to the data of an installation, such as creating the
-- default security groups, which must not come back when they are deleted.

CREATE TABLE platform_done (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY
);
