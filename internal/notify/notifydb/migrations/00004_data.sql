-- +goose Up

-- Recipients that callers named one by one, with their data. They are stored before their send
-- is accepted; send is 0 until then.
CREATE TABLE notify_lists (
    id      TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    send    BIGINT NOT NULL,
    created BIGINT NOT NULL
);
CREATE INDEX notify_lists_send ON notify_lists (send, created);

-- A block of members, as a list in JSON.
CREATE TABLE notify_list_members (
    list     TEXT COLLATE "C" NOT NULL,
    position INTEGER NOT NULL,
    members  TEXT NOT NULL,
    PRIMARY KEY (list, position)
);

-- The JSON Schemas of the data of kinds.
CREATE TABLE notify_schemas (
    client_id TEXT COLLATE "C" NOT NULL,
    kind_id   TEXT COLLATE "C" NOT NULL,
    content   TEXT NOT NULL,
    PRIMARY KEY (client_id, kind_id)
);
