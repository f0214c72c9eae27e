-- +goose Up

-- What apps needed over time: blocks of points in the encoding of internal/platform/series. Each
-- server writes what it measured; readers merge the parts. start_at is in seconds since 1970.

CREATE TABLE platform_series (
    app_guid   TEXT COLLATE "C" NOT NULL,
    resolution BIGINT NOT NULL,
    start_at   BIGINT NOT NULL,
    server     TEXT COLLATE "C" NOT NULL,
    data       BYTEA NOT NULL,
    PRIMARY KEY (app_guid, resolution, start_at, server)
);
CREATE INDEX platform_series_start ON platform_series (resolution, start_at);
