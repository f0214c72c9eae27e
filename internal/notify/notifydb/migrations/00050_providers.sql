-- +goose Up

-- Services that deliver the messages of a channel by HTTP. owner is the client, or empty for those of administrators;
-- id is the owner and the name. definition is JSON, and secrets, an object in JSON, is sealed.
CREATE TABLE notify_providers (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner      TEXT COLLATE "C" NOT NULL,
    name       TEXT COLLATE "C" NOT NULL,
    channel    INTEGER NOT NULL,
    definition TEXT NOT NULL,
    secrets    TEXT NOT NULL,
    created    BIGINT NOT NULL,
    updated    BIGINT NOT NULL
);
CREATE INDEX notify_providers_owner ON notify_providers (owner, channel, name);
