-- +goose Up

-- Rotations of the credentials of bindings. broker_id is the broker's id of a binding whose
-- credentials replaced others; empty means its guid. on_credentials is what a process asks
-- for when credentials in its service files change.

ALTER TABLE platform_service_bindings ADD COLUMN broker_id TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE platform_service_plans ADD COLUMN binding_rotatable BOOLEAN NOT NULL DEFAULT FALSE;
ALTER TABLE platform_processes ADD COLUMN on_credentials TEXT COLLATE "C" NOT NULL DEFAULT '';

CREATE TABLE platform_credential_rotations (
    guid            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    created_at      BIGINT NOT NULL,
    updated_at      BIGINT NOT NULL,
    request_guid    TEXT COLLATE "C" NOT NULL,
    instance_guid   TEXT COLLATE "C" NOT NULL,
    binding_guid    TEXT COLLATE "C" NOT NULL,
    app_guid        TEXT COLLATE "C" NOT NULL,
    space_guid      TEXT COLLATE "C" NOT NULL,
    old_id          TEXT COLLATE "C" NOT NULL,
    new_id          TEXT COLLATE "C" NOT NULL,
    state           TEXT COLLATE "C" NOT NULL,
    method          TEXT COLLATE "C" NOT NULL,
    deployment_guid TEXT COLLATE "C" NOT NULL,
    waits           TEXT NOT NULL,
    grace_seconds   BIGINT NOT NULL,
    restart         BOOLEAN NOT NULL,
    forced          BOOLEAN NOT NULL,
    revoke_at       BIGINT NOT NULL,
    description     TEXT COLLATE "C" NOT NULL
);
CREATE INDEX platform_credential_rotations_instance ON platform_credential_rotations (instance_guid, created_at, guid);
CREATE INDEX platform_credential_rotations_binding ON platform_credential_rotations (binding_guid, guid);
CREATE INDEX platform_credential_rotations_app ON platform_credential_rotations (app_guid, guid);
CREATE INDEX platform_credential_rotations_space ON platform_credential_rotations (space_guid, created_at, guid);
CREATE INDEX platform_credential_rotations_request ON platform_credential_rotations (request_guid, guid);
CREATE INDEX platform_credential_rotations_state ON platform_credential_rotations (state, guid);
CREATE INDEX platform_credential_rotations_created ON platform_credential_rotations (created_at, guid);
CREATE INDEX platform_credential_rotations_updated ON platform_credential_rotations (updated_at, guid);
