package catalog

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

const versionColumns = "template_id, version, client, name, subject, text, html, metadata, variants, updated, " +
	"changed_by"

func scanVersion(row db.Scanner) (t notify.Template, err error) {
	var client, metadata, variants string
	err = row.Scan(&t.ID, &t.Version, &client, &t.Name, &t.Subject, &t.Text, &t.HTML, &metadata, &variants,
		query.Moment(&t.Updated), &t.ChangedBy)
	if metadata != "" {
		t.Metadata = json.RawMessage(metadata)
	}
	if err == nil && variants != "" {
		err = json.Unmarshal([]byte(variants), &t.Variants)
	}
	return t, err
}

// keepVersion stores what a template was, before it is changed, and forgets the oldest versions.
func keepVersion(tx *db.Tx, old notify.Template) error {
	variants, err := encodeVariants(old.Variants)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(query.Insert("notify_template_versions", versionColumns), old.ID, old.Version, old.Client(),
		old.Name,
		old.Subject, old.Text, old.HTML, string(old.Metadata), variants, db.Nanos(old.Updated), old.ChangedBy); err != nil {
		return err
	}
	_, err = tx.Exec("DELETE FROM notify_template_versions WHERE template_id = ? AND version <= ?", old.ID,
		old.Version-notify.MaxVersions)
	return err
}

// replaceTemplate stores a changed template with its variants, as a new version if anything differs.
func (s *Catalog) replaceTemplate(tx *db.Tx, old, t notify.Template) error {
	variants, err := encodeVariants(t.Variants)
	if err != nil {
		return err
	}
	version := old.Version
	if !slices.Equal(old.Parts(), t.Parts()) {
		if err := keepVersion(tx, old); err != nil {
			return err
		}
		version++
	}
	if err := query.Changed(tx.Exec(
		"UPDATE notify_templates SET name = ?, subject = ?, text = ?, html = ?, metadata = ?, "+
			"overridden = ?, updated = ?, variants = ?, uses = ?, version = ?, changed_by = ? WHERE id = ?",
		t.Name, t.Subject, t.Text, t.HTML, string(t.Metadata), t.Overridden, db.Nanos(t.Updated), variants,
		usesText(t.Uses()), version, t.ChangedBy, t.ID)); err != nil {
		return err
	}
	return s.CheckDefinitions(tx, old.Client())
}

// TemplateVersions implements notify.Store.
func (s *Catalog) TemplateVersions(ctx context.Context, id string) ([]notify.Template, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Template, error) {
		current, err := query.One(tx, scanTemplate, "SELECT "+templateColumns+" FROM notify_templates WHERE id = ?", id)
		if err != nil {
			return nil, err
		}
		earlier, err := query.Matching(tx, scanVersion, "SELECT "+versionColumns+
			" FROM notify_template_versions WHERE template_id = ? ORDER BY version DESC", id)
		return append([]notify.Template{current}, earlier...), err
	})
}

// RestoreTemplate implements notify.Store.
func (s *Catalog) RestoreTemplate(ctx context.Context, id string, version int64, updated time.Time, by string) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		old, err := lockTemplate(tx, id)
		if err != nil {
			return err
		}
		t, err := query.One(tx, scanVersion, "SELECT "+versionColumns+
			" FROM notify_template_versions WHERE template_id = ? AND version = ?", id, version)
		if err != nil {
			return err
		}
		t.Overridden, t.Updated, t.ChangedBy = old.Overridden, updated, by
		return s.replaceTemplate(tx, old, t)
	})
}

// forgetVersions deletes a client's oldest versions of templates until n bytes are free: history never takes the
// space of what is in use.
func forgetVersions(tx *db.Tx, client string, n int64) error {
	type size struct {
		template       string
		version, bytes int64
	}
	all, err := db.All(tx, func(row db.Scanner) (v size, err error) {
		err = row.Scan(&v.template, &v.version, &v.bytes)
		return v, err
	}, "SELECT template_id, version, "+versionBytes+" FROM notify_template_versions WHERE client = ? "+
		"ORDER BY updated, template_id, version", client)
	for _, v := range all {
		if err != nil || n <= 0 {
			break
		}
		n -= v.bytes + definitionOverhead
		_, err = tx.Exec("DELETE FROM notify_template_versions WHERE template_id = ? AND version = ?", v.template, v.version)
	}
	return err
}
