-- +goose Up

-- What servers that share a database know about its backups: the last one, and the one
-- that the database was restored from. The value is JSON.

CREATE TABLE platform_backups (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
