-- +goose Up

-- When users and addresses do not want to be disturbed, as JSON. Most have no row.
CREATE TABLE notify_quiet_hours (
    user_id TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    hours   TEXT NOT NULL
);
