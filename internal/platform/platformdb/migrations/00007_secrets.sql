-- +goose Up

-- Secrets that all servers of an installation share, such as the authority of
-- the agents in its Pods. The value is sealed.

CREATE TABLE platform_secrets (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
