-- +goose Up

-- The OAuth clients that the dashboards of a broker have, by their ids. The
-- column is sealed.

ALTER TABLE platform_service_brokers ADD COLUMN dashboard_clients TEXT NOT NULL DEFAULT '';
