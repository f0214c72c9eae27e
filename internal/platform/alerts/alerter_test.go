package alerts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/background/backgroundtest"
	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
)

// ear is a notification service that remembers.
type ear struct {
	heard []Message
	keys  map[string]bool
	deaf  bool
	// failing are the errors of messages to some users.
	failing map[string]error
}

func (e *ear) Register(context.Context, map[string]string) error {
	if e.deaf {
		return errors.New("no answer")
	}
	return nil
}

func (e *ear) Send(_ context.Context, m Message) error {
	if e.deaf {
		return errors.New("no answer")
	}
	if err := e.failing[m.UserGUID]; err != nil {
		return err
	}
	if e.keys == nil {
		e.keys = map[string]bool{}
	}
	if !e.keys[m.Key] {
		e.heard = append(e.heard, m)
	}
	e.keys[m.Key] = true
	return nil
}

// subjects are what was heard since the last call.
func (e *ear) subjects() string {
	var all []string
	for _, m := range e.heard {
		all = append(all, m.UserGUID+": "+m.Subject)
	}
	e.heard = nil
	return strings.Join(all, "; ")
}

type bundle struct {
	t     *testing.T
	store *platformdb.Store
	ear   *ear
	now   time.Time
	file  string
	space *platform.Space
	app   *platform.App
	h     *Alerter
}

func setup(t *testing.T) *bundle {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, platformdb.Migrations)
	b := &bundle{t: t, store: platformdb.New(d), ear: &ear{}, now: time.Now().UTC(),
		file: filepath.Join(t.TempDir(), "alerts.json")}
	b.populate()
	b.restart()
	return b
}

// populate adds an app whose space has notifications enabled.
func (b *bundle) populate() {
	b.t.Helper()
	b.update(func(tx platform.Tx) error {
		org := &platform.Organization{Name: "o"}
		if err := tx.Organizations().Insert(org); err != nil {
			return err
		}
		b.space = &platform.Space{Name: "s", OrgGUID: org.GUID,
			Metadata: platform.Metadata{Labels: map[string]string{Label: On}}}
		if err := tx.Spaces().Insert(b.space); err != nil {
			return err
		}
		for user, role := range map[string]platform.RoleType{"dev": platform.SpaceDeveloper, "boss": platform.SpaceManager} {
			if err := tx.Users().Insert(&platform.User{Resource: platform.Resource{GUID: user}}); err != nil {
				return err
			}
			if err := tx.Roles().Insert(&platform.Role{Type: role, UserGUID: user, SpaceGUID: b.space.GUID}); err != nil {
				return err
			}
		}
		b.app = &platform.App{Name: "shop", SpaceGUID: b.space.GUID, State: platform.AppStarted}
		if err := tx.Apps().Insert(b.app); err != nil {
			return err
		}
		return tx.Processes().Insert(&platform.Process{AppGUID: b.app.GUID, Type: "web", Instances: 1})
	})
}

func (b *bundle) update(f func(tx platform.Tx) error) {
	b.t.Helper()
	if err := b.store.Update(b.t.Context(), f); err != nil {
		b.t.Fatal(err)
	}
}

// restart is a server that was killed and comes again.
func (b *bundle) restart() {
	b.t.Helper()
	b.h = New(Config{Store: b.store, Events: b.store, Notifier: b.ear, File: b.file,
		Now: func() time.Time { return b.now }})
	if err := b.h.resume(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) event(kind string, data map[string]any) {
	b.t.Helper()
	b.update(func(tx platform.Tx) error {
		return tx.AuditEvents().Insert(&platform.AuditEvent{
			Resource: platform.Resource{Created: b.now}, Type: kind, TargetGUID: b.app.GUID, TargetType: "app",
			TargetName: b.app.Name, SpaceGUID: b.space.GUID, Data: data,
		})
	})
}

func (b *bundle) expect(want string) {
	b.t.Helper()
	b.h.Pass(b.t.Context())
	if got := b.ear.subjects(); got != want {
		b.t.Errorf("heard %q, want %q", got, want)
	}
}

func (b *bundle) instance(state platform.InstanceState) {
	b.t.Helper()
	b.update(func(tx platform.Tx) error {
		if _, err := tx.Instances().DeleteAll(platform.Where("app_guid", b.app.GUID)); err != nil {
			return err
		}
		return tx.Instances().Insert(&platform.Instance{AppGUID: b.app.GUID, State: state})
	})
}

func TestCrashLoopIsOneMessage(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.instance(platform.InstanceCrashed)
	for range 40 {
		b.event(eventCrash, map[string]any{"exit_description": "APP/PROC/WEB: Exited with status 1"})
		b.now = b.now.Add(200 * time.Millisecond)
	}
	b.expect("")
	b.now = b.now.Add(5 * time.Second)
	b.expect("dev: shop crashed 40 times")
	for range 300 {
		b.event(eventCrash, nil)
		b.now = b.now.Add(10 * time.Second)
	}
	b.expect("")
	b.restart()
	b.now = b.now.Add(10 * time.Minute)
	b.expect("dev: shop crashed 300 times")
	b.expect("")
	b.instance(platform.InstanceRunning)
	b.expect("dev: shop recovered")
	b.expect("")
	b.event(eventCrash, nil)
	b.expect("")
	b.restart()
	b.now = b.now.Add(time.Minute)
	b.expect("dev: shop crashed")
}

func TestSaidAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.event("audit.app.build.failed", map[string]any{"error_message": "NoAppDetectedError"})
	b.event("audit.app.update", nil)
	b.expect("dev: Staging shop failed")
	b.expect("")
	b.restart()
	b.expect("")
}

