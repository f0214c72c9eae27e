-- +goose Up

-- Network policies: which apps may connect to which.

CREATE TABLE platform_network_policies (
    guid            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    source_guid     TEXT COLLATE "C" NOT NULL,
    dest_guid       TEXT COLLATE "C" NOT NULL,
    protocol        TEXT COLLATE "C" NOT NULL,
    first_port      BIGINT NOT NULL,
    last_port       BIGINT NOT NULL
);
CREATE UNIQUE INDEX platform_network_policies_source ON platform_network_policies (source_guid, dest_guid, protocol, first_port, last_port);
CREATE INDEX platform_network_policies_dest ON platform_network_policies (dest_guid, guid);
CREATE INDEX platform_network_policies_created ON platform_network_policies (created_at, guid);
CREATE INDEX platform_network_policies_updated ON platform_network_policies (updated_at, guid);
