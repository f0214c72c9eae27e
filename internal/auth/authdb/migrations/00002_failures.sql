-- +goose Up

-- Failed logins in a row of an account from an address. Only servers that share a database
-- use it; one server counts in memory.

CREATE TABLE auth_failures (
    account    TEXT COLLATE "C" NOT NULL,
    address    TEXT COLLATE "C" NOT NULL,
    failures   BIGINT NOT NULL,
    failed_at  BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (account, address)
);
CREATE INDEX auth_failures_expires ON auth_failures (expires_at);
