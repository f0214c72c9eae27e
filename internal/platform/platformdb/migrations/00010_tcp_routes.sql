-- +goose Up

-- Domains of TCP routes name their router group. Ports of routes are looked up when
-- one is reserved.

ALTER TABLE platform_domains ADD COLUMN router_group TEXT COLLATE "C" NOT NULL DEFAULT '';
CREATE INDEX platform_routes_port ON platform_routes (port, created_at, guid);
