package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

const kindColumns = "client_id, id, description, critical, template_id, channels, workflow, digest, throttle, kept, " +
	"tracking"

func scanClient(s db.Scanner) (c notify.Client, err error) {
	err = s.Scan(&c.ID, &c.Description, &c.TemplateID)
	return c, err
}

// ScanKind reads a row with the columns of a kind.
func ScanKind(s db.Scanner) (k notify.Kind, err error) {
	var w, rule, throttle string
	var hours int
	err = s.Scan(&k.ClientID, &k.ID, &k.Description, &k.Critical, &k.TemplateID, &k.Channels, &w, &rule, &throttle, &hours,
		&k.Tracking)
	k.Kept = time.Duration(hours) * time.Hour
	if err == nil && w != "" {
		err = json.Unmarshal([]byte(w), &k.Workflow)
	}
	if err == nil && rule != "" {
		err = json.Unmarshal([]byte(rule), &k.DigestRule)
	}
	if err == nil && throttle != "" {
		err = json.Unmarshal([]byte(throttle), &k.ThrottleRule)
	}
	return k, err
}

// orDefault returns the default template for an empty id.
func orDefault(templateID string) string {
	if templateID == "" {
		return notify.DefaultTemplate
	}
	return templateID
}

// Register implements notify.Store.
func (s *Catalog) Register(ctx context.Context, c notify.Client, kinds []notify.Kind, prune bool) error {
	return s.Define(ctx, c.ID, func(tx *db.Tx) error {
		_, err := tx.Exec(query.Insert("notify_clients", "id, description, template_id")+
			" ON CONFLICT (id) DO UPDATE SET description = excluded.description", c.ID, c.Description, orDefault(c.TemplateID))
		if err != nil {
			return err
		}
		keep := make([]string, 0, len(kinds))
		for _, k := range kinds {
			keep = append(keep, k.ID)
			_, err := tx.Exec(query.Insert("notify_kinds", kindColumns)+
				" ON CONFLICT (client_id, id) DO UPDATE SET description = excluded.description, critical = excluded.critical",
				c.ID, k.ID, k.Description, k.Critical, orDefault(k.TemplateID), 0, "", "", "", 0, 0)
			if err != nil {
				return err
			}
		}
		if !prune {
			return nil
		}
		list, err := query.TextList(keep)
		if err != nil {
			return err
		}
		for _, of := range []struct{ table, id string }{{"notify_kinds", "id"}, {"notify_schemas", "kind_id"}} {
			if _, err := tx.Exec("DELETE FROM "+of.table+" WHERE client_id = ? AND NOT ("+query.TextsIn(tx.Dialect(), of.id)+")",
				c.ID, list); err != nil {
				return err
			}
		}
		return nil
	})
}

// Clients implements notify.Store. They come by id.
func (s *Catalog) Clients(ctx context.Context) ([]notify.Client, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Client, error) {
		return db.All(tx, scanClient, "SELECT id, description, template_id FROM notify_clients ORDER BY id")
	})
}

// Client implements notify.Store.
func (s *Catalog) Client(ctx context.Context, id string) (notify.Client, error) {
	if s.db.Shared() {
		c, _, err := s.Registration(ctx, notify.KindRef{ClientID: id})
		return c, orNotFound(c.ID, err)
	}
	return known(ctx, s, notify.KindRef{ClientID: id}, &s.registered.clients, manyRegistered,
		func(tx *db.Tx) (notify.Client, error) {
			return query.One(tx, scanClient, "SELECT id, description, template_id FROM notify_clients WHERE id = ?", id)
		})
}

// Kinds implements notify.Store. They come by client and id.
func (s *Catalog) Kinds(ctx context.Context, clientID string) ([]notify.Kind, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Kind, error) {
		if clientID == "" {
			return db.All(tx, ScanKind, "SELECT "+kindColumns+" FROM notify_kinds ORDER BY client_id, id")
		}
		return query.Matching(tx, ScanKind, "SELECT "+kindColumns+" FROM notify_kinds WHERE client_id = ? ORDER BY id",
			clientID)
	})
}

// Kind implements notify.Store.
func (s *Catalog) Kind(ctx context.Context, ref notify.KindRef) (notify.Kind, error) {
	if s.db.Shared() {
		_, k, err := s.Registration(ctx, ref)
		return k, orNotFound(k.ID, err)
	}
	return known(ctx, s, ref, &s.registered.kinds, manyRegistered, func(tx *db.Tx) (notify.Kind, error) {
		return query.One(tx, ScanKind, "SELECT "+kindColumns+" FROM notify_kinds WHERE client_id = ? AND id = ?",
			ref.ClientID, ref.KindID)
	})
}

