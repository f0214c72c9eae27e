package system

import (
	"errors"
	"log/slog"
	"testing"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/logs"
	"ingot/internal/platform/platformdb"
)

func TestWhatIsDoneToAnAppIsInItsLog(t *testing.T) {
	t.Parallel()
	d := dbtest.New(t, db.SQLite)
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	to, err := logs.Open(t.TempDir(), logs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(to.Stop)
	store := toldStore{platformdb.New(d), to, slog.New(slog.DiscardHandler)}
	p := actions.New()
	if err := furnish(t.Context(), store, p, "localhost"); err != nil {
		t.Fatal(err)
	}
	if err := furnish(t.Context(), store, p, "localhost"); err != nil {
		t.Fatalf("furnishing twice: %v", err)
	}
	if err := demonstrate(t.Context(), store, p, "admin-guid"); err != nil {
		t.Fatal(err)
	}
	if err := demonstrate(t.Context(), store, p, "admin-guid"); err != nil {
		t.Fatalf("demonstrating twice: %v", err)
	}
	var app *platform.App
	make := func(name string, fail error) error {
		return store.Update(t.Context(), func(tx platform.Tx) error {
			space, err := tx.Spaces().First(platform.Where("name", "dev"))
			if err != nil {
				return err
			}
			app = &platform.App{Name: name, SpaceGUID: space.GUID}
			if err := p.CreateApp(tx, actions.Actor{GUID: "admin-guid", Type: "user"}, app); err != nil {
				return err
			}
			return fail
		})
	}
	broken := errors.New("broken")
	if err := make("a", broken); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	if lines, _ := to.Read(app.GUID, logs.ReadQuery{}); len(lines) != 0 {
		t.Errorf("what was not stored is told: %v", lines)
	}
	if err := make("b", nil); err != nil {
		t.Fatal(err)
	}
	err = store.Update(t.Context(), func(tx platform.Tx) error {
		return p.RecordApp(tx, "audit.app.apply_manifest", actions.Actor{GUID: "admin-guid", Type: "user"}, app, map[string]any{"warnings": []string{"one", "two"}})
	})
	if err != nil {
		t.Fatal(err)
	}
	lines, err := to.Read(app.GUID, logs.ReadQuery{})
	if err == nil && (len(lines) != 4 || string(lines[2].Text) != "WARNING: one" || string(lines[3].Text) != "WARNING: two") {
		t.Errorf("%v", lines)
	}
	lines = lines[:min(1, len(lines))]
	if err != nil || len(lines) != 1 || string(lines[0].Text) != "Created app with guid "+app.GUID || lines[0].Source != "API" {
		t.Errorf("%v, %v", lines, err)
	}
}
