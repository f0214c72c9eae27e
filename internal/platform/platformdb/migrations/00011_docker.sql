-- +goose Up

-- Droplets that are container images: what the registry says about the image, and
-- the credentials to pull it. The password is sealed.

ALTER TABLE platform_droplets ADD COLUMN container TEXT NOT NULL DEFAULT '';
ALTER TABLE platform_droplets ADD COLUMN image_username TEXT NOT NULL DEFAULT '';
ALTER TABLE platform_droplets ADD COLUMN image_password TEXT NOT NULL DEFAULT '';
