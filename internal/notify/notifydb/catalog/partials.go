package catalog

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

const partialColumns = "owner, name, text, html, variants, uses, created, updated"

// usesText is how names of partials are stored: each is between spaces.
func usesText(names []string) string {
	if len(names) == 0 {
		return ""
	}
	return " " + strings.Join(names, " ") + " "
}

func scanPartial(row db.Scanner) (p notify.Partial, err error) {
	var variants, uses string
	err = row.Scan(&p.Owner, &p.Name, &p.Text, &p.HTML, &variants, &uses, query.Moment(&p.Created),
		query.Moment(&p.Updated))
	if err == nil && variants != "" {
		err = json.Unmarshal([]byte(variants), &p.Variants)
	}
	return p, err
}

// Partials implements notify.Store.
func (s *Catalog) Partials(ctx context.Context, owner string) ([]notify.Partial, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Partial, error) {
		return query.Matching(tx, scanPartial, "SELECT "+partialColumns+
			" FROM notify_partials WHERE owner = ? ORDER BY name", owner)
	})
}

// Partial implements notify.Store.
func (s *Catalog) Partial(ctx context.Context, owner, name string) (notify.Partial, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (notify.Partial, error) {
		return query.One(tx, scanPartial, "SELECT "+partialColumns+
			" FROM notify_partials WHERE owner = ? AND name = ?", owner, name)
	})
}

// PartialsFor implements notify.Store.
func (s *Catalog) PartialsFor(ctx context.Context, client string, names []string) (map[string]notify.Partial, error) {
	if len(names) == 0 {
		return nil, nil
	}
	return query.View(ctx, s.db, func(tx *db.Tx) (map[string]notify.Partial, error) {
		return partialsFor(tx, client, names)
	})
}

// partialsFor reads partials by name, and those that they use: the client's, or else the shared one.
func partialsFor(tx *db.Tx, client string, names []string) (map[string]notify.Partial, error) {
	found := map[string]notify.Partial{}
	asked := map[string]bool{}
	for range notify.MaxPartialDepth {
		if len(names) == 0 {
			break
		}
		// Shared ones come first, and are replaced.
		level, err := query.Listed(tx, scanPartial, "SELECT "+partialColumns+" FROM notify_partials WHERE "+
			query.TextsIn(tx.Dialect(), "owner")+" AND "+query.TextsIn(tx.Dialect(), "name")+
			" ORDER BY owner", []string{"", client}, names)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			asked[name] = true
		}
		next := map[string]bool{}
		for _, p := range level {
			found[p.Name] = p
		}
		for _, p := range level {
			used := found[p.Name]
			for _, name := range used.Uses() {
				if !asked[name] {
					next[name] = true
				}
			}
		}
		names = slices.Sorted(maps.Keys(next))
	}
	return found, nil
}

// withPartials adds its partials to a template. Most have none.
func withPartials(tx *db.Tx, t notify.Template) (notify.Template, error) {
	names := t.Uses()
	if len(names) == 0 {
		return t, nil
	}
	var err error
	t.Partials, err = partialsFor(tx, t.Client(), names)
	return t, err
}

// SetPartial implements notify.Store.
func (s *Catalog) SetPartial(ctx context.Context, p notify.Partial) error {
	if err := query.AllStorable(p.Owner, p.Name, p.Text, p.HTML); err != nil {
		return err
	}
	variants, err := encodeVariants(p.Variants)
	if err != nil {
		return err
	}
	return s.Define(ctx, p.Owner, func(tx *db.Tx) error {
		if _, err := tx.Exec(query.Insert("notify_partials", partialColumns)+` ON CONFLICT (owner, name) DO UPDATE SET
				text = excluded.text, html = excluded.html, variants = excluded.variants, uses = excluded.uses,
				updated = excluded.updated`, p.Owner, p.Name, p.Text, p.HTML, variants, usesText(p.Uses()), db.Nanos(p.Created),
			db.Nanos(p.Updated)); err != nil {
			return err
		}
		n, err := query.One(tx, query.ScanNumber, "SELECT COUNT(*) FROM notify_partials WHERE owner = ?", p.Owner)
		if err == nil && n > notify.MaxPartials {
			return notify.ErrTooMany
		}
		return err
	})
}

// DeletePartial implements notify.Store.
func (s *Catalog) DeletePartial(ctx context.Context, owner, name string) (users []notify.PartialUser, err error) {
	err = s.Write(ctx, func(tx *db.Tx) (err error) {
		if err := query.Found(tx.Exec("DELETE FROM notify_partials WHERE owner = ? AND name = ?", owner, name)); err != nil {
			return err
		}
		if users, err = partialUsers(tx, owner, name); err == nil && len(users) > 0 {
			err = notify.ErrConflict
		}
		return err
	})
	return users, err
}

// PartialUsers implements notify.Store.
func (s *Catalog) PartialUsers(ctx context.Context, owner, name string) ([]notify.PartialUser, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.PartialUser, error) { return partialUsers(tx, owner, name) })
}

// partialUsers finds the users of a partial by the names that they use. A shared partial is not used by clients that
// have their own with this name.
func partialUsers(tx *db.Tx, owner, name string) ([]notify.PartialUser, error) {
	scan := func(row db.Scanner) (u notify.PartialUser, err error) {
		err = row.Scan(&u.Client, &u.TemplateID, &u.Partial, &u.Name)
		return u, err
	}
	const templates = "SELECT CASE WHEN owner <> '' THEN owner ELSE creator END AS client, id, '' AS partial, name, " +
		"uses FROM notify_templates WHERE uses <> ''"
	const partials = "SELECT owner AS client, '' AS id, name AS partial, name, uses FROM notify_partials WHERE uses <> ''"
	where, args := "client = ?", []any{owner}
	if owner == "" {
		where, args = "client NOT IN (SELECT owner FROM notify_partials WHERE name = ? AND owner <> '')", []any{name}
	}
	return query.Matching(tx, scan, "SELECT client, id, partial, name FROM ("+templates+" UNION ALL "+partials+
		") AS users WHERE "+
		where+" AND uses LIKE ? ESCAPE '!' AND NOT (partial = ? AND client = ?) ORDER BY client, partial, id",
		append(args, "% "+strings.ReplaceAll(name, "_", "!_")+" %", name, owner)...)
}
