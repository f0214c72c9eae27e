-- +goose Up

-- Sends that are repeated. next is the next occurrence, 0 if there is none; due is when a server looks at the row, which
-- is later while another one works on it or after an error. turn is the position among those of the client: of many that
-- are due at the same moment, those of all clients come in turn. state: 0 active, 1 paused, 2 ended.
CREATE TABLE notify_recurring (
    client_id TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    cron      TEXT NOT NULL,
    zone      TEXT NOT NULL,
    starts    BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    most      INTEGER NOT NULL,
    message   TEXT NOT NULL,
    state     INTEGER NOT NULL,
    next      BIGINT NOT NULL,
    due       BIGINT NOT NULL,
    turn      INTEGER NOT NULL,
    runs      INTEGER NOT NULL,
    failures  INTEGER NOT NULL,
    last_due  BIGINT NOT NULL,
    last_run  BIGINT NOT NULL,
    last_send BIGINT NOT NULL,
    problem   TEXT NOT NULL,
    created   BIGINT NOT NULL,
    updated   BIGINT NOT NULL,
    PRIMARY KEY (client_id, name)
);
CREATE INDEX notify_recurring_due ON notify_recurring (due, turn);
