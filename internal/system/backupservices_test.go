//go:build unix

package system

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"ingot/internal/base/testkit"
)

// TestBackupOfServices: the data of a service instance is there after a restore, with the
// credentials of before. Package broker tests each kind.
func TestBackupOfServices(t *testing.T) {
	t.Parallel()
	f := startBackedUp(t, nil)
	plans := f.list("/v3/service_plans?service_offering_names=redis")
	if len(plans) == 0 {
		t.Skip("redis is not installed")
	}
	a := f.ask(http.MethodPost, "/v3/service_instances", map[string]any{
		"type": "managed", "name": "cache", "relationships": map[string]any{
			"space":        to("space", f.space)["space"],
			"service_plan": to("service_plan", plans[0]["guid"].(string))["service_plan"],
		},
	})
	if a.status != http.StatusAccepted {
		t.Fatalf("create: %d %s", a.status, a.body)
	}
	var instance string
	testkit.Eventually(t, "the instance is there", func() bool {
		for _, s := range f.list("/v3/service_instances") {
			if last, _ := s["last_operation"].(map[string]any); last["state"] == "succeeded" {
				instance = s["guid"].(string)
			}
		}
		return instance != ""
	})
	if a := f.ask(http.MethodPost, "/v3/service_credential_bindings", map[string]any{
		"type": "key", "name": "key", "relationships": to("service_instance", instance),
	}); a.status != http.StatusAccepted {
		t.Fatalf("create a key: %d %s", a.status, a.body)
	}
	var credentials struct {
		Credentials struct {
			URI string `json:"uri"`
		} `json:"credentials"`
	}
	testkit.Eventually(t, "the key is there", func() bool {
		for _, b := range f.list("/v3/service_credential_bindings") {
			a := f.ask(http.MethodGet, "/v3/service_credential_bindings/"+b["guid"].(string)+"/details", nil)
			if err := json.Unmarshal([]byte(a.body), &credentials); err != nil {
				t.Fatal(err)
			}
		}
		return credentials.Credentials.URI != ""
	})
	o, err := redis.ParseURL(credentials.Credentials.URI)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(o)
	defer client.Close() //nolint:errcheck // nothing is left to lose
	if err := client.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	file, without := filepath.Join(t.TempDir(), "file.age"), filepath.Join(t.TempDir(), "without.age")
	if state := f.backup(file); state.Services != 1 {
		t.Errorf("%d instances are in the backup, want 1", state.Services)
	}
	c := f.config(without)
	c.SkipServices = true
	var said []string
	c.Tell = func(line string) { said = append(said, line) }
	if state, err := Parts().Backup(t.Context(), c); err != nil || state.Services != 0 ||
		!strings.Contains(strings.Join(said, "\n"), "data of 1 service instances is not in the backup") {
		t.Errorf("without services: %+v, %v, %q", state, err, said)
	}
	f.backupWithoutRedis(instance)
	for from, want := range map[string]string{file: "v", without: ""} {
		g := f.restored(from, nil)
		testkit.Eventually(t, "redis answers", func() bool { return client.Ping(t.Context()).Err() == nil })
		if got, _ := client.Get(t.Context(), "k").Result(); got != want {
			t.Errorf("after a restore of %s redis has %q, want %q", filepath.Base(from), got, want)
		}
		g.stopApps()
	}
}

// backupWithoutRedis backs up the server and stops it. Then it does so again, while redis is
// stopped, and restores that backup.
func (f *backedUp) backupWithoutRedis(instance string) {
	f.Helper()
	dir := filepath.Join(f.TempDir(), "dir")
	f.backup(dir)
	f.stopApps()
	c := f.config(dir)
	c.Keep = 1
	var said []string
	c.Tell = func(line string) { said = append(said, line) }
	state, err := Parts().Backup(f.Context(), c)
	for _, want := range []string{"the backup was written, but the data of 1 service instances is not in it",
		"is its server running?", "--skip-services"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			f.Errorf("while its server is stopped: %v, want %q in it", err, want)
		}
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "Not saved: the data of the redis instance "+instance+
		": ") || !strings.Contains(text, "No older backups were removed") {
		f.Errorf("it says %q", said)
	}
	last, err := Parts().Last(f.Context(), f.c.DataDir, f.c.DatabaseURL, discard)
	if err != nil || last.ID != state.ID || last.ID == "" || last.Unsaved != 1 || last.Services != 0 ||
		last.Failure == "" {
		f.Errorf("recorded %+v, %v; want a backup without the data of one instance", last, err)
	}
	all, err := Parts().List(f.Context(), dir, discard)
	if err != nil || len(all) != 2 {
		f.Fatalf("%d backups, %v; want the complete one, too", len(all), err)
	}
	for _, one := range all {
		m, err := Parts().Verify(f.Context(), dir, one.ID, f.key, discard)
		if err != nil {
			f.Fatal(err)
		}
		if n := Parts().UnsavedServices(m); n != one.Unsaved || n != 1 && one.ID == state.ID || n != 0 && one.ID != state.ID {
			f.Errorf("the backup %s lacks the data of %d instances, %d in the list", one.ID, n, one.Unsaved)
		}
	}
	said = nil
	r := f.restoreConfig(dir, passableDir(f.T))
	r.Tell = c.Tell
	if err := Parts().Restore(f.Context(), r); err != nil {
		f.Fatal(err)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "Restored 1 service instances") ||
		!strings.Contains(text, "Not restored: the data of the redis instance "+instance+
			": it was not saved: is its server running?") {
		f.Errorf("the restore says %q", said)
	}
}
