package alerts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
)

// neighbor adds another space with a developer, and returns a function that adds an event.
func (b *bundle) neighbor(name string) func(kind string) {
	b.t.Helper()
	space := &platform.Space{Name: name, OrgGUID: b.space.OrgGUID,
		Metadata: platform.Metadata{Labels: map[string]string{Label: On}}}
	b.update(func(tx platform.Tx) error {
		if err := tx.Spaces().Insert(space); err != nil {
			return err
		}
		if err := tx.Users().Insert(&platform.User{Resource: platform.Resource{GUID: name}}); err != nil {
			return err
		}
		return tx.Roles().Insert(&platform.Role{Type: platform.SpaceDeveloper, UserGUID: name, SpaceGUID: space.GUID})
	})
	return func(kind string) {
		b.t.Helper()
		b.update(func(tx platform.Tx) error {
			return tx.AuditEvents().Insert(&platform.AuditEvent{
				Resource: platform.Resource{Created: b.now}, Type: kind, TargetGUID: name, TargetType: "app", TargetName: name,
				SpaceGUID: space.GUID,
			})
		})
	}
}

// However many events there are at one time, in whatever order they are committed, whatever
// becomes of the messages about other spaces: developers are notified of theirs, once.
func TestEverySpaceIsNotified(t *testing.T) {
	t.Parallel()
	const storm = 3*eventsAtOnce + 1
	storming := func(b *bundle, kind string) {
		b.update(func(tx platform.Tx) error {
			for range storm {
				e := &platform.AuditEvent{Resource: platform.Resource{Created: b.now}, Type: kind, TargetGUID: b.app.GUID,
					TargetType: "app", TargetName: "shop", SpaceGUID: b.space.GUID}
				if err := tx.AuditEvents().Insert(e); err != nil {
					return err
				}
			}
			return nil
		})
	}
	const heard = "other: Staging other failed"
	for name, tc := range map[string]struct {
		happens func(b *bundle, other func(kind string))
		passes  int
		want    string
	}{
		"a crash storm at one time": {func(b *bundle, other func(string)) {
			storming(b, eventCrash)
			other("audit.app.build.failed")
		}, 1, heard},
		"many messages about one space": {func(b *bundle, other func(string)) {
			storming(b, "audit.app.build.failed")
			other("audit.app.build.failed")
		}, 1, strings.Repeat("dev: Staging shop failed; ", messagesAtOnce) + heard},
		"many events of a space without notifications": {func(b *bundle, other func(string)) {
			b.update(func(tx platform.Tx) error {
				b.space.Labels = nil
				return tx.Spaces().Update(b.space)
			})
			storming(b, "audit.app.build.failed")
			other("audit.app.build.failed")
		}, 1, heard},
		"many events that are not for notifications": {func(b *bundle, other func(string)) {
			storming(b, "audit.app.update")
			other("audit.app.build.failed")
		}, 1, heard},
		"a space whose messages fail": {func(b *bundle, other func(string)) {
			b.ear.failing = map[string]error{"dev": errors.New("no answer")}
			storming(b, "audit.app.build.failed")
			other("audit.app.build.failed")
		}, 1, heard},
		"many spaces whose messages fail": {func(b *bundle, other func(string)) {
			b.ear.failing = map[string]error{}
			for i := range 2 * failuresAtOnce {
				name := fmt.Sprint("broken", i)
				b.neighbor(name)("audit.app.build.failed")
				b.ear.failing[name] = errors.New("no answer")
			}
			b.now = b.now.Add(time.Second)
			other("audit.app.build.failed")
		}, 3, heard},
		"a developer whom the notification service refuses": {func(b *bundle, other func(string)) {
			b.ear.failing = map[string]error{"dev": fmt.Errorf("%w: no such user", ErrRefused)}
			b.event("audit.app.build.failed", nil)
			other("audit.app.build.failed")
		}, 1, heard},
		"a server whose clock is late": {func(b *bundle, other func(string)) {
			b.event("audit.app.build.failed", nil)
			b.h.Pass(b.t.Context())
			b.now = b.now.Add(-time.Hour)
			other("audit.app.build.failed")
		}, 1, "dev: Staging shop failed; " + heard},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			tc.happens(b, b.neighbor("other"))
			for range tc.passes {
				b.h.Pass(t.Context())
			}
			// Events of the same time are read in the order of their GUIDs, which are random.
			got := strings.Split(b.ear.subjects(), "; ")
			slices.Sort(got)
			if all := strings.Join(got, "; "); all != tc.want {
				t.Errorf("heard %q, want %q", all, tc.want)
			}
		})
	}
}

