package actions

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// keptDeliveries is how many ids of webhooks are remembered for each source. A repetition that is older deploys
// nothing either, because the commit is deployed already.
const keptDeliveries = 32

// GitSourceOf returns the git source of an app, or nil.
func GitSourceOf(tx platform.Tx, app string) (*platform.GitSource, error) {
	src, err := tx.GitSources().First(platform.Where("app_guid", app))
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	return src, err
}

// MergeGitSource completes a new source with what is kept of the old one, which may be nil. The password is kept only
// for the same repository and user name: otherwise a developer who does not know it could have it sent to another
// server, or read other repositories with it. keep means that no new one was given.
func MergeGitSource(old, src *platform.GitSource, keep bool) {
	if old == nil {
		return
	}
	src.Resource = old.Resource
	if keep && repositoryOf(old.URL) == repositoryOf(src.URL) && old.Username == src.Username {
		src.Password = old.Password
	}
	if old.URL != src.URL {
		return // its webhooks are those of another repository
	}
	src.Secret, src.Deliveries = old.Secret, old.Deliveries
	if old.Branch == src.Branch && old.Folder == src.Folder {
		src.Commit, src.Subject, src.Deployed, src.Error = old.Commit, old.Subject, old.Deployed, old.Error
	}
}

// repositoryOf returns a URL without what git servers ignore at its end.
func repositoryOf(address string) string {
	return strings.TrimSuffix(strings.TrimSuffix(address, "/"), ".git")
}

// SetGitSource stores the source of an app; by owns it then.
func (p *Platform) SetGitSource(tx platform.Tx, by Actor, app *platform.App, src *platform.GitSource) error {
	old, err := GitSourceOf(tx, app.GUID)
	if err != nil {
		return err
	}
	row := *src
	row.AppGUID, row.SpaceGUID, row.OwnerGUID, row.OwnerName = app.GUID, app.SpaceGUID, by.GUID, by.Name
	if old == nil {
		row.Resource = platform.Resource{}
		err = tx.GitSources().Insert(&row)
	} else {
		row.Resource = old.Resource
		if old.URL == row.URL { // rotated or called in the meantime
			row.Secret, row.Deliveries = old.Secret, old.Deliveries
		}
		err = tx.GitSources().Update(&row)
	}
	if err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.git_source.update", by, app, map[string]any{"request": map[string]any{
		"url": row.URL, "branch": row.Branch, "folder": row.Folder, "commit": row.Commit}})
}

// RemoveGitSource removes the source of an app, with its credentials and its webhooks. The app stays.
func (p *Platform) RemoveGitSource(tx platform.Tx, by Actor, app *platform.App, src *platform.GitSource) error {
	if err := tx.GitSources().Delete(src.GUID); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.git_source.delete", by, app, nil)
}

// RotateGitSecret gives a source a new secret for webhooks.
func (p *Platform) RotateGitSecret(tx platform.Tx, by Actor, app *platform.App, src *platform.GitSource) error {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	src.Secret = hex.EncodeToString(b)
	if err := tx.GitSources().Update(src); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.git_webhook.rotate", by, app, nil)
}

// GitPushed records a webhook of a push, and reports whether it is new.
func (p *Platform) GitPushed(tx platform.Tx, app *platform.App, src *platform.GitSource, delivery, commit string) (bool,
	error) {
	if src.Commit == commit || delivery != "" && slices.Contains(src.Deliveries, delivery) {
		return false, nil
	}
	if delivery != "" {
		src.Deliveries = append(src.Deliveries, delivery)
		if n := len(src.Deliveries); n > keptDeliveries {
			src.Deliveries = slices.Clone(src.Deliveries[n-keptDeliveries:])
		}
		if err := tx.GitSources().Update(src); err != nil {
			return false, err
		}
	}
	return true, p.RecordApp(tx, "audit.app.git_webhook.receive", GitOwner(src), app, map[string]any{"commit": commit})
}

// GitOwner returns the actor of deployments that webhooks begin.
func GitOwner(src *platform.GitSource) Actor {
	kind := "user"
	if src.OwnerGUID == src.OwnerName { // see rest.CallerOf
		kind = "client"
	}
	return Actor{GUID: src.OwnerGUID, Type: kind, Name: src.OwnerName}
}

// GitDeployed records the commit whose build begins, unless the source was changed in the meantime.
func (p *Platform) GitDeployed(tx platform.Tx, src *platform.GitSource) error {
	row, err := GitSourceOf(tx, src.AppGUID)
	if err != nil || row == nil || row.URL != src.URL || row.Branch != src.Branch || row.Folder != src.Folder {
		return err
	}
	row.Commit, row.Subject, row.Deployed, row.Error = src.Commit, src.Subject, src.Deployed, ""
	return tx.GitSources().Update(row)
}

// GitDeployFailed records why a webhook began no build.
func (p *Platform) GitDeployFailed(tx platform.Tx, app, why string) error {
	row, err := GitSourceOf(tx, app)
	if err != nil || row == nil {
		return err
	}
	row.Error = why
	return tx.GitSources().Update(row)
}
