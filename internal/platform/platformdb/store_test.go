//go:build unix

package platformdb_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/db/dbtest"
	"ingot/internal/base/fault"
	"ingot/internal/base/seal"
	"ingot/internal/platform"
	"ingot/internal/platform/platformdb"
	"ingot/internal/platform/storetest"
)

// open gives a test an empty store.
func open(t *testing.T, d *db.DB) *platformdb.Store {
	t.Helper()
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	return platformdb.New(d)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			storetest.Conformance(t, func(t *testing.T) platform.Store {
				t.Helper()
				return platformdb.New(dbtest.Migrated(t, dialect, platformdb.Migrations))
			})
		})
	}
}

// TestMigrateAgain sees that a second start finds nothing to do.
func TestMigrateAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		open(t, d)
		open(t, d)
	})
}

// TestSecret sees that a secret is created once, sealed, and the same for every server.
func TestSecret(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		first, second := open(t, d), platformdb.New(d)
		for i, s := range []*platformdb.Store{first, second, first} {
			got, created, err := s.Secret(t.Context(), "authority", func() ([]byte, error) {
				if s == second {
					t.Error("the second server creates the secret again")
				}
				return []byte("of the first"), nil
			})
			if err != nil || string(got) != "of the first" || created != (i == 0) {
				t.Errorf("secret is %q, created %v, %v, want %q, created %v", got, created, err, "of the first", i == 0)
			}
		}
		err := d.View(t.Context(), func(tx *db.Tx) error {
			var stored string
			err := tx.QueryRow("SELECT value FROM platform_secrets").Scan(&stored)
			if strings.Contains(stored, "first") || stored == "" {
				t.Errorf("stored is %q, want it sealed", stored)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// TestPurgeJobs sees that old jobs that ended are removed, in more than one
// batch, and no others.
func TestPurgeJobs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, ctx := open(t, d), t.Context()
		before := time.Date(2026, 3, 1, 12, 30, 45, 123456789, time.UTC)
		add := func(tx platform.Tx, guid string, state platform.JobState, updated time.Time) error {
			return tx.Jobs().Insert(&platform.Job{Resource: platform.Resource{GUID: guid, Updated: updated}, State: state})
		}
		err := s.Update(ctx, func(tx platform.Tx) error {
			for i := range 1100 {
				state := map[bool]platform.JobState{true: platform.JobComplete, false: platform.JobFailed}[i%2 == 0]
				if err := add(tx, fmt.Sprint("old-", i), state, before.Add(-time.Duration(i+1))); err != nil {
					return err
				}
			}
			for guid, state := range map[string]platform.JobState{"processing": platform.JobProcessing,
				"polling": platform.JobPolling} {
				if err := add(tx, guid, state, before.Add(-time.Hour)); err != nil {
					return err
				}
			}
			return add(tx, "recent", platform.JobComplete, before)
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.PurgeJobs(ctx, before); err != nil {
			t.Fatal(err)
		}
		var left []string
		err = s.View(ctx, func(tx platform.Tx) error {
			all, _, err := tx.Jobs().List(platform.Query{Order: "guid"})
			for _, j := range all {
				left = append(left, j.GUID)
			}
			return err
		})
		if err != nil || fmt.Sprint(left) != "[polling processing recent]" {
			t.Errorf("left are %v, %v", left, err)
		}
	})
}

// TestSecretsAreSealed sees that secrets are not readable in the database, and
// are sealed anew when the server's key is exchanged.
func TestSecretsAreSealed(t *testing.T) {
	t.Parallel()
	for _, dialect := range dbtest.Dialects {
		t.Run(dialect.String(), func(t *testing.T) {
			t.Parallel()
			ctx, address := t.Context(), dbtest.URL(t, dialect)
			oldKey, newKey := seal.NewKey(), seal.NewKey()
			const secret = "not readable in the file"
			d := openWith(t, address, oldKey)
			err := open(t, d).Update(ctx, func(tx platform.Tx) error {
				id := platform.Resource{GUID: "x"}
				if err := tx.Apps().Insert(&platform.App{Resource: id, Env: map[string]string{"TOKEN": secret}}); err != nil {
					return err
				}
				options := platform.SidecarOptions{Env: map[string]string{"TOKEN": secret}}
				if err := tx.Sidecars().Insert(&platform.Sidecar{Resource: id, Options: options}); err != nil {
					return err
				}
				if err := tx.Revisions().Insert(&platform.Revision{Resource: id, Env: map[string]string{"TOKEN": secret},
					Options: map[string]platform.SidecarOptions{"a": options}}); err != nil {
					return err
				}
				if err := tx.Packages().Insert(&platform.Package{Resource: id, Password: secret}); err != nil {
					return err
				}
				if err := tx.Droplets().Insert(&platform.Droplet{Resource: id, ImagePassword: secret}); err != nil {
					return err
				}
				if err := tx.Tasks().Insert(&platform.Task{Resource: id, Command: secret}); err != nil {
					return err
				}
				if err := tx.Jobs().Insert(&platform.Job{Resource: id, Payload: []byte(secret)}); err != nil {
					return err
				}
				if err := tx.ServiceBrokers().Insert(&platform.ServiceBroker{Resource: id, Password: secret,
					DashboardClients: map[string]string{"dash": secret}}); err != nil {
					return err
				}
				if err := tx.ServiceInstances().
					Insert(&platform.ServiceInstance{Resource: id, Credentials: map[string]any{"password": secret}}); err != nil {
					return err
				}
				if err := tx.ServiceBindings().
					Insert(&platform.ServiceBinding{Resource: id, Credentials: map[string]any{"password": secret}}); err != nil {
					return err
				}
				return tx.SetEnvGroup(platform.EnvGroup{Name: "x", Var: map[string]string{"TOKEN": secret}})
			})
			if err == nil {
				_, _, err = platformdb.New(d).Secret(ctx, "x", func() ([]byte, error) { return []byte(secret), nil })
			}
			if err == nil {
				err = platformdb.New(d).Certificates().WriteFile(ctx, "x", []byte(secret))
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range platformdb.SealedColumns {
				var text string
				err := d.View(ctx, func(tx *db.Tx) error {
					return tx.QueryRow("SELECT " + c.Column + " FROM " + c.Table).Scan(&text)
				})
				if err != nil || !strings.HasPrefix(text, "s1.") {
					t.Errorf("%s.%s is %q, %v", c.Table, c.Column, text, err)
				}
			}
			if n, err := openWith(t, address, newKey+"\n"+oldKey).Reseal(ctx, platformdb.SealedColumns); err != nil ||
				n != len(platformdb.SealedColumns) {
				t.Fatalf("sealed %d anew, error %v", n, err)
			}
			err = platformdb.New(openWith(t, address, newKey)).View(ctx, func(tx platform.Tx) error {
				a, err := tx.Apps().Get("x")
				if err != nil {
					return err
				}
				p, err := tx.Packages().Get("x")
				if err != nil {
					return err
				}
				j, err := tx.Jobs().Get("x")
				if err != nil {
					return err
				}
				g, err := tx.EnvGroup("x")
				if a.Env["TOKEN"] != secret || p.Password != secret || string(j.Payload) != secret || g.Var["TOKEN"] != secret {
					t.Errorf("got %v, %q, %q, %v", a.Env, p.Password, j.Payload, g.Var)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
			err = platformdb.New(d).View(ctx, func(tx platform.Tx) error { _, err := tx.Apps().Get("x"); return err })
			if err == nil || fault.Is(err, fault.NotFound) {
				t.Errorf("the old key still opens it: %v", err)
			}
		})
	}
}

func openWith(t *testing.T, address, keys string) *db.DB {
	t.Helper()
	ring, err := seal.Parse(keys)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), db.Options{URL: address, Keys: ring})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
