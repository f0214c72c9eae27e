-- +goose Up

-- Times are nanoseconds since 1970, 0 when there is none.
--
-- No foreign keys: on PostgreSQL every new message would lock, and so write,
-- the row of its send.
--
-- Two spellings are changed for SQLite (see migrate.go): BIGINT PRIMARY KEY
-- becomes INTEGER PRIMARY KEY, which is the number that SQLite gives each row
-- anyway and so needs no index, and CLUSTERED becomes WITHOUT ROWID.

CREATE TABLE notify_clients (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    description TEXT NOT NULL,
    template_id TEXT COLLATE "C" NOT NULL
);

CREATE TABLE notify_kinds (
    client_id   TEXT COLLATE "C" NOT NULL,
    id          TEXT COLLATE "C" NOT NULL,
    description TEXT NOT NULL,
    critical    BOOLEAN NOT NULL,
    template_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (client_id, id)
);

CREATE TABLE notify_templates (
    id         TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    owner      TEXT COLLATE "C" NOT NULL,
    name       TEXT NOT NULL,
    subject    TEXT NOT NULL,
    text       TEXT NOT NULL,
    html       TEXT NOT NULL,
    metadata   TEXT NOT NULL,
    overridden BOOLEAN NOT NULL,
    created    BIGINT NOT NULL,
    updated    BIGINT NOT NULL
);
CREATE INDEX notify_templates_owner ON notify_templates (owner, created, id);

CREATE TABLE notify_senders (
    id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    client_id TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX notify_senders_name ON notify_senders (client_id, name);

CREATE TABLE notify_campaign_types (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    sender_id   TEXT COLLATE "C" NOT NULL,
    client_id   TEXT COLLATE "C" NOT NULL,
    name        TEXT COLLATE "C" NOT NULL,
    description TEXT NOT NULL,
    critical    BOOLEAN NOT NULL,
    template_id TEXT COLLATE "C" NOT NULL
);
CREATE UNIQUE INDEX notify_campaign_types_name ON notify_campaign_types (sender_id, name);

-- A user without a wish for everything has no row with empty client and kind; a
-- campaign type has an empty client.
CREATE TABLE notify_unsubscribes (
    user_id   TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    kind_id   TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (user_id, client_id, kind_id)
) /* CLUSTERED */;

-- Which clients ever sent a user anything.
CREATE TABLE notify_receipts (
    user_id   TEXT COLLATE "C" NOT NULL,
    client_id TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (user_id, client_id)
) /* CLUSTERED */;

CREATE TABLE notify_suppressions (
    email   TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    reason  TEXT NOT NULL,
    source  TEXT NOT NULL,
    created BIGINT NOT NULL
) /* CLUSTERED */;

-- From where processes take blocks of numbers for sends.
CREATE TABLE notify_numbers (
    name TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    next BIGINT NOT NULL
);
INSERT INTO notify_numbers (name, next) VALUES ('send', 1);

-- data is what never changes, as JSON: the content, the audiences and so on.
-- next counts the messages made. tally tells that notify_counts is kept; the
-- messages of other sends, which are few, are counted when somebody asks.
CREATE TABLE notify_sends (
    number          BIGINT NOT NULL PRIMARY KEY,
    client_id       TEXT COLLATE "C" NOT NULL,
    kind_id         TEXT COLLATE "C" NOT NULL,
    received        BIGINT NOT NULL,
    data            TEXT NOT NULL,
    cursor_audience INTEGER NOT NULL,
    cursor_page     TEXT NOT NULL,
    next            INTEGER NOT NULL,
    tally           BOOLEAN NOT NULL,
    expanded        BIGINT NOT NULL,
    lease_owner     TEXT COLLATE "C" NOT NULL,
    lease_until     BIGINT NOT NULL
);
CREATE INDEX notify_sends_client ON notify_sends (client_id, number);
CREATE INDEX notify_sends_unexpanded ON notify_sends (number) WHERE expanded = 0;

-- Each process, and each of its workers, adds to another shard, so that they
-- do not wait for each other.
CREATE TABLE notify_counts (
    send          BIGINT NOT NULL,
    shard         INTEGER NOT NULL,
    total         BIGINT NOT NULL,
    queued        BIGINT NOT NULL,
    retry         BIGINT NOT NULL,
    delivered     BIGINT NOT NULL,
    failed        BIGINT NOT NULL,
    undeliverable BIGINT NOT NULL,
    latest        BIGINT NOT NULL,
    PRIMARY KEY (send, shard)
) /* CLUSTERED */;

-- How many messages wait, in shards.
CREATE TABLE notify_backlog (
    shard   INTEGER NOT NULL PRIMARY KEY,
    waiting BIGINT NOT NULL
);

-- Members of sends to several audiences while those are read, to leave out who
-- is in more than one.
CREATE TABLE notify_members (
    send   BIGINT NOT NULL,
    member TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (send, member)
) /* CLUSTERED */;

CREATE TABLE notify_idempotency (
    client_id TEXT COLLATE "C" NOT NULL,
    name      TEXT COLLATE "C" NOT NULL,
    hash      TEXT NOT NULL,
    send      BIGINT NOT NULL,
    ends      BIGINT NOT NULL,
    PRIMARY KEY (client_id, name)
);
CREATE INDEX notify_idempotency_ends ON notify_idempotency (ends);

-- status: 0 queued, 1 retry, 2 delivered, 3 failed, 4 undeliverable. Only what
-- waits is in an index.
CREATE TABLE notify_messages (
    number   BIGINT NOT NULL PRIMARY KEY,
    lane     INTEGER NOT NULL,
    status   INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    due      BIGINT NOT NULL,
    updated  BIGINT NOT NULL,
    audience INTEGER NOT NULL,
    parked   BOOLEAN NOT NULL DEFAULT FALSE,
    user_id  TEXT COLLATE "C" NOT NULL,
    email    TEXT COLLATE "C" NOT NULL,
    reason   TEXT NOT NULL DEFAULT ''
);
CREATE INDEX notify_messages_queue ON notify_messages (lane, due, number) WHERE status < 2;
CREATE INDEX notify_messages_failed ON notify_messages (number) WHERE status = 3;

-- Leases of messages, when processes share the database: one row a claim, with
-- the numbers of its messages as a list {1,2,3}.
CREATE TABLE notify_leases (
    id       BIGINT NOT NULL PRIMARY KEY,
    owner    TEXT COLLATE "C" NOT NULL,
    ends     BIGINT NOT NULL,
    messages TEXT NOT NULL
);

CREATE TABLE notify_webhooks (
    id        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    client_id TEXT COLLATE "C" NOT NULL,
    url       TEXT NOT NULL,
    secret    TEXT NOT NULL,
    events    TEXT NOT NULL,
    created   BIGINT NOT NULL
);
CREATE INDEX notify_webhooks_client ON notify_webhooks (client_id, created, id);

CREATE TABLE notify_callbacks (
    id          TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    webhook_id  TEXT COLLATE "C" NOT NULL,
    payload     TEXT NOT NULL,
    attempts    INTEGER NOT NULL,
    due         BIGINT NOT NULL,
    lease_owner TEXT COLLATE "C" NOT NULL
);
CREATE INDEX notify_callbacks_due ON notify_callbacks (due, id);
CREATE INDEX notify_callbacks_webhook ON notify_callbacks (webhook_id);
CREATE INDEX notify_callbacks_owner ON notify_callbacks (lease_owner) WHERE lease_owner <> '';

-- Secrets of the service itself.
CREATE TABLE notify_secrets (
    name  TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value TEXT NOT NULL
);
