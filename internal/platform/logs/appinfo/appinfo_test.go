package appinfo_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/logs/appinfo"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/run/controller/usage"
)

// Names are those of the last call of Forget; drains are those of bindings; only
// instances that run and were measured have gauges.
func TestInfo(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	store := platformdb.New(d)
	id := func(guid string) platform.Resource { return platform.Resource{GUID: guid} }
	app := &platform.App{Resource: id("a"), Name: "app", SpaceGUID: "s"}
	err := store.Update(t.Context(), func(tx platform.Tx) error {
		return errors.Join(
			tx.Organizations().Insert(&platform.Organization{Resource: id("o"), Name: "org"}),
			tx.Spaces().Insert(&platform.Space{Resource: id("s"), Name: "space", OrgGUID: "o"}),
			tx.Apps().Insert(app),
			tx.Processes().Insert(&platform.Process{Resource: id("p"), AppGUID: "a", Type: platform.WebProcess,
				ProcessSettings: platform.ProcessSettings{MemoryMB: 64}}),
			tx.Instances().Insert(&platform.Instance{Resource: id("i0"), AppGUID: "a", ProcessGUID: "p",
				State: platform.InstanceRunning}),
			tx.Instances().Insert(&platform.Instance{Resource: id("i1"), AppGUID: "a", ProcessGUID: "p", Index: 1,
				State: platform.InstanceRunning}),
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	info := appinfo.New(store, "0.0.0.0:8080", func(context.Context, ...string) map[string]usage.Usage {
		return map[string]usage.Usage{"i1": {Time: time.Now(), Memory: 5}}
	})
	first := info.About(t.Context(), "a")
	if got := first.Tags["organization_name"] + "/" + first.Tags["space_name"] + "/" +
		first.Tags["app_name"]; got != "org/space/app" || first.Processes["WEB"] != "p" || first.Tags["ip"] != "127.0.0.1" {
		t.Errorf("got %+v, want the names org/space/app, the process p and the address 127.0.0.1", first)
	}
	info.Forget()
	if again := info.About(t.Context(), "a"); again != first {
		t.Error("nothing changed, but the pointer is another one")
	}
	if err := store.Update(t.Context(), func(tx platform.Tx) error {
		app.Name = "renamed"
		return tx.Apps().Update(app)
	}); err != nil {
		t.Fatal(err)
	}
	info.Forget()
	if got := info.About(t.Context(), "a").Tags["app_name"]; got != "renamed" {
		t.Errorf("got the name %q, want renamed", got)
	}
	if got := info.About(t.Context(), "none").Tags; len(got) != 3 {
		t.Errorf("got %v for an unknown app, want the three tags of the server", got)
	}
	gauges, err := info.Gauges(t.Context(), []string{"a"})
	if err != nil || len(gauges) != 1 || gauges[0].Instance != "i1" || gauges[0].Metrics["memory"].Value != 5 ||
		gauges[0].Metrics["memory_quota"].Value != 64<<20 {
		t.Errorf("got %+v, %v, want the gauges of i1", gauges, err)
	}
	if drains, err := info.Drains(t.Context()); err != nil || len(drains) != 0 {
		t.Errorf("got the drains %v, %v, want none", drains, err)
	}
}
