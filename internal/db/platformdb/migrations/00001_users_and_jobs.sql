-- +goose Up
CREATE TABLE platform_users (
    guid       TEXT   NOT NULL PRIMARY KEY,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE TABLE platform_jobs (
    guid       TEXT   NOT NULL PRIMARY KEY,
    operation  TEXT   NOT NULL,
    state      TEXT   NOT NULL,
    errors     TEXT   NOT NULL,
    warnings   TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);

CREATE INDEX platform_jobs_updated ON platform_jobs (updated_at);
