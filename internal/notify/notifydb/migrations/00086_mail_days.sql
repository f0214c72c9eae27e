-- +goose Up

-- How much mail was sent to a receiving domain on its latest day, for the warm-up plan. domain is a hash of the name, which
-- may belong to a person; days are counted since 1970, and began is the first.
CREATE TABLE notify_mail_days (
    domain TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    began  BIGINT NOT NULL,
    day    BIGINT NOT NULL,
    taken  BIGINT NOT NULL
);
CREATE INDEX notify_mail_days_day ON notify_mail_days (day);
