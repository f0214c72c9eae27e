package notifydb

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/notify"
)

const (
	senderColumns = "id, client_id, name"
	typeColumns   = "id, sender_id, client_id, name, description, critical, template_id, channels"
)

func scanSender(s db.Scanner) (v notify.Sender, err error) {
	err = s.Scan(&v.ID, &v.ClientID, &v.Name)
	return v, err
}

func scanType(s db.Scanner) (t notify.CampaignType, err error) {
	err = s.Scan(&t.ID, &t.SenderID, &t.ClientID, &t.Name, &t.Description, &t.Critical, &t.TemplateID, &t.Channels)
	return t, err
}

// CreateSender implements notify.Store.
func (s *Store) CreateSender(ctx context.Context, v notify.Sender) (notify.Sender, error) {
	return update(ctx, s, func(tx *db.Tx) (notify.Sender, error) {
		n, err := tx.Exec(insert("notify_senders", senderColumns)+" ON CONFLICT (client_id, name) DO NOTHING", v.ID,
			v.ClientID, v.Name)
		if err == nil && n == 1 {
			err = s.checkDefinitions(tx, v.ClientID)
		}
		if err != nil || n == 1 {
			return v, err
		}
		return one(tx, scanSender, "SELECT "+senderColumns+" FROM notify_senders WHERE client_id = ? AND name = ?",
			v.ClientID, v.Name)
	})
}

// Sender implements notify.Store.
func (s *Store) Sender(ctx context.Context, id string) (notify.Sender, error) {
	return view(ctx, s, func(tx *db.Tx) (notify.Sender, error) {
		return one(tx, scanSender, "SELECT "+senderColumns+" FROM notify_senders WHERE id = ?", id)
	})
}

// Senders implements notify.Store. They come by name.
func (s *Store) Senders(ctx context.Context, clientID string) ([]notify.Sender, error) {
	return view(ctx, s, func(tx *db.Tx) ([]notify.Sender, error) {
		return matching(tx, scanSender, "SELECT "+senderColumns+" FROM notify_senders WHERE client_id = ? ORDER BY name",
			clientID)
	})
}

// UpdateSender implements notify.Store. The client stays.
func (s *Store) UpdateSender(ctx context.Context, v notify.Sender) error {
	return s.define(ctx, v.ClientID, func(tx *db.Tx) error {
		return changed(tx.Exec("UPDATE notify_senders SET name = ? WHERE id = ?", v.Name, v.ID))
	})
}

// DeleteSender implements notify.Store.
func (s *Store) DeleteSender(ctx context.Context, id string) error {
	return s.write(ctx, func(tx *db.Tx) error {
		if err := found(tx.Exec("DELETE FROM notify_senders WHERE id = ?", id)); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM notify_campaign_types WHERE sender_id = ?", id)
		return err
	})
}

// CreateCampaignType implements notify.Store. It is ErrNotFound when the
// sender is missing.
func (s *Store) CreateCampaignType(ctx context.Context, t notify.CampaignType) (notify.CampaignType, error) {
	return update(ctx, s, func(tx *db.Tx) (notify.CampaignType, error) {
		if _, err := one(tx, scanText, "SELECT id FROM notify_senders WHERE id = ?", t.SenderID); err != nil {
			return t, err
		}
		n, err := tx.Exec(insert("notify_campaign_types", typeColumns)+" ON CONFLICT (sender_id, name) DO NOTHING",
			t.ID, t.SenderID, t.ClientID, t.Name, t.Description, t.Critical, t.TemplateID, 0)
		if err == nil && n == 1 {
			err = s.checkDefinitions(tx, t.ClientID)
		}
		if err != nil || n == 1 {
			return t, err
		}
		return one(tx, scanType, "SELECT "+typeColumns+" FROM notify_campaign_types WHERE sender_id = ? AND name = ?",
			t.SenderID, t.Name)
	})
}

// CampaignType implements notify.Store.
func (s *Store) CampaignType(ctx context.Context, id string) (notify.CampaignType, error) {
	return view(ctx, s, func(tx *db.Tx) (notify.CampaignType, error) {
		return one(tx, scanType, "SELECT "+typeColumns+" FROM notify_campaign_types WHERE id = ?", id)
	})
}

// CampaignTypes implements notify.Store. They come by name.
func (s *Store) CampaignTypes(ctx context.Context, senderID string) ([]notify.CampaignType, error) {
	return view(ctx, s, func(tx *db.Tx) ([]notify.CampaignType, error) {
		return matching(tx, scanType, "SELECT "+typeColumns+" FROM notify_campaign_types WHERE sender_id = ? ORDER BY name",
			senderID)
	})
}

// UpdateCampaignType implements notify.Store. Sender and client stay.
func (s *Store) UpdateCampaignType(ctx context.Context, t notify.CampaignType) error {
	return s.define(ctx, t.ClientID, func(tx *db.Tx) error {
		return changed(tx.Exec("UPDATE notify_campaign_types SET name = ?, description = ?, critical = ?, template_id = ? "+
			"WHERE id = ?",
			t.Name, t.Description, t.Critical, t.TemplateID, t.ID))
	})
}

// DeleteCampaignType implements notify.Store.
func (s *Store) DeleteCampaignType(ctx context.Context, id string) error {
	return s.write(ctx, func(tx *db.Tx) error {
		return found(tx.Exec("DELETE FROM notify_campaign_types WHERE id = ?", id))
	})
}
