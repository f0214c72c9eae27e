package sshd_test

import (
	"errors"
	"io"
	"log/slog"
	"reflect"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/edge/sshd"
	"ingot/internal/platform/platformdb"
)

const developer = "the-developer"

// fixture is a store with one app: its process wants two instances, of which the
// second runs.
type fixture struct {
	*sshd.Records
	app      *platform.App
	instance *platform.Instance
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, platformdb.Migrations)
	w := &fixture{
		&sshd.Records{Store: platformdb.New(d), Actions: actions.New(), Log: slog.New(slog.NewTextHandler(io.Discard, nil))},
		&platform.App{Name: "a", State: platform.AppStarted}, &platform.Instance{Index: 1, Version: "v",
			State: platform.InstanceRunning},
	}
	err := w.Store.Update(t.Context(), func(tx platform.Tx) error {
		org := &platform.Organization{Name: "o"}
		if err := tx.Organizations().Insert(org); err != nil {
			return err
		}
		space := &platform.Space{Name: "s", OrgGUID: org.GUID, SSHAllowed: true}
		if err := tx.Spaces().Insert(space); err != nil {
			return err
		}
		w.app.SpaceGUID = space.GUID
		if err := tx.Apps().Insert(w.app); err != nil {
			return err
		}
		w.instance.AppGUID, w.instance.ProcessGUID = w.app.GUID, w.app.GUID
		return errors.Join(
			tx.Processes().Insert(&platform.Process{Resource: platform.Resource{GUID: w.app.GUID}, AppGUID: w.app.GUID,
				Type: platform.WebProcess, Instances: 2, Version: "v"}),
			tx.Instances().Insert(w.instance),
			tx.Roles().Insert(&platform.Role{Type: platform.SpaceDeveloper, UserGUID: developer, SpaceGUID: space.GUID}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *fixture) target(t *testing.T, u sshd.User, index int) sshd.Target {
	t.Helper()
	got, err := w.Target(t.Context(), u, w.app.GUID, index)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestTarget asks for instances of a store with one app.
func TestTarget(t *testing.T) {
	t.Parallel()
	w, ctx := newFixture(t), t.Context()
	full := sshd.Target{
		AppGUID: w.app.GUID, Standing: platform.Standing{Roles: []platform.RoleType{platform.SpaceDeveloper}},
		SpaceAllows: true, AppAllows: true, Started: true, Running: true, InstanceID: w.instance.GUID,
	}
	if got := w.target(t, sshd.User{GUID: developer}, 1); !reflect.DeepEqual(got, full) {
		t.Errorf("Target of the developer = %+v, want %+v", got, full)
	}
	for scope, want := range map[string]platform.Standing{
		platform.ScopeWrite: {}, platform.ScopeAdmin: {Authority: platform.Authority{Admin: true}},
		platform.ScopeAdminReadOnly: {}, platform.ScopeGlobalAuditor: {},
	} {
		if got := w.target(t, sshd.User{GUID: "other", Scopes: []string{scope}}, 1).Standing; !reflect.DeepEqual(got, want) {
			t.Errorf("the standing of another user with the scope %s = %+v, want %+v", scope, got, want)
		}
	}
	for _, index := range []int{0, 2, 100000} {
		if got := w.target(t, sshd.User{GUID: developer}, index); got.InstanceID != "" || got.Running {
			t.Errorf("Target of index %d = %+v, want no instance", index, got)
		}
	}
	if _, err := w.Target(ctx, sshd.User{GUID: developer}, "no-such-process", 0); !fault.Is(err, fault.NotFound) {
		t.Errorf("Target of a process that does not exist: %v, want %s", err, fault.NotFound)
	}
	err := w.Store.Update(ctx, func(tx platform.Tx) error {
		w.app.Features, w.app.State = map[string]bool{platform.FeatureSSH: false}, platform.AppStopped
		space, err := tx.Spaces().Get(w.app.SpaceGUID)
		if err != nil {
			return err
		}
		space.SSHAllowed = false
		return errors.Join(tx.Apps().Update(w.app), tx.Spaces().Update(space))
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := w.target(t, sshd.User{GUID: developer}, 1); got.AppAllows || got.SpaceAllows || got.Started || got.Running {
		t.Errorf("Target with both switches off and the app stopped = %+v", got)
	}
}

// TestRecords sees that accesses become audit events, and that refusals do only
// when both user and app are known.
func TestRecords(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	known := sshd.Access{Session: sshd.Session{UserGUID: developer, UserName: "dev", AppGUID: w.app.GUID, Index: 1}}
	w.Authorized(t.Context(), known)
	w.Unauthorized(t.Context(), known, "no reason")
	unknown := known
	unknown.UserGUID = ""
	w.Unauthorized(t.Context(), unknown, "a wrong code")
	gone := known
	gone.AppGUID = "deleted"
	w.Authorized(t.Context(), gone)
	var got []string
	err := w.Store.View(t.Context(), func(tx platform.Tx) error {
		events, _, err := tx.AuditEvents().List(platform.Query{})
		for _, e := range events {
			got = append(got, e.Type+" "+e.ActorName+" "+e.TargetName)
		}
		return err
	})
	want := []string{"audit.app.ssh-authorized dev a", "audit.app.ssh-unauthorized dev a"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("events are %q (%v), want %q", got, err, want)
	}
}
