package alerts

import (
	"context"

	"github.com/google/uuid"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// subject is what a message is about.
type subject struct {
	Type, GUID, Name string
}

// record stores an event of the app that its developers were notified, which `cf events` and the charts
// show. Its GUID is that of the message, so that a message that is sent again has one event. The
// message has been sent: an event that cannot be stored is logged.
func (a *Alerter) record(ctx context.Context, space *platform.Space, about subject, m *Message, developers int) {
	if about.Type != "app" {
		return
	}
	e := &platform.AuditEvent{
		Resource: platform.Resource{GUID: uuid.NewSHA1(uuid.NameSpaceOID, []byte("notified of "+m.Key)).String()},
		Type:     platform.EventDevelopersNotified,
		// As for a deployment that has finished, no user did it.
		ActorType: "app", ActorGUID: about.GUID, ActorName: about.Name,
		TargetType: "app", TargetGUID: about.GUID, TargetName: about.Name,
		SpaceGUID: space.GUID, OrgGUID: space.OrgGUID, Alerted: true,
		Data: map[string]any{"kind": m.Kind, "subject": m.Subject, "developers": developers},
	}
	err := a.c.Store.Update(ctx, func(tx platform.Tx) error { return tx.AuditEvents().Insert(e) })
	if err != nil && !fault.Is(err, fault.Conflict) {
		a.c.Log.WarnContext(ctx, "storing the event that developers were notified failed", "app", about.GUID, "error", err)
	}
}
