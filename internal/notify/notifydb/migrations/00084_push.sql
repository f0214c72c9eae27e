-- +goose Up

-- The browsers that users have subscribed to push notifications. id is made of the client and the endpoint. target, an
-- object in JSON with the endpoint and the keys, is sealed. has are the numbers of messages that the browser has, while
-- they are tried again for other browsers of the user.
CREATE TABLE notify_push (
    id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    client_id TEXT COLLATE "C" NOT NULL,
    user_id   TEXT COLLATE "C" NOT NULL,
    target    TEXT NOT NULL,
    label     TEXT NOT NULL,
    has       TEXT NOT NULL DEFAULT '',
    created   BIGINT NOT NULL,
    updated   BIGINT NOT NULL
);
CREATE INDEX notify_push_user ON notify_push (user_id, client_id);

ALTER TABLE notify_erasures ADD COLUMN browsers BIGINT NOT NULL DEFAULT 0;
