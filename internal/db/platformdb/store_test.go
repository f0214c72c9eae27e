package platformdb_test

import (
	"reflect"
	"testing"
	"time"

	"ingot/internal/db"
	"ingot/internal/db/dbtest"
	"ingot/internal/db/platformdb"
	"ingot/internal/fault"
)

var moment = time.Date(2026, 3, 1, 12, 30, 45, 123456789, time.UTC)

func open(t *testing.T, d *db.DB) *platformdb.Store {
	t.Helper()
	if err := d.Migrate(t.Context(), platformdb.Migrations); err != nil {
		t.Fatal(err)
	}
	return platformdb.New(d)
}

func TestUsers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, ctx := open(t, d), t.Context()
		u := &platformdb.User{GUID: "anna ' \" é", Created: moment, Updated: moment.Add(time.Nanosecond)}
		if err := s.CreateUser(ctx, u); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateUser(ctx, u); !fault.Is(err, fault.Conflict) {
			t.Errorf("create again: %v", err)
		}
		if got, err := s.User(ctx, u.GUID); err != nil || *got != *u {
			t.Errorf("got %+v, %v, want %+v", got, err, u)
		}
		if err := s.CreateUser(ctx, &platformdb.User{GUID: "a\x00b"}); !fault.Is(err, fault.Unprocessable) {
			t.Errorf("create with a NUL: %v", err)
		}
		for _, guid := range []string{"", "none", "a\x00b", "\xff"} {
			if _, err := s.User(ctx, guid); !fault.Is(err, fault.NotFound) {
				t.Errorf("%q: %v", guid, err)
			}
			if err := s.DeleteUser(ctx, guid, &platformdb.Job{GUID: "job"}); !fault.Is(err, fault.NotFound) {
				t.Errorf("delete %q: %v", guid, err)
			}
		}
		if _, err := s.Job(ctx, "job"); !fault.Is(err, fault.NotFound) {
			t.Errorf("a job of a delete that failed: %v", err)
		}
	})
}

func TestJobs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d *db.DB) {
		s, ctx := open(t, d), t.Context()
		job := &platformdb.Job{
			GUID: "job", Operation: "user.delete", State: "COMPLETE", Created: moment, Updated: moment,
			Errors: []platformdb.JobError{{Code: 1, Title: "CF-X", Detail: "y"}}, Warnings: []string{"slow"},
		}
		if err := s.CreateUser(ctx, &platformdb.User{GUID: "anna"}); err != nil {
			t.Fatal(err)
		}
		if err := s.DeleteUser(ctx, "anna", job); err != nil {
			t.Fatal(err)
		}
		if _, err := s.User(ctx, "anna"); !fault.Is(err, fault.NotFound) {
			t.Errorf("after the delete: %v", err)
		}
		if got, err := s.Job(ctx, "job"); err != nil || !reflect.DeepEqual(got, job) {
			t.Errorf("got %+v, %v", got, err)
		}
		if err := s.PurgeJobs(ctx, moment); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Job(ctx, "job"); err != nil {
			t.Errorf("purged too early: %v", err)
		}
		if err := s.PurgeJobs(ctx, moment.Add(1)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Job(ctx, "job"); !fault.Is(err, fault.NotFound) {
			t.Errorf("not purged: %v", err)
		}
	})
}
