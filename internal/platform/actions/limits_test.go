package actions

import (
	"errors"
	"strings"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
)

func TestDemand(t *testing.T) {
	t.Parallel()
	process := func(instances, memory int, rate int64) platform.Process {
		return platform.Process{Instances: instances,
			ProcessSettings: platform.ProcessSettings{MemoryMB: memory, LogRate: rate}}
	}
	started, stopped := &platform.App{State: platform.AppStarted}, &platform.App{State: platform.AppStopped}
	for _, x := range []struct {
		app     *platform.App
		process platform.Process
		want    demand
	}{
		{started, process(3, 10, 5), demand{3, 30, 15}},
		{started, process(2, 10, -1), demand{2, 20, -1}},
		{started, process(0, 10, -1), demand{}},
		{stopped, process(3, 10, 0), demand{}},
	} {
		if got := demandOf(x.app, &x.process); got != x.want {
			t.Errorf("demandOf(%s, %+v) = %+v, want %+v", x.app.State, x.process, got, x.want)
		}
	}
	if got, want := (demand{1, 2, 3}).plus(demand{1, 2, -1}), (demand{2, 4, -1}); got != want {
		t.Errorf("plus = %+v, want %+v", got, want)
	}
	for _, x := range []struct {
		before, now int64
		want        bool
	}{{1, 2, true}, {2, 1, false}, {1, 1, false}, {1, -1, true}, {-1, -1, false}, {-1, 5, false}} {
		if got := (demand{logRate: x.now}).moreLogs(demand{logRate: x.before}); got != x.want {
			t.Errorf("from %d to %d logs more: %v, want %v", x.before, x.now, got, x.want)
		}
	}
}

func TestOneFits(t *testing.T) {
	t.Parallel()
	most := 64
	space, org := limited{kind: "space", name: "s"}, limited{kind: "organization", name: "o"}
	space.ProcessMemoryMB, org.ProcessMemoryMB = &most, &most
	for want, limits := range map[string][]limited{
		"memory space_instance_memory_limit_exceeded: the quota of the space 's' allows 64 MB": {space, org},
		"memory instance_memory_limit_exceeded: the quota of the organization 'o' allows 64":   {{kind: "space"}, org},
	} {
		if err := oneFits(limits, most, processTerms); err != nil {
			t.Errorf("as much as the quota allows: %v", err)
		}
		if err := oneFits(limits, most+1, processTerms); !fault.Is(err, fault.Unprocessable) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("more than the quota allows: %v, want %q", err, want)
		}
	}
}

// fixture is a store with a started app in a space, whose organization has a
// quota of 100 MB and 3 instances.
func fixture(t *testing.T) (platform.Store, *platform.App, *platform.Process) {
	t.Helper()
	d := dbtest.Migrated(t, db.SQLite, platformdb.Migrations)
	store := platformdb.New(d)
	memory, instances := 100, 3
	id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
	app := &platform.App{Resource: id("app"), Name: "a", SpaceGUID: "space", State: platform.AppStarted}
	process := &platform.Process{Resource: id("app"), AppGUID: "app", Type: platform.WebProcess, Instances: 1,
		ProcessSettings: platform.ProcessSettings{MemoryMB: 40, DiskMB: 1, LogRate: -1}}
	err := store.Update(t.Context(), func(tx platform.Tx) error {
		return errors.Join(
			tx.OrganizationQuotas().Insert(&platform.OrganizationQuota{Resource: id("quota"), Name: "q",
				Limits: platform.Limits{MemoryMB: &memory, Instances: &instances}}),
			tx.Organizations().Insert(&platform.Organization{Resource: id("org"), Name: "o", QuotaGUID: "quota"}),
			tx.Spaces().Insert(&platform.Space{Resource: id("space"), Name: "s", OrgGUID: "org"}),
			tx.Apps().Insert(app), tx.Processes().Insert(process),
			tx.Roles().Insert(&platform.Role{Type: platform.OrgUser, UserGUID: "u", OrgGUID: "org"}),
			tx.Roles().Insert(&platform.Role{Type: platform.SpaceSupporter, UserGUID: "u", SpaceGUID: "space"}),
			tx.Roles().Insert(&platform.Role{Type: platform.SpaceDeveloper, UserGUID: "u", SpaceGUID: "another"}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	return store, app, process
}

// TestScaleProcess sees that quotas refuse what grows beyond them, and nothing
// while a deployment is active.
func TestScaleProcess(t *testing.T) {
	t.Parallel()
	n := func(n int) *int { return &n }
	for _, x := range []struct {
		scale  platform.Scale
		deploy bool
		want   string
	}{
		{platform.Scale{Instances: n(2)}, false, ""},
		{platform.Scale{Instances: n(0)}, false, ""},
		{platform.Scale{Instances: n(3)}, false, "memory quota_exceeded"},
		{platform.Scale{Instances: n(4), MemoryMB: n(10)}, false, "app_instance_limit_exceeded"},
		{platform.Scale{MemoryMB: n(101)}, false, "memory quota_exceeded"},
		{platform.Scale{MemoryMB: n(0)}, false, "Memory in mb"},
		{platform.Scale{Instances: n(2)}, true, "deployment is in flight"},
	} {
		store, app, process := fixture(t)
		err := store.Update(t.Context(), func(tx platform.Tx) error {
			if x.deploy {
				if err := tx.Deployments().
					Insert(&platform.Deployment{AppGUID: app.GUID, Status: platform.DeploymentActive}); err != nil {
					return err
				}
			}
			return New().ScaleProcess(tx, Actor{}, app, process, x.scale, false)
		})
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("scaling: %v, want %q", err, x.want)
		}
	}
}

// TestStanding sees that roles in a space and its organization count, and no
// others.
func TestStanding(t *testing.T) {
	t.Parallel()
	store, app, _ := fixture(t)
	caller := platform.Caller{GUID: "u"}
	err := store.Update(t.Context(), func(tx platform.Tx) error {
		space, err := tx.Spaces().Get(app.SpaceGUID)
		if err != nil {
			return err
		}
		s, err := StandingInSpace(tx, caller, space)
		if err != nil || len(s.Roles) != 2 || s.Suspended || !s.Grants(platform.Operate) || s.Grants(platform.Develop) {
			t.Errorf("StandingInSpace = %+v (%v), want the roles of space and organization", s, err)
		}
		org, err := tx.Organizations().Get("org")
		if err != nil {
			return err
		}
		org.Suspended = true
		if err := tx.Organizations().Update(org); err != nil {
			return err
		}
		s, err = StandingInOrganization(tx, caller, "org")
		if err != nil || len(s.Roles) != 1 || !s.Suspended {
			t.Errorf("StandingInOrganization = %+v (%v), want one role, suspended", s, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for guid, want := range map[string]bool{"u": true, "other": false} {
		if got, err := SeesApp(t.Context(), store, platform.Caller{GUID: guid}, app.GUID); got != want || err != nil {
			t.Errorf("SeesApp of %s = %v, %v, want %v", guid, got, err, want)
		}
	}
}
