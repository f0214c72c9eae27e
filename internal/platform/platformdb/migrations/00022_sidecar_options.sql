-- +goose Up

-- What sidecars ask for beyond Cloud Foundry, as encrypted JSON: it has environment variables.

ALTER TABLE platform_sidecars ADD COLUMN options TEXT NOT NULL DEFAULT '';
ALTER TABLE platform_revisions ADD COLUMN sidecar_options TEXT NOT NULL DEFAULT '';
