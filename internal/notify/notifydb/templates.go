package notifydb

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

const templateColumns = "id, owner, name, subject, text, html, metadata, overridden, created, updated, creator, " +
	"variants, uses, version, changed_by"

func scanTemplate(s db.Scanner) (t notify.Template, err error) {
	var metadata, variants, uses string
	err = s.Scan(&t.ID, &t.Owner, &t.Name, &t.Subject, &t.Text, &t.HTML, &metadata, &t.Overridden, moment{&t.Created},
		moment{&t.Updated}, &t.Creator, &variants, &uses, &t.Version, &t.ChangedBy)
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
		if err := allStorable(locale, v.Subject, v.Text, v.HTML); err != nil {
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

// matching returns the matching rows. Text that cannot be stored matches none.
func matching[T any](tx *db.Tx, scan func(db.Scanner) (T, error), query string, args ...any) ([]T, error) {
	list, err := db.All(tx, scan, query, args...)
	if errors.Is(err, db.ErrText) {
		return []T{}, nil
	}
	return list, err
}

func isNotFound(err error) bool { return errors.Is(err, notify.ErrNotFound) }

// CreateTemplate implements notify.Store. It is ErrConflict when the id is
// taken.
func (s *Store) CreateTemplate(ctx context.Context, t notify.Template) error {
	return s.define(ctx, t.Client(), func(tx *db.Tx) error {
		_, err := tx.Exec(insert("notify_templates", templateColumns), templateValues(t)...)
		return err
	})
}

// Template implements notify.Store.
func (s *Store) Template(ctx context.Context, id string) (notify.Template, error) {
	if s.Shared() {
		read, err := s.join(ctx, func(r *sharedRead) { r.templates[id] = notify.Template{} })
		if err != nil {
			return notify.Template{}, err
		}
		t := read.templates[id]
		return t, orNotFound(t.ID, nil)
	}
	return known(ctx, s, notify.KindRef{KindID: id}, &s.registered.templates, manyTemplates,
		func(tx *db.Tx) (notify.Template, error) {
			t, err := one(tx, scanTemplate, "SELECT "+templateColumns+" FROM notify_templates WHERE id = ?", id)
			if err != nil {
				return t, err
			}
			return withPartials(tx, t)
		})
}

// ListTemplates implements notify.Store.
func (s *Store) ListTemplates(ctx context.Context, owner string) ([]notify.Template, error) {
	return view(ctx, s, func(tx *db.Tx) ([]notify.Template, error) {
		return matching(tx, scanTemplate, "SELECT "+templateColumns+
			" FROM notify_templates WHERE owner = ? AND id NOT IN (?, ?) ORDER BY created, id",
			owner, notify.DefaultTemplate, notify.DefaultTemplateV2)
	})
}

// UpdateTemplate implements notify.Store. It does not change Owner, Creator and
// Created.
func (s *Store) UpdateTemplate(ctx context.Context, t notify.Template) error {
	return s.write(ctx, func(tx *db.Tx) error {
		old, err := lockTemplate(tx, t.ID)
		if err != nil {
			return err
		}
		t.Variants = old.Variants
		return s.replaceTemplate(tx, old, t)
	})
}

func lockTemplate(tx *db.Tx, id string) (notify.Template, error) {
	return one(tx, scanTemplate, "SELECT "+templateColumns+" FROM notify_templates WHERE id = ?"+
		forUpdate(tx.Dialect()), id)
}

// SetVariant implements notify.Store.
func (s *Store) SetVariant(ctx context.Context, templateID, locale string, v *notify.Variant,
	updated time.Time, by string) error {
	return s.write(ctx, func(tx *db.Tx) error {
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
func (s *Store) DeleteTemplate(ctx context.Context, id string) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if err := found(tx.Exec("DELETE FROM notify_templates WHERE id = ?", id)); err != nil {
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
func (s *Store) Associations(ctx context.Context, templateID string) ([]notify.Association, error) {
	return view(ctx, s, func(tx *db.Tx) ([]notify.Association, error) {
		if _, err := one(tx, scanText, "SELECT id FROM notify_templates WHERE id = ?", templateID); err != nil {
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
func (s *Store) SeedTemplate(ctx context.Context, t notify.Template) error {
	return s.write(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(insert("notify_templates", templateColumns)+` ON CONFLICT (id) DO UPDATE SET
				name = excluded.name, subject = excluded.subject, text = excluded.text, html = excluded.html,
				metadata = excluded.metadata, updated = excluded.updated, uses = excluded.uses
				WHERE NOT notify_templates.overridden`, templateValues(t)...)
		return err
	})
}
