-- +goose Up

-- Files that clients attach to sends, once by content: id is its hash. used is when one was stored or attached last. The
-- content has its own table, so that changing used does not write it again.
CREATE TABLE notify_files (
    client_id TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    kind      TEXT NOT NULL,
    size      BIGINT NOT NULL,
    created   BIGINT NOT NULL,
    used      BIGINT NOT NULL,
    PRIMARY KEY (client_id, id)
) /* CLUSTERED */;
CREATE INDEX notify_files_used ON notify_files (used);

CREATE TABLE notify_file_data (
    client_id TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    content   BYTEA NOT NULL,
    PRIMARY KEY (client_id, id)
);

-- Which sends have which files.
CREATE TABLE notify_file_uses (
    client_id TEXT COLLATE "C" NOT NULL,
    id        TEXT COLLATE "C" NOT NULL,
    send      BIGINT NOT NULL,
    PRIMARY KEY (client_id, id, send)
) /* CLUSTERED */;
CREATE INDEX notify_file_uses_send ON notify_file_uses (send);
