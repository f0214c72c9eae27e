package platformdb

import (
	"errors"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// The kinds of blobs that rows refer to, by the names of their folders.
const (
	packageBlobs   = "packages"
	dropletBlobs   = "droplets"
	buildpackBlobs = "buildpacks"
)

// BlobRef is the kind and key of a blob that a row refers to.
type BlobRef struct{ Kind, Key string }

// BlobRefs calls yield with every blob that the database refers to.
func BlobRefs(tx *db.Tx, yield func(BlobRef)) error {
	rows, err := tx.Query(`SELECT CAST(? AS TEXT), guid FROM platform_packages WHERE type = ? AND state = ?
		UNION ALL SELECT CAST(? AS TEXT), guid FROM platform_droplets WHERE lifecycle = ? AND state = ?
		UNION ALL SELECT CAST(? AS TEXT), guid FROM platform_buildpacks WHERE NOT bundled AND state = ?`,
		packageBlobs, platform.PackageBits, string(platform.PackageReady),
		dropletBlobs, platform.LifecycleBuildpack, string(platform.DropletStaged),
		buildpackBlobs, string(platform.BuildpackReady))
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var ref BlobRef
		if err := rows.Scan(&ref.Kind, &ref.Key); err != nil {
			return err
		}
		yield(ref)
	}
	return errors.Join(rows.Err(), rows.Close())
}

// BackupNotes is the version of the tables from which on there are notes about backups, in the
// database that several servers share.
const BackupNotes = 21

// BackupNote returns a note about backups; empty if there is none.
func BackupNote(tx *db.Tx, name string) (value string, err error) {
	err = tx.QueryRow("SELECT value FROM platform_backups WHERE name = ?", name).Scan(&value)
	if missing(err) {
		return "", nil
	}
	return value, err
}

// SetBackupNote writes a note about backups.
func SetBackupNote(tx *db.Tx, name, value string) error {
	_, err := tx.Exec("INSERT INTO platform_backups (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value "+
		"= excluded.value", name, value)
	return written(err)
}