// orNotFound returns ErrNotFound for something without an id.
func orNotFound(id string, err error) error {
	if err == nil && id == "" {
		return notify.ErrNotFound
	}
	return err
}

// Registration implements notify.Store.
func (s *Catalog) Registration(ctx context.Context, ref notify.KindRef) (c notify.Client, k notify.Kind, err error) {
	if s.db.Shared() {
		read, err := s.join(ctx, func(r *sharedRead) {
			r.clients[ref.ClientID] = notify.Client{}
			if ref.KindID != "" {
				r.kinds[ref] = notify.Kind{}
			}
		})
		if err != nil {
			return c, k, err
		}
		return read.clients[ref.ClientID], read.kinds[ref], nil
	}
	if c, err = s.Client(ctx, ref.ClientID); err != nil && !query.IsNotFound(err) {
		return c, k, err
	}
	if ref.KindID == "" {
		return c, k, nil
	}
	if k, err = s.Kind(ctx, ref); query.IsNotFound(err) {
		err = nil
	}
	return c, k, err
}

// UpdateKind implements notify.Store.
func (s *Catalog) UpdateKind(ctx context.Context, k notify.Kind) error {
	return s.Define(ctx, k.ClientID, func(tx *db.Tx) error {
		return query.Changed(tx.Exec(`UPDATE notify_kinds SET description = ?, critical = ?,
				template_id = CASE WHEN CAST(? AS TEXT) = '' THEN template_id ELSE CAST(? AS TEXT) END
				WHERE client_id = ? AND id = ?`,
			k.Description, k.Critical, k.TemplateID, k.TemplateID, k.ClientID, k.ID))
	})
}

// AssignTemplate implements notify.Store. Without a template it assigns the
// default.
func (s *Catalog) AssignTemplate(ctx context.Context, a notify.Association, templateID string) error {
	templateID = orDefault(templateID)
	return s.Write(ctx, func(tx *db.Tx) error {
		if templateID != notify.DefaultTemplate {
			_, err := query.One(tx, query.ScanText, "SELECT id FROM notify_templates WHERE id = ?", templateID)
			if err != nil {
				return missing(err, "template", templateID)
			}
		}
		if a.KindID == "" {
			return query.Found(tx.Exec("UPDATE notify_clients SET template_id = ? WHERE id = ?", templateID, a.ClientID))
		}
		return query.Found(tx.Exec("UPDATE notify_kinds SET template_id = ? WHERE client_id = ? AND id = ?", templateID,
			a.ClientID, a.KindID))
	})
}

// Schema implements notify.Store.
func (s *Catalog) Schema(ctx context.Context, ref notify.KindRef) (json.RawMessage, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (json.RawMessage, error) {
		text, err := query.One(tx, query.ScanText, "SELECT content FROM notify_schemas WHERE client_id = ? AND kind_id = ?",
			ref.ClientID, ref.KindID)
		if query.IsNotFound(err) {
			return nil, nil
		}
		return json.RawMessage(text), err
	})
}

// SetSchema implements notify.Store.
func (s *Catalog) SetSchema(ctx context.Context, ref notify.KindRef, schema json.RawMessage) error {
	if err := query.AllStorable(string(schema)); err != nil {
		return err
	}
	return s.Define(ctx, ref.ClientID, func(tx *db.Tx) error {
		if _, err := query.One(tx, query.ScanText, "SELECT id FROM notify_kinds WHERE client_id = ? AND id = ?", ref.ClientID,
			ref.KindID); err != nil {
			return err
		}
		if schema == nil {
			_, err := tx.Exec("DELETE FROM notify_schemas WHERE client_id = ? AND kind_id = ?", ref.ClientID, ref.KindID)
			return err
		}
		_, err := tx.Exec(query.Insert("notify_schemas", "client_id, kind_id, content")+
			" ON CONFLICT (client_id, kind_id) DO UPDATE SET content = excluded.content",
			ref.ClientID, ref.KindID, string(schema))
		return err
	})
}

// missing returns ErrConflict for a referenced row that does not exist.
func missing(err error, what, id string) error {
	if query.IsNotFound(err) {
		return fmt.Errorf("%s %q is missing: %w", what, id, notify.ErrConflict)
	}
	return err
}
