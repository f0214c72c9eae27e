-- +goose Up

-- Where the messages of clients go on channels whose receiver is not the recipient (4 webhook, 8 chat in the sums of
-- channels). id is the name of the channel and the client. url and secret are sealed.
CREATE TABLE notify_destinations (
    id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    client_id TEXT COLLATE "C" NOT NULL,
    channel   INTEGER NOT NULL,
    url       TEXT NOT NULL,
    secret    TEXT NOT NULL,
    format    TEXT NOT NULL,
    updated   BIGINT NOT NULL
);
CREATE INDEX notify_destinations_client ON notify_destinations (client_id, channel);
