-- +goose Up

-- How many seconds a new instance of a process has to be ready before a deployment counts
-- it; empty means the default.

ALTER TABLE platform_processes ADD COLUMN min_healthy_time TEXT COLLATE "C" NOT NULL DEFAULT '';
