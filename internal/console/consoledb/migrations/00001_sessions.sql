-- +goose Up
-- The logins of browsers. Times are in nanoseconds since 1970.
CREATE TABLE console_sessions (
	hash TEXT COLLATE "C" NOT NULL PRIMARY KEY, -- of the cookie
	user_id TEXT COLLATE "C" NOT NULL,
	user_name TEXT NOT NULL,
	scopes TEXT NOT NULL, -- JSON
	secrets TEXT NOT NULL, -- JSON, sealed
	access_expires BIGINT NOT NULL,
	expires BIGINT NOT NULL
);
CREATE INDEX console_sessions_user ON console_sessions (user_id, expires);
CREATE INDEX console_sessions_expires ON console_sessions (expires);
