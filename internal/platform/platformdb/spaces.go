package platformdb

import (
	"context"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/platform"
)

// ownedByApps are the tables that repeat the space of the app that a row belongs to, so that an index finds what a
// reader sees.
var ownedByApps = []string{
	"platform_processes", "platform_sidecars", "platform_deployments", "platform_revisions", "platform_tasks",
	"platform_packages", "platform_builds", "platform_droplets",
}

// moved follows an app into another space. No API does that, but the store must not show what belongs to an app to
// others than the app.
func moved(tx *db.Tx, app *platform.App) error {
	for _, table := range ownedByApps {
		if _, err := tx.Exec("UPDATE "+table+" SET space_guid = ? WHERE app_guid = ?", app.SpaceGUID, app.GUID); err != nil {
			return err
		}
	}
	return nil
}

// FillSpaces sets the space of rows that a server of an older version has inserted since the migration: it uses the
// database until it is replaced. Until then lists of their table take longer, because they ask for the spaces of apps.
func (s *Store) FillSpaces(ctx context.Context) error {
	const without = " WHERE space_guid = '' AND app_guid IN (SELECT a.guid FROM platform_apps a)"
	var some []string
	for _, table := range ownedByApps {
		some = append(some, "EXISTS (SELECT 1 FROM "+table+without+")")
	}
	var found bool
	err := s.db.View(ctx, func(tx *db.Tx) error {
		return tx.QueryRow("SELECT " + strings.Join(some, " OR ")).Scan(&found)
	})
	if err != nil || !found {
		return err
	}
	return s.db.Update(ctx, func(tx *db.Tx) error {
		for _, table := range ownedByApps {
			space := "(SELECT a.space_guid FROM platform_apps a WHERE a.guid = " + table + ".app_guid)"
			if _, err := tx.Exec("UPDATE " + table + " SET space_guid = " + space + without); err != nil {
				return err
			}
		}
		return nil
	})
}
