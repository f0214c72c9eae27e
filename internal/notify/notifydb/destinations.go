package notifydb

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/notify"
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
		err = row.Scan(&id, &d.ClientID, &d.Channel, &address, &secret, &d.Format, moment{&d.Updated})
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
func (s *Store) Destination(ctx context.Context, clientID string, c notify.ChannelID) (notify.Destination, error) {
	return view(ctx, s, func(tx *db.Tx) (notify.Destination, error) {
		return one(tx, scanDestination(tx), "SELECT "+destinationColumns+" FROM notify_destinations WHERE id = ?",
			destinationID(clientID, c))
	})
}

// Destinations implements notify.Store.
func (s *Store) Destinations(ctx context.Context, clientID string) ([]notify.Destination, error) {
	return view(ctx, s, func(tx *db.Tx) ([]notify.Destination, error) {
		return matching(tx, scanDestination(tx), "SELECT "+destinationColumns+
			" FROM notify_destinations WHERE client_id = ? ORDER BY channel", clientID)
	})
}

// SetDestination implements notify.Store.
func (s *Store) SetDestination(ctx context.Context, d notify.Destination) error {
	if err := allStorable(d.ClientID, d.Format); err != nil {
		return err
	}
	id := destinationID(d.ClientID, d.Channel)
	return s.define(ctx, d.ClientID, func(tx *db.Tx) error {
		_, err := tx.Exec(insert("notify_destinations", destinationColumns)+" ON CONFLICT (id) DO UPDATE SET url = "+
			"excluded.url, secret = excluded.secret, format = excluded.format, updated = excluded.updated",
			id, d.ClientID, int(d.Channel), tx.Seal(sealedDestinationURL, id, []byte(d.URL)),
			tx.Seal(sealedDestinationKey, id, []byte(d.Secret)), d.Format, db.Nanos(d.Updated))
		return err
	})
}

// DeleteDestination implements notify.Store.
func (s *Store) DeleteDestination(ctx context.Context, clientID string, c notify.ChannelID) error {
	return s.write(ctx, func(tx *db.Tx) error {
		return found(tx.Exec("DELETE FROM notify_destinations WHERE id = ?", destinationID(clientID, c)))
	})
}
