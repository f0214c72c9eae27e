package catalog

import (
	"context"
	"encoding/json"
	"maps"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

const templateColumns = "id, owner, name, subject, text, html, metadata, overridden, created, updated, creator, " +
	"variants, uses, version, changed_by"

func scanTemplate(s db.Scanner) (t notify.Template, err error) {
	var metadata, variants, uses string
	err = s.Scan(&t.ID, &t.Owner, &t.Name, &t.Subject, &t.Text, &t.HTML, &metadata, &t.Overridden,
		query.Moment(&t.Created), query.Moment(&t.Updated), &t.Creator, &variants, &uses, &t.Version, &t.ChangedBy)
	if metadata != "" {
		t.Metadata = json.RawMessage(metadata)
	}
	if err == nil && variants != "" {
		err = json.Unmarshal([]byte(variants), &t.Variants)
	}
	return t, err
}

func encodeVariants(all map[string]notify.Variant) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	for locale, v := range all {
		if err := query.AllStorable(locale, v.Subject, v.Text, v.HTML); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

func templateValues(t notify.Template) []any {
	return []any{
		t.ID, t.Owner, t.Name, t.Subject, t.Text, t.HTML, string(t.Metadata), t.Overridden,
		db.Nanos(t.Created), db.Nanos(t.Updated), t.Creator, "", // variants are added later
		usesText(t.Uses()), 1, t.ChangedBy,
	}
}

// CreateTemplate implements notify.Store. It is ErrConflict when the id is
// taken.
func (s *Catalog) CreateTemplate(ctx context.Context, t notify.Template) error {
	return s.Define(ctx, t.Client(), func(tx *db.Tx) error {
		_, err := tx.Exec(query.Insert("notify_templates", templateColumns), templateValues(t)...)
		return err
	})
}

// Template implements notify.Store.
func (s *Catalog) Template(ctx context.Context, id string) (notify.Template, error) {
	if s.db.Shared() {
		read, err := s.join(ctx, func(r *sharedRead) { r.templates[id] = notify.Template{} })
		if err != nil {
			return notify.Template{}, err
		}
		t := read.templates[id]
		return t, orNotFound(t.ID, nil)
	}
	return known(ctx, s, notify.KindRef{KindID: id}, &s.registered.templates, manyTemplates,
		func(tx *db.Tx) (notify.Template, error) {
			t, err := query.One(tx, scanTemplate, "SELECT "+templateColumns+" FROM notify_templates WHERE id = ?", id)
			if err != nil {
				return t, err
			}
			return withPartials(tx, t)
		})
}

// ListTemplates implements notify.Store.
func (s *Catalog) ListTemplates(ctx context.Context, owner string) ([]notify.Template, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Template, error) {
		return query.Matching(tx, scanTemplate, "SELECT "+templateColumns+
			" FROM notify_templates WHERE owner = ? AND id NOT IN (?, ?) ORDER BY created, id",
			owner, notify.DefaultTemplate, notify.DefaultTemplateV2)
	})
}

// UpdateTemplate implements notify.Store. It does not change Owner, Creator and
// Created.
func (s *Catalog) UpdateTemplate(ctx context.Context, t notify.Template) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		old, err := lockTemplate(tx, t.ID)
		if err != nil {
			return err
		}
		t.Variants = old.Variants
		return s.replaceTemplate(tx, old, t)
	})
}

func lockTemplate(tx *db.Tx, id string) (notify.Template, error) {
	return query.One(tx, scanTemplate, "SELECT "+templateColumns+" FROM notify_templates WHERE id = ?"+
		query.ForUpdate(tx.Dialect()), id)
}

// SetVariant implements notify.Store.
func (s *Catalog) SetVariant(ctx context.Context, templateID, locale string, v *notify.Variant,
	updated time.Time, by string) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		old, err := lockTemplate(tx, templateID)
		if err != nil {
			return err
		}
		t := old
		t.Variants, t.Updated, t.ChangedBy = maps.Clone(old.Variants), updated, by
		_, have := t.Variants[locale]
		switch {
		case v == nil && !have:
			return notify.ErrNotFound
		case v == nil:
			delete(t.Variants, locale)
		case !have && len(t.Variants) >= notify.MaxVariants:
			return notify.ErrTooMany
		default:
			if t.Variants == nil {
				t.Variants = map[string]notify.Variant{}
			}
			t.Variants[locale] = *v
		}
		return s.replaceTemplate(tx, old, t)
	})
}

// DeleteTemplate implements notify.Store.
func (s *Catalog) DeleteTemplate(ctx context.Context, id string) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		if err := query.Found(tx.Exec("DELETE FROM notify_templates WHERE id = ?", id)); err != nil {
			return err
		}
		if _, err := tx.Exec("DELETE FROM notify_template_versions WHERE template_id = ?", id); err != nil {
			return err
		}
		for _, table := range []string{"notify_clients", "notify_kinds"} {
			if _, err := tx.Exec("UPDATE "+table+" SET template_id = ? WHERE template_id = ?", notify.DefaultTemplate,
				id); err != nil {
				return err
			}
		}
		_, err := tx.Exec("UPDATE notify_campaign_types SET template_id = '' WHERE template_id = ?", id)
		return err
	})
}

// Associations implements notify.Store: clients first, all by id. It is
// ErrNotFound when the template is missing.
func (s *Catalog) Associations(ctx context.Context, templateID string) ([]notify.Association, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Association, error) {
		if _, err := query.One(tx, query.ScanText, "SELECT id FROM notify_templates WHERE id = ?", templateID); err != nil {
			return nil, err
		}
		return db.All(tx, func(row db.Scanner) (a notify.Association, err error) {
			err = row.Scan(&a.ClientID, &a.KindID)
			return a, err
		}, `SELECT id AS client_id, '' AS kind_id FROM notify_clients WHERE template_id = ?
			UNION ALL SELECT client_id, id FROM notify_kinds WHERE template_id = ? ORDER BY 2, 1`, templateID, templateID)
	})
}

// SeedTemplate implements notify.Store.
func (s *Catalog) SeedTemplate(ctx context.Context, t notify.Template) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(query.Insert("notify_templates", templateColumns)+` ON CONFLICT (id) DO UPDATE SET
				name = excluded.name, subject = excluded.subject, text = excluded.text, html = excluded.html,
				metadata = excluded.metadata, updated = excluded.updated, uses = excluded.uses
				WHERE NOT notify_templates.overridden`, templateValues(t)...)
		return err
	})
}