// TestMessagesAreRecorded checks the events of an app that say what its developers were notified of: one
// for each message, also if it is sent again, and none while it could not be sent.
func TestMessagesAreRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t)
	recorded := func() (all []string) {
		t.Helper()
		err := b.store.View(t.Context(), func(tx platform.Tx) error {
			q := platform.Where("type", platform.EventDevelopersNotified).And(platform.In("target_guid", b.app.GUID))
			q.Order = "created_at"
			events, _, err := tx.AuditEvents().List(q)
			for _, e := range events {
				all = append(all, fmt.Sprint(e.Data["subject"], " to ", e.Data["developers"], " in ", e.SpaceGUID == b.space.GUID))
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	b.event("audit.app.build.failed", map[string]any{"error_message": "NoAppDetectedError"})
	b.ear.deaf = true
	b.expect("")
	if got := recorded(); len(got) != 0 {
		t.Errorf("recorded %q before a message was sent", got)
	}
	b.ear.deaf = false
	b.expect("dev: Staging shop failed")
	// A server that is killed before it has marked the event sends it again, with the same key.
	if err := b.store.AlertSince(t.Context(), b.now.Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	b.restart()
	b.expect("")
	b.instance(platform.InstanceCrashed)
	b.event(eventCrash, nil)
	b.h.Pass(t.Context())
	b.now = b.now.Add(time.Minute)
	b.expect("dev: shop crashed")
	want := []string{"Staging shop failed to 1 in true", "shop crashed to 1 in true"}
	if got := recorded(); !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
	b.expect("")
	// A message that the notification service refused is not recorded.
	b.now = b.now.Add(time.Minute)
	b.ear.failing = map[string]error{"dev": fmt.Errorf("%w: no such user", ErrRefused)}
	b.event("audit.app.build.failed", nil)
	b.expect("")
	if got := recorded(); !slices.Equal(got, want) {
		t.Errorf("after a refused message: recorded %q, want %q", got, want)
	}
	b.now = b.now.Add(time.Minute)
	b.update(func(tx platform.Tx) error {
		return tx.Roles().Insert(&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "boss", SpaceGUID: b.space.GUID})
	})
	b.event("audit.app.build.failed", nil)
	b.expect("boss: Staging shop failed")
	if got, want := recorded(), append(want, "Staging shop failed to 1 in true"); !slices.Equal(got, want) {
		t.Errorf("with a refused message among two: recorded %q, want %q", got, want)
	}
}

func TestServiceOperationsAreSaid(t *testing.T) {
	t.Parallel()
	for operation, want := range map[string]string{
		"create failed full": "Creating the service instance db failed.\n\nThe service broker says: full\n\nMore: cf " +
			"service db\n",
		"update succeeded done": "Updating the service instance db succeeded.\n\nThe service broker says: done\n\nMore: cf " +
			"service db\n",
		"delete succeeded ": "Deleting the service instance db succeeded.\n",
		"delete failed busy": "Deleting the service instance db failed.\n\nThe service broker says: busy\n\nMore: cf " +
			"service db\n",
	} {
		words := strings.SplitN(operation, " ", 3)
		m, relevant := describe(&platform.AuditEvent{Type: "audit.service_instance.operation-finished", TargetName: "db",
			Data: map[string]any{
				"operation": words[0], "state": words[1], "description": words[2],
			}})
		if !relevant || m.Text != want || m.Kind != kindService || m.Subject+"." != strings.SplitN(want, "\n", 2)[0] {
			t.Errorf("%s: message is %+v, relevant %v, want %q", operation, m, relevant, want)
		}
	}
}

func TestCrashMessageSaysWhereAndWhy(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.instance(platform.InstanceCrashed)
	b.h.c.Lines = func(_ context.Context, app string, n int) ([]platform.LogLine, error) {
		if app != b.app.GUID || n != linesRead {
			t.Errorf("asked for %d lines of %s", n, app)
		}
		at := time.Date(2030, 1, 2, 3, 4, 5, 670_000_000, time.UTC)
		return []platform.LogLine{
			{Time: at, Source: "APP/PROC/WEB", Instance: "0", Text: []byte(strings.Repeat("x", 10*maxLine))},
			{Time: at, Source: "APP/PROC/WEB", Instance: "0", Text: []byte("panic: no database")},
		}, nil
	}
	b.event(eventCrash, map[string]any{"exit_description": "APP/PROC/WEB: Exited with status 1"})
	b.h.Pass(t.Context())
	b.now = b.now.Add(time.Minute)
	b.h.Pass(t.Context())
	if len(b.ear.heard) != 1 {
		t.Fatalf("%d messages, want 1", len(b.ear.heard))
	}
	got := b.ear.heard[0].Text
	for _, want := range []string{
		"Org:   o\nSpace: s\n", "Exited with status 1",
		"The error: panic: no database\n\nThe last 2 lines of its log:\n\n    03:04:05.67 [APP/PROC/WEB/0] panic: no " +
			"database\n",
		"cf logs shop --recent", "cf app shop", "cf events shop",
		"You are receiving this because you are a developer in the space s of the org o.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, strings.Repeat("x", maxLine+1)) {
		t.Error("a long line is not cut")
	}
}

func TestOffUnlessTheLabelSaysSo(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.update(func(tx platform.Tx) error {
		b.space.Labels = map[string]string{Label: "off"}
		return tx.Spaces().Update(b.space)
	})
	b.event("audit.app.build.failed", nil)
	b.event(eventCrash, nil)
	b.expect("")
	b.now = b.now.Add(time.Hour)
	b.expect("")
}

func TestNothingIsLostWhileNobodyListens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.ear.deaf = true
	b.event("audit.app.build.failed", nil)
	b.event(eventCrash, nil)
	b.expect("")
	b.restart()
	b.expect("")
	b.ear.deaf = false
	b.now = b.now.Add(time.Minute)
	b.expect("dev: Staging shop failed; dev: shop crashed")
}

func TestServiceContract(t *testing.T) {
	t.Parallel()
	b := setup(t)
	backgroundtest.Stress(t, func(t *testing.T) background.Service {
		return New(Config{Store: b.store, Events: b.store, Notifier: &ear{}, File: filepath.Join(t.TempDir(), "alerts.json")})
	})
}

// states are the positions of all servers.
type states map[string]string

func (s states) State(_ context.Context, name string) (string, bool, error) {
	value, known := s[name]
	return value, known, nil
}

func (s states) SetState(_ context.Context, name, value string) error {
	s[name] = value
	return nil
}

// TestOneServerNotifies: of two servers one sends messages, and the other continues where
// it stopped.
func TestOneServerNotifies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.instance(platform.InstanceCrashed)
	leader, stored := 0, states{}
	var servers [2]*Alerter
	for i := range servers {
		servers[i] = New(Config{
			Store: b.store, Events: b.store, Notifier: b.ear, States: stored, Now: func() time.Time { return b.now },
			Lead: func(context.Context) bool { return leader == i },
		})
	}
	expect := func(want string) {
		t.Helper()
		b.ear.keys = nil // the service does not help
		for _, s := range servers {
			s.Pass(t.Context())
		}
		if got := b.ear.subjects(); got != want {
			t.Errorf("server %d leads: heard %q, want %q", leader, got, want)
		}
	}
	expect("")
	b.event(eventCrash, nil)
	b.now = b.now.Add(time.Minute)
	expect("dev: shop crashed")
	leader = 1
	expect("")
	b.event(eventCrash, nil)
	b.now = b.now.Add(2 * time.Hour)
	expect("dev: shop crashed")
}

// A server that starts after the clock was set back reads the events of the new time, and
// does not send old ones again.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.event("audit.app.build.failed", nil)
	b.expect("dev: Staging shop failed")
	b.now = b.now.Add(-time.Hour)
	b.restart()
	b.expect("")
	b.event("audit.app.build.failed", nil)
	b.expect("dev: Staging shop failed")
}
