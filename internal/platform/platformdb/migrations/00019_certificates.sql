-- +goose Up

-- Certificates of the servers, their keys, and the account with the certificate
-- authority, as files with paths. The value is sealed.

CREATE TABLE platform_certificates (
    name        TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    value       TEXT NOT NULL,
    modified_at BIGINT NOT NULL
);

-- Which server orders or renews a certificate.

CREATE TABLE platform_certificate_locks (
    name       TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    holder     TEXT COLLATE "C" NOT NULL,
    expires_at BIGINT NOT NULL
);
