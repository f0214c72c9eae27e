package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

const (
	providerColumns       = "id, owner, name, channel, definition, secrets, created, updated"
	sealedProviderSecrets = "notify_providers.secrets"
)

// providerID begins with the name, which has no space.
func providerID(owner, name string) string { return name + " " + owner }

func scanProvider(tx *db.Tx) func(db.Scanner) (notify.Provider, error) {
	return func(row db.Scanner) (p notify.Provider, err error) {
		var id, definition, sealed string
		err = row.Scan(&id, &p.Owner, &p.Name, &p.Channel, &definition, &sealed, query.Moment(&p.Created),
			query.Moment(&p.Updated))
		if err != nil {
			return p, err
		}
		if err := p.Decode([]byte(definition)); err != nil {
			return p, fmt.Errorf("the provider %q: %w", p.Name, err)
		}
		secrets, err := tx.Unseal(sealedProviderSecrets, id, sealed)
		if err == nil {
			err = json.Unmarshal(secrets, &p.Secrets)
		}
		return p, err
	}
}

// Providers implements notify.Store.
func (s *Catalog) Providers(ctx context.Context, owner string) ([]notify.Provider, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Provider, error) {
		return query.Matching(tx, scanProvider(tx), "SELECT "+providerColumns+
			" FROM notify_providers WHERE owner = ? ORDER BY name", owner)
	})
}

// Provider implements notify.Store.
func (s *Catalog) Provider(ctx context.Context, owner, name string) (notify.Provider, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (notify.Provider, error) {
		return query.One(tx, scanProvider(tx), "SELECT "+providerColumns+" FROM notify_providers WHERE id = ?",
			providerID(owner, name))
	})
}

// ProvidersFor implements notify.Store.
func (s *Catalog) ProvidersFor(ctx context.Context, clientID string, c notify.ChannelID) ([]notify.Provider, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (list []notify.Provider, err error) {
		for _, owner := range slices.Compact([]string{clientID, ""}) {
			list, err = query.Matching(tx, scanProvider(tx), "SELECT "+providerColumns+
				" FROM notify_providers WHERE owner = ? AND channel = ? ORDER BY name", owner, int(c))
			if err != nil {
				return nil, err
			}
			list = slices.DeleteFunc(list, func(p notify.Provider) bool { return p.Disabled })
			if len(list) > 0 {
				break
			}
		}
		return list, nil
	})
}

// SetProvider implements notify.Store.
func (s *Catalog) SetProvider(ctx context.Context, p notify.Provider) error {
	definition, err := json.Marshal(p.ProviderDefinition)
	if err != nil {
		return err
	}
	secrets, err := json.Marshal(p.Secrets)
	if err != nil {
		return err
	}
	if err := query.AllStorable(p.Owner, p.Name, string(definition), string(secrets)); err != nil {
		return err
	}
	id := providerID(p.Owner, p.Name)
	return s.Define(ctx, p.Owner, func(tx *db.Tx) error {
		if _, err := tx.Exec(query.Insert("notify_providers", providerColumns)+` ON CONFLICT (id) DO UPDATE SET
				channel = excluded.channel, definition = excluded.definition, secrets = excluded.secrets,
				updated = excluded.updated`, id, p.Owner, p.Name, int(p.Channel), string(definition),
			tx.Seal(sealedProviderSecrets, id, secrets), db.Nanos(p.Created), db.Nanos(p.Updated)); err != nil {
			return err
		}
		n, err := query.One(tx, query.ScanNumber, "SELECT COUNT(*) FROM notify_providers WHERE owner = ?", p.Owner)
		if err == nil && n > notify.MaxProviders {
			return notify.ErrTooMany
		}
		return err
	})
}

// DeleteProvider implements notify.Store.
func (s *Catalog) DeleteProvider(ctx context.Context, owner, name string) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		return query.Found(tx.Exec("DELETE FROM notify_providers WHERE id = ?", providerID(owner, name)))
	})
}
