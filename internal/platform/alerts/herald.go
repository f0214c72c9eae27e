package alerts

import (
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

// Label is what turns a space's notifications on.
const (
	Label = "notifications"
	On    = "on"
)

// Message is what one user is told.
type Message struct {
	UserGUID string
	Kind     string
	Subject  string
	Text     string
	// Key names the message, so that saying it twice is saying it once.
	Key string
}

// Notifier is the notification service.
type Notifier interface {
	// Register makes the platform's kinds known.
	Register(ctx context.Context, kinds map[string]string) error
	Send(ctx context.Context, m Message) error
}

// Config is what a Herald needs. Durations have defaults.
type Config struct {
	Store    platform.Store
	Notifier Notifier
	// Lines returns the newest lines of an app's log, oldest first; nil leaves
	// them out of messages.
	Lines func(ctx context.Context, appGUID string, n int) ([]string, error)
	// File keeps the position.
	File string
	// Look is how often events are read.
	Look time.Duration
	// Settle is how long crashes are gathered before the first message, Quiet how
	// long nothing more is said of the same trouble, Well how long an app must
	// be up to have recovered.
	Settle, Quiet, Well time.Duration
	Log                 *slog.Logger
	Now                 func() time.Time
}

// Herald is a background.Service.
type Herald struct {
	background.Part
	c Config

	mu         sync.Mutex
	at         position
	registered bool
}

var _ background.Service = (*Herald)(nil)

// New returns a Herald that is not running.
func New(c Config) *Herald {
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
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Herald{c: c}
}

// Start begins to read events where the last server stopped.
func (h *Herald) Start(ctx context.Context) error {
	return h.Launch(ctx, func(work context.Context, spawn func(func())) error {
		at, err := readPosition(h.c.File, h.c.Now())
		if err != nil {
			return err
		}
		h.at = at
		spawn(func() {
			tick := time.NewTicker(h.c.Look)
			defer tick.Stop()
			for {
				h.Pass(work)
				select {
				case <-work.Done():
					return
				case <-tick.C:
				}
			}
		})
		return nil
	})
}

// Stop waits for the pass under way.
func (h *Herald) Stop() { h.Halt(nil) }

// Pass reads what is new and says what is due. What could not be said is tried
// again by the next one.
func (h *Herald) Pass(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.pass(ctx); err != nil && ctx.Err() == nil {
		h.c.Log.WarnContext(ctx, "developers could not be told of their apps; this is tried again", "error", err)
	}
}

func (h *Herald) pass(ctx context.Context) error {
	if !h.registered {
		if err := h.c.Notifier.Register(ctx, kinds); err != nil {
			return err
		}
		h.registered = true
	}
	events, err := h.fresh(ctx)
	if err != nil {
		return err
	}
	var failed error
	for _, e := range events {
		err := background.Do("tell of an event", func() error { return h.hear(ctx, e) })
		var panicked *background.PanicError
		if err != nil && !errors.As(err, &panicked) {
			// The position stays before the event.
			failed = err
			break
		}
		// One that makes trouble would do so for ever: the others are told.
		h.at.passed(e)
	}
	return errors.Join(failed, h.reportTroubles(ctx), h.at.save(h.c.File))
}

// hear takes one event. Crashes are gathered, the rest is said at once.
func (h *Herald) hear(ctx context.Context, e *platform.AuditEvent) error {
	on, err := h.wanted(ctx, e.SpaceGUID)
	if err != nil || !on {
		return err
	}
	if e.Type == eventCrash {
		h.crashed(e)
		return nil
	}
	m, worth := describe(e)
	if !worth {
		return nil
	}
	m.Key = e.GUID
	return h.tell(ctx, e.SpaceGUID, m)
}

// wanted tells whether the space has its notifications on.
func (h *Herald) wanted(ctx context.Context, spaceGUID string) (on bool, err error) {
	err = h.c.Store.View(ctx, func(tx platform.Tx) error {
		space, err := tx.Spaces().Get(spaceGUID)
		if fault.Is(err, fault.NotFound) {
			return nil
		}
		on = err == nil && space.Labels[Label] == On
		return err
	})
	return on, err
}

// tell sends a message to every developer of the space. The message says where
// it happened and why the recipient gets it.
func (h *Herald) tell(ctx context.Context, spaceGUID string, m Message) error {
	var users []string
	var space *platform.Space
	var org *platform.Organization
	err := h.c.Store.View(ctx, func(tx platform.Tx) (err error) {
		users = nil
		if space, err = tx.Spaces().Get(spaceGUID); err != nil {
			return err
		}
		if org, err = tx.Organizations().Get(space.OrgGUID); err != nil {
			return err
		}
		roles, _, err := tx.Roles().List(platform.Where("space_guid", spaceGUID).And(platform.In("type", string(platform.SpaceDeveloper))))
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
	m.Text = fmt.Sprintf("Org:   %s\nSpace: %s\n\n%s\n-- \nYou receive this as a developer of space %s in org %s.\nTurn it off for the whole space: cf set-label space %s notifications=off\n",
		org.Name, space.Name, m.Text, space.Name, org.Name, space.Name)
	var failed error
	for _, user := range users {
		to := m
		to.UserGUID, to.Key = user, m.Key+"/"+user
		failed = errors.Join(failed, h.c.Notifier.Send(ctx, to))
	}
	return failed
}