// A storm is counted to the last crash.
func TestStormIsCounted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.instance(platform.InstanceCrashed)
	b.update(func(tx platform.Tx) error {
		for range 2*eventsAtOnce + 7 {
			if err := tx.AuditEvents().Insert(&platform.AuditEvent{Resource: platform.Resource{Created: b.now}, Type: eventCrash,
				TargetGUID: b.app.GUID, TargetName: "shop", SpaceGUID: b.space.GUID}); err != nil {
				return err
			}
		}
		return nil
	})
	b.expect("")
	if n := len(b.h.at.Seen); n != 0 {
		t.Errorf("%d events are remembered, want none", n)
	}
	b.now = b.now.Add(time.Minute)
	b.expect("dev: shop crashed 1007 times")
}

// forgetful is Events whose marks are lost once.
type forgetful struct {
	Events
	lost bool
}

func (f *forgetful) SetAlerted(ctx context.Context, guids []string) error {
	if !f.lost {
		f.lost = true
		return errors.New("the server is killed")
	}
	return f.Events.SetAlerted(ctx, guids)
}

// A server that is killed between counting a crash and marking it does not count it again.
func TestKilledBeforeMarking(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.instance(platform.InstanceCrashed)
	b.h.c.Events = &forgetful{Events: b.store}
	b.event(eventCrash, nil)
	b.event(eventCrash, nil)
	b.expect("")
	b.restart()
	b.now = b.now.Add(time.Minute)
	b.expect("dev: shop crashed 2 times")
}

// A position of an earlier version is continued: nothing is sent twice, nothing is left out.
func TestPositionOfEarlierVersion(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.event("audit.app.build.failed", nil)
	b.expect("dev: Staging shop failed")
	b.ear.keys = nil // the service does not help
	var sent []*platform.AuditEvent
	b.update(func(tx platform.Tx) (err error) {
		sent, _, err = tx.AuditEvents().List(platform.Query{})
		return err
	})
	at := b.now
	b.now = b.now.Add(time.Second)
	b.event("audit.app.deployment.finished", map[string]any{"reason": "DEPLOYED"})
	// The migration marks all.
	b.update(func(tx platform.Tx) error {
		all, _, err := tx.AuditEvents().List(platform.Query{})
		for _, e := range all {
			e.Alerted = true
			err = errors.Join(err, tx.AuditEvents().Update(e))
		}
		return err
	})
	old := fmt.Sprintf(`{"after":%q,"seen":{%q:%q},"troubles":{}}`, at.Format(time.RFC3339Nano), sent[0].GUID,
		at.Format(time.RFC3339Nano))
	if err := os.WriteFile(b.file, []byte(old), 0o600); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.expect("dev: A deployment of shop finished")
	b.restart()
	b.expect("")
}

// On PostgreSQL a transaction may commit long after others that began later.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	store := platformdb.New(dbtest.Migrated(t, db.Postgres, platformdb.Migrations))
	b := setup(t)
	b.store = store
	b.populate()
	b.file = filepath.Join(t.TempDir(), "alerts.json")
	b.restart()
	began, commit, committed := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		first := true
		committed <- store.Update(t.Context(), func(tx platform.Tx) error {
			err := tx.AuditEvents().Insert(&platform.AuditEvent{Resource: platform.Resource{Created: b.now},
				Type: "audit.app.build.failed", TargetName: "late", SpaceGUID: b.space.GUID})
			if first {
				first = false
				close(began)
			}
			<-commit
			return err
		})
	}()
	<-began
	b.now = b.now.Add(10 * overlap)
	b.event("audit.app.build.failed", nil)
	b.expect("dev: Staging shop failed")
	close(commit)
	if err := <-committed; err != nil {
		t.Fatal(err)
	}
	b.expect("dev: Staging late failed")
	b.expect("")
}
