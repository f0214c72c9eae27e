-- +goose Up

-- alerted is false for audit events that the developers of their space have not been notified
-- of yet. Earlier versions leave it false, those of events without a notification, too.

ALTER TABLE platform_audit_events ADD COLUMN alerted BOOLEAN NOT NULL DEFAULT FALSE;
UPDATE platform_audit_events SET alerted = TRUE;
CREATE INDEX platform_audit_events_alerts ON platform_audit_events (created_at, guid) WHERE NOT alerted;
