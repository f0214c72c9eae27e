-- +goose Up

-- Times are nanoseconds since 1970, 0 when there is none. Lists are JSON. Text
-- that an attribute may lack is NULL. Columns named …_key hold the text beside
-- them with A to Z in lower case: names are compared through them.
--
-- No foreign keys: a member may be a user or a group, a passcode has no client,
-- and on PostgreSQL every new token would lock, and so write, the one row of
-- the client that everybody uses. The store looks and deletes inside
-- serializable transactions instead.

CREATE TABLE auth_clients (
    id               TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    secrets          TEXT NOT NULL,
    name             TEXT NOT NULL,
    scopes           TEXT NOT NULL,
    authorities      TEXT NOT NULL,
    grant_types      TEXT NOT NULL,
    redirect_uris    TEXT NOT NULL,
    auto_approve     TEXT NOT NULL,
    resource_ids     TEXT NOT NULL,
    access_validity  BIGINT NOT NULL,
    refresh_validity BIGINT NOT NULL,
    public           BOOLEAN NOT NULL,
    created_at       BIGINT NOT NULL,
    modified_at      BIGINT NOT NULL,
    more             TEXT NOT NULL
);
CREATE INDEX auth_clients_created ON auth_clients (created_at, id);

CREATE TABLE auth_users (
    id                  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    user_name           TEXT COLLATE "C" NOT NULL,
    user_name_key       TEXT COLLATE "C" NOT NULL,
    origin              TEXT COLLATE "C" NOT NULL,
    external_id         TEXT COLLATE "C",
    given_name          TEXT COLLATE "C",
    family_name         TEXT COLLATE "C",
    email               TEXT COLLATE "C",
    email_key           TEXT COLLATE "C",
    phone               TEXT COLLATE "C",
    active              BOOLEAN NOT NULL,
    verified            BOOLEAN NOT NULL,
    password_hash       TEXT NOT NULL,
    password_changed_at BIGINT NOT NULL,
    created_at          BIGINT NOT NULL,
    modified_at         BIGINT NOT NULL,
    version             INTEGER NOT NULL,
    last_login_at       BIGINT NOT NULL,
    previous_login_at   BIGINT NOT NULL,
    login_failures      INTEGER NOT NULL,
    last_failure_at     BIGINT NOT NULL,
    locked_until        BIGINT NOT NULL
);
CREATE UNIQUE INDEX auth_users_name ON auth_users (user_name_key, origin);
CREATE INDEX auth_users_email ON auth_users (email_key, id);
CREATE INDEX auth_users_external ON auth_users (external_id);
CREATE INDEX auth_users_created ON auth_users (created_at, id);
CREATE INDEX auth_users_modified ON auth_users (modified_at, id);

CREATE TABLE auth_groups (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    name        TEXT COLLATE "C" NOT NULL,
    name_key    TEXT COLLATE "C" NOT NULL,
    description TEXT COLLATE "C",
    created_at  BIGINT NOT NULL,
    modified_at BIGINT NOT NULL,
    version     INTEGER NOT NULL
);
CREATE UNIQUE INDEX auth_groups_name ON auth_groups (name_key);
CREATE INDEX auth_groups_created ON auth_groups (created_at, id);

CREATE TABLE auth_members (
    group_id    TEXT COLLATE "C" NOT NULL,
    member_id   TEXT COLLATE "C" NOT NULL,
    member_type TEXT NOT NULL,
    origin      TEXT NOT NULL,
    PRIMARY KEY (group_id, member_id)
);
CREATE INDEX auth_members_member ON auth_members (member_id, member_type, group_id);

CREATE TABLE auth_codes (
    hash         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    kind         TEXT NOT NULL,
    client_id    TEXT COLLATE "C" NOT NULL,
    user_id      TEXT COLLATE "C" NOT NULL,
    scopes       TEXT NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge    TEXT NOT NULL,
    nonce        TEXT NOT NULL,
    auth_time    BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    used_at      BIGINT NOT NULL,
    family       TEXT NOT NULL
);
CREATE INDEX auth_codes_user ON auth_codes (user_id);
CREATE INDEX auth_codes_client ON auth_codes (client_id);
CREATE INDEX auth_codes_expires ON auth_codes (expires_at);

CREATE TABLE auth_sessions (
    hash       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    user_id    TEXT COLLATE "C" NOT NULL,
    auth_time  BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE INDEX auth_sessions_user ON auth_sessions (user_id);
CREATE INDEX auth_sessions_expires ON auth_sessions (expires_at);

CREATE TABLE auth_refresh_tokens (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    family     TEXT COLLATE "C" NOT NULL,
    user_id    TEXT COLLATE "C" NOT NULL,
    client_id  TEXT COLLATE "C" NOT NULL,
    scopes     TEXT NOT NULL,
    grant_type TEXT NOT NULL,
    auth_time  BIGINT NOT NULL,
    issued_at  BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    rotated_at BIGINT NOT NULL
);
CREATE INDEX auth_refresh_tokens_family ON auth_refresh_tokens (family);
CREATE INDEX auth_refresh_tokens_user ON auth_refresh_tokens (user_id);
CREATE INDEX auth_refresh_tokens_client ON auth_refresh_tokens (client_id);
CREATE INDEX auth_refresh_tokens_expires ON auth_refresh_tokens (expires_at);

CREATE TABLE auth_revocations (
    kind       TEXT COLLATE "C" NOT NULL,
    subject    TEXT COLLATE "C" NOT NULL,
    before_at  BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (kind, subject)
);
CREATE INDEX auth_revocations_expires ON auth_revocations (expires_at);

-- private_key is sealed; see authdb.SealedColumns.
CREATE TABLE auth_keys (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    private_key TEXT NOT NULL,
    created_at  BIGINT NOT NULL
);
