-- +goose Up

-- What deliveries are counted by. Ids are random. A series without figures is retired, and deleted a day later, when no
-- server knows its id any more; it is used again when retired is 0.
CREATE TABLE notify_series (
    id          BIGINT NOT NULL PRIMARY KEY,
    client_id   TEXT COLLATE "C" NOT NULL,
    kind_id     TEXT COLLATE "C" NOT NULL,
    channel     INTEGER NOT NULL,
    template_id TEXT COLLATE "C" NOT NULL,
    version     BIGINT NOT NULL,
    domain      TEXT COLLATE "C" NOT NULL,
    created     BIGINT NOT NULL,
    retired     BIGINT NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX notify_series_key ON notify_series (client_id, kind_id, channel, template_id, version, domain);

-- Numbers of messages in an hour, counted from 1970; in a day, if daily, where it is the first hour of the day in UTC.
-- Each server adds to another shard, so that they do not wait for each other.
CREATE TABLE notify_figures (
    series        BIGINT NOT NULL,
    daily         BOOLEAN NOT NULL,
    hour          BIGINT NOT NULL,
    shard         INTEGER NOT NULL,
    accepted      BIGINT NOT NULL,
    delivered     BIGINT NOT NULL,
    failed        BIGINT NOT NULL,
    undeliverable BIGINT NOT NULL,
    unsubscribed  BIGINT NOT NULL,
    canceled      BIGINT NOT NULL,
    skipped       BIGINT NOT NULL,
    retried       BIGINT NOT NULL,
    PRIMARY KEY (series, daily, hour, shard)
) /* CLUSTERED */;
CREATE INDEX notify_figures_hour ON notify_figures (daily, hour, series);
