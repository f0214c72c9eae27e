-- +goose Up

-- What is counted of the mail of a kind: 1 opens, 2 clicks, 3 both.
ALTER TABLE notify_kinds ADD COLUMN tracking INTEGER NOT NULL DEFAULT 0;

-- Whether the user consented to that. A row with neither this nor anything in channels and digest does not exist.
ALTER TABLE notify_unsubscribes ADD COLUMN tracking BOOLEAN NOT NULL DEFAULT FALSE;

-- What recipients did with a message: type is 1 for opened, 2 for clicked. It is deleted with the message, and when its
-- recipient is erased.
CREATE TABLE notify_reactions (
    message BIGINT NOT NULL,
    type    INTEGER NOT NULL,
    first   BIGINT NOT NULL,
    last    BIGINT NOT NULL,
    total   BIGINT NOT NULL,
    PRIMARY KEY (message, type)
) /* CLUSTERED */;
