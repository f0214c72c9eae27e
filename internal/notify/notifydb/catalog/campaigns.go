package catalog

import (
	"context"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
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
func (s *Catalog) CreateSender(ctx context.Context, v notify.Sender) (notify.Sender, error) {
	return query.Update(ctx, s.db, func(tx *db.Tx) (notify.Sender, error) {
		n, err := tx.Exec(query.Insert("notify_senders", senderColumns)+" ON CONFLICT (client_id, name) DO NOTHING", v.ID,
			v.ClientID, v.Name)
		if err == nil && n == 1 {
			err = s.CheckDefinitions(tx, v.ClientID)
		}
		if err != nil || n == 1 {
			return v, err
		}
		return query.One(tx, scanSender, "SELECT "+senderColumns+" FROM notify_senders WHERE client_id = ? AND name = ?",
			v.ClientID, v.Name)
	})
}

// Sender implements notify.Store.
func (s *Catalog) Sender(ctx context.Context, id string) (notify.Sender, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (notify.Sender, error) {
		return query.One(tx, scanSender, "SELECT "+senderColumns+" FROM notify_senders WHERE id = ?", id)
	})
}

// Senders implements notify.Store. They come by name.
func (s *Catalog) Senders(ctx context.Context, clientID string) ([]notify.Sender, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.Sender, error) {
		return query.Matching(tx, scanSender, "SELECT "+
			senderColumns+" FROM notify_senders WHERE client_id = ? ORDER BY name", clientID)
	})
}

// UpdateSender implements notify.Store. The client stays.
func (s *Catalog) UpdateSender(ctx context.Context, v notify.Sender) error {
	return s.Define(ctx, v.ClientID, func(tx *db.Tx) error {
		return query.Changed(tx.Exec("UPDATE notify_senders SET name = ? WHERE id = ?", v.Name, v.ID))
	})
}

// DeleteSender implements notify.Store.
func (s *Catalog) DeleteSender(ctx context.Context, id string) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		if err := query.Found(tx.Exec("DELETE FROM notify_senders WHERE id = ?", id)); err != nil {
			return err
		}
		_, err := tx.Exec("DELETE FROM notify_campaign_types WHERE sender_id = ?", id)
		return err
	})
}

// CreateCampaignType implements notify.Store. It is ErrNotFound when the
// sender is missing.
func (s *Catalog) CreateCampaignType(ctx context.Context, t notify.CampaignType) (notify.CampaignType, error) {
	return query.Update(ctx, s.db, func(tx *db.Tx) (notify.CampaignType, error) {
		if _, err := query.One(tx, query.ScanText, "SELECT id FROM notify_senders WHERE id = ?", t.SenderID); err != nil {
			return t, err
		}
		n, err := tx.Exec(query.Insert("notify_campaign_types", typeColumns)+" ON CONFLICT (sender_id, name) DO NOTHING",
			t.ID, t.SenderID, t.ClientID, t.Name, t.Description, t.Critical, t.TemplateID, 0)
		if err == nil && n == 1 {
			err = s.CheckDefinitions(tx, t.ClientID)
		}
		if err != nil || n == 1 {
			return t, err
		}
		return query.One(tx, scanType, "SELECT "+typeColumns+" FROM notify_campaign_types WHERE sender_id = ? AND name = ?",
			t.SenderID, t.Name)
	})
}

// CampaignType implements notify.Store.
func (s *Catalog) CampaignType(ctx context.Context, id string) (notify.CampaignType, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) (notify.CampaignType, error) {
		return query.One(tx, scanType, "SELECT "+typeColumns+" FROM notify_campaign_types WHERE id = ?", id)
	})
}

// CampaignTypes implements notify.Store. They come by name.
func (s *Catalog) CampaignTypes(ctx context.Context, senderID string) ([]notify.CampaignType, error) {
	return query.View(ctx, s.db, func(tx *db.Tx) ([]notify.CampaignType, error) {
		return query.Matching(tx, scanType, "SELECT "+
			typeColumns+" FROM notify_campaign_types WHERE sender_id = ? ORDER BY name", senderID)
	})
}

// UpdateCampaignType implements notify.Store. Sender and client stay.
func (s *Catalog) UpdateCampaignType(ctx context.Context, t notify.CampaignType) error {
	return s.Define(ctx, t.ClientID, func(tx *db.Tx) error {
		return query.Changed(tx.Exec(
			"UPDATE notify_campaign_types SET name = ?, description = ?, critical = ?, template_id = ? "+"WHERE id = ?",
			t.Name, t.Description, t.Critical, t.TemplateID, t.ID))
	})
}

// DeleteCampaignType implements notify.Store.
func (s *Catalog) DeleteCampaignType(ctx context.Context, id string) error {
	return s.Write(ctx, func(tx *db.Tx) error {
		return query.Found(tx.Exec("DELETE FROM notify_campaign_types WHERE id = ?", id))
	})
}
