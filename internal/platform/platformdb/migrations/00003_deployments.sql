-- +goose Up

-- What a deployment has to remember: what the user asked for, how far it is,
-- and what the web process was before it.

ALTER TABLE platform_deployments ADD COLUMN options TEXT NOT NULL DEFAULT '{}';
ALTER TABLE platform_deployments ADD COLUMN step BIGINT NOT NULL DEFAULT 0;
ALTER TABLE platform_deployments ADD COLUMN web_before TEXT NOT NULL DEFAULT '{}';
ALTER TABLE platform_deployments ADD COLUMN last_healthy BIGINT NOT NULL DEFAULT 0;
ALTER TABLE platform_deployments ADD COLUMN error TEXT COLLATE "C" NOT NULL DEFAULT '';
