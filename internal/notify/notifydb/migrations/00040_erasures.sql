-- +goose Up

-- Requests to erase what is stored about a person. user_id, email and addresses (a list in JSON of what the user
-- was mailed to) are empty when it is finished; client_id is empty for all clients. The numbers are what was erased.
CREATE TABLE notify_erasures (
    id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    client_id     TEXT COLLATE "C" NOT NULL,
    user_id       TEXT COLLATE "C" NOT NULL,
    email         TEXT COLLATE "C" NOT NULL,
    addresses     TEXT NOT NULL,
    created       BIGINT NOT NULL,
    finished      BIGINT NOT NULL,
    messages      BIGINT NOT NULL DEFAULT 0,
    canceled      BIGINT NOT NULL DEFAULT 0,
    contents      BIGINT NOT NULL DEFAULT 0,
    listed        BIGINT NOT NULL DEFAULT 0,
    notifications BIGINT NOT NULL DEFAULT 0,
    preferences   BIGINT NOT NULL DEFAULT 0,
    suppressions  BIGINT NOT NULL DEFAULT 0,
    calls         BIGINT NOT NULL DEFAULT 0
);
CREATE INDEX notify_erasures_client ON notify_erasures (client_id, finished);
CREATE INDEX notify_erasures_open ON notify_erasures (client_id) WHERE finished = 0;

-- What stays of persons whose data was erased: that they unsubscribed from something, or, with empty client and kind
-- and the hash of another text, that their address is suppressed.
CREATE TABLE notify_objections (
    hash      TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    kind_id   TEXT COLLATE "C" NOT NULL,
    source    TEXT NOT NULL,
    created   BIGINT NOT NULL,
    PRIMARY KEY (hash, client_id, kind_id)
) /* CLUSTERED */;
