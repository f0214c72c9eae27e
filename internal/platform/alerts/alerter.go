package alerts

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// Label is the label that enables a space's notifications.
const (
	Label = "notifications"
	On    = "on"
)

// Message is a notification for one user.
type Message struct {
	UserGUID string
	Kind     string
	Subject  string
	Text     string
	// Key is the idempotency key: a message with the same key is delivered once.
	Key string
}

// Notifier is the notification service.
type Notifier interface {
	// Register registers the platform's notification kinds.
	Register(ctx context.Context, kinds map[string]string) error
	// Send sends a message. The error wraps ErrRefused if a retry would not help.
	Send(ctx context.Context, m Message) error
}

// ErrRefused is the cause of errors of messages that the notification service does not accept.
var ErrRefused = errors.New("message refused")

// Events are the audit events that developers have not been notified of. An event is among
// them from the commit of its transaction until it is handled, however late that commits; so
// there is no position that could be before or behind an event.
type Events interface {
	// Unalerted returns up to n of them, oldest first, those created after a time, or at that
	// time with a larger guid.
	Unalerted(ctx context.Context, after time.Time, guid string, n int) ([]*platform.AuditEvent, error)
	// SetAlerted removes some.
	SetAlerted(ctx context.Context, guids []string) error
	// AlertSince adds all events since a time.
	AlertSince(ctx context.Context, since time.Time) error
}

// Config configures an Alerter. Durations have defaults.
type Config struct {
	Store    platform.Store
	Events   Events
	Notifier Notifier
	// Lines returns the newest lines of an app's log, newest first; nil leaves them out of
	// messages.
	Lines func(ctx context.Context, appGUID string, n int) ([]platform.LogLine, error)
	// File stores the position, unless States is set.
	File string
	// States stores the position where several servers share a database.
	States States
	// Lead reports whether this server, of those, sends the messages; nil means yes.
	Lead func(ctx context.Context) bool
	// Look is the interval of reading events.
	Look time.Duration
	// Settle is how long crashes are collected before the first message, Quiet the shortest
	// time between messages about the same app, Well how long an app must be up to count as
	// recovered.
	Settle, Quiet, Well time.Duration
	Log                 *slog.Logger
	Now                 func() time.Time
}

// Alerter notifies developers of events of their apps. It is a background.Service.
type Alerter struct {
	background.Part
	c Config

	mu         sync.Mutex
	at         position
	leads      bool // at is known
	registered bool
	// last is the event after which the next pass starts, if one stopped early.
	last *platform.AuditEvent
}

var _ background.Service = (*Alerter)(nil)

// New returns an Alerter that is not running.
func New(c Config) *Alerter {
	for d, otherwise := range map[*time.Duration]time.Duration{
		&c.Look: 5 * time.Second, &c.Settle: 10 * time.Second, &c.Quiet: time.Hour, &c.Well: 2 * time.Minute,
	} {
		if *d == 0 {
			*d = otherwise
		}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	return &Alerter{c: c}
}

// Start starts reading events where the last server stopped.
func (a *Alerter) Start(ctx context.Context) error {
	return a.Launch(ctx, func(work context.Context, spawn func(func())) error {
		if a.c.States == nil {
			if err := a.resume(ctx); err != nil {
				return err
			}
		}
		spawn(func() {
			for alive := true; alive; alive = background.Sleep(work, a.c.Look) {
				a.Pass(work)
			}
		})
		return nil
	})
}

// Stop waits for the current pass.
func (a *Alerter) Stop() { a.Halt(nil) }

// Pass reads new events and sends the messages that are due. Failed messages are retried by
// the next pass.
func (a *Alerter) Pass(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.pass(ctx); err != nil && ctx.Err() == nil {
		a.c.Log.WarnContext(ctx, "notifying developers failed and will be retried", "error", err)
	}
}

func (a *Alerter) pass(ctx context.Context) error {
	if a.c.Lead != nil && !a.c.Lead(ctx) {
		a.leads = false
		return nil
	}
	if !a.leads { // another server may have gone on
		if err := a.resume(ctx); err != nil {
			return err
		}
	}
	if !a.registered {
		if err := a.c.Notifier.Register(ctx, kinds); err != nil {
			return err
		}
		a.registered = true
	}
	return errors.Join(a.read(ctx), a.reportCrashes(ctx), a.save(ctx))
}

// notifyDevelopers sends a message about an app or a service instance to every developer of the
// space. The message says where it happened and why the recipient gets it.
func (a *Alerter) notifyDevelopers(ctx context.Context, spaceGUID string, about subject, m Message) error {
	var users []string
	var space *platform.Space
	var org *platform.Organization
	err := a.c.Store.View(ctx, func(tx platform.Tx) (err error) {
		users = nil
		if space, err = tx.Spaces().Get(spaceGUID); err != nil {
			return err
		}
		if org, err = tx.Organizations().Get(space.OrgGUID); err != nil {
			return err
		}
		roles, _, err := tx.Roles().List(platform.Where("space_guid", spaceGUID).
			And(platform.In("type", string(platform.SpaceDeveloper))))
		for _, r := range roles {
			users = append(users, r.UserGUID)
		}
		return err
	})
	if fault.Is(err, fault.NotFound) {
		return nil // the space was deleted meanwhile
	}
	if err != nil {
		return err
	}
	m.Text = fmt.Sprintf("Org:   %s\nSpace: %s\n\n%s\n-- \nYou are receiving this because you are a developer in the "+
		"space %s of the org %s.\nTurn it off for the whole space: cf set-label space %s notifications=off\n",
		org.Name, space.Name, m.Text, space.Name, org.Name, space.Name)
	var failed error
	accepted := 0
	for _, user := range users {
		to := m
		to.UserGUID, to.Key = user, m.Key+"/"+user
		switch err := a.c.Notifier.Send(ctx, to); {
		case err == nil:
			accepted++
		case errors.Is(err, ErrRefused):
			a.c.Log.WarnContext(ctx, "the notification service refuses a message, which is dropped", "user", user, "kind",
				m.Kind, "error", err)
		default:
			failed = errors.Join(failed, err)
		}
	}
	if failed == nil && accepted > 0 {
		a.record(ctx, space, about, &m, accepted)
	}
	return failed
}
