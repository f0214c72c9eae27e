package catalog

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
)

const (
	destinationColumns   = "id, client_id, channel, url, secret, format, updated"
	sealedDestinationURL = "notify_destinations.url"
	sealedDestinationKey = "notify_destinations.secret"
)

func destinationID(client string, c notify.ChannelID) string { return c.String() + " " + client }

func scanDestination(tx *db.Tx) func(db.Scanner) (notify.Destination, error) {
	return func(row db.Scanner) (d notify.Destination, err error) {
		var id, address, secret string
		err = row.Scan(&id, &d.ClientID, &d.Channel, &address, &secret, &d.Format, query.Moment(&d.Updated))
		if err != nil {
			return d, err
		}
		for _, s := range []struct {
			column, sealed string
			to             *string
		}{{sealedDestinationURL, address, &d.URL}, {sealedDestinationKey, secret, &d.Secret}} {
			text, err := tx.Unseal(s.column, id, s.sealed)
			if err != nil {
				return d, err
			}
			*s.to = string(text)
		}
		return d, nil
	}
}

// Destination implements notify.Store.
func (s *Catalog) Destination(ctx context.Context, clientID string, c notify.ChannelID) (notify.Destination, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (notify.Destination, error) {
		return query.One(tx, scanDestination(tx), "SELECT "+destinationColumns+" FROM notify_destinations WHERE id = ?",
			destinationID(clientID, c))
	})
}

// Destinations implements notify.Store.
func (s *Catalog) Destinations(ctx context.Context, clientID string) ([]notify.Destination, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Destination, error) {
		return query.Matching(tx, scanDestination(tx), "SELECT "+destinationColumns+
			" FROM notify_destinations WHERE client_id = ? ORDER BY channel", clientID)
	})
}

// SetDestination implements notify.Store.
func (s *Catalog) SetDestination(ctx context.Context, d notify.Destination) error {
	if err := query.AllStorable(d.ClientID, d.Format); err != nil {
		return err
	}
	id := destinationID(d.ClientID, d.Channel)
	return s.Define(ctx, d.ClientID, func(tx *db.Tx) error {
		_, err := tx.Exec(query.Insert("notify_destinations", destinationColumns)+" ON CONFLICT (id) DO UPDATE SET url = "+
			"excluded.url, secret = excluded.secret, format = excluded.format, updated = excluded.updated",
			id, d.ClientID, int(d.Channel), tx.Seal(sealedDestinationURL, id, []byte(d.URL)),
			tx.Seal(sealedDestinationKey, id, []byte(d.Secret)), d.Format, db.Nanos(d.Updated))
		return err
	})
}

// DeleteDestination implements notify.Store.
func (s *Catalog) DeleteDestination(ctx context.Context, clientID string, c notify.ChannelID) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		return query.Found(tx.Exec("DELETE FROM notify_destinations WHERE id = ?", destinationID(clientID, c)))
	})
}
