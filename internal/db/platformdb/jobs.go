package platformdb

import (
	"context"
	"time"

	"ingot/internal/db"
)

// Job is a row of the jobs.
type Job struct {
	GUID      string
	Operation string
	State     string
	Errors    []JobError
	Warnings  []string
	Created   time.Time
	Updated   time.Time
}

// JobError is one reason why a job failed.
type JobError struct {
	Code   int    `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}

func insertJob(tx *db.Tx, j *Job) error {
	_, err := tx.Exec(`INSERT INTO platform_jobs (guid, operation, state, errors, warnings, created_at, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		j.GUID, j.Operation, j.State, db.JSON[[]JobError]{V: j.Errors}, db.JSON[[]string]{V: j.Warnings}, db.Nanos(j.Created), db.Nanos(j.Updated))
	return err
}

// Job fails with fault.NotFound.
func (s *Store) Job(ctx context.Context, guid string) (*Job, error) {
	j := &Job{GUID: guid}
	err := s.db.View(ctx, func(tx *db.Tx) error {
		var errs db.JSON[[]JobError]
		var warnings db.JSON[[]string]
		var created, updated int64
		err := tx.QueryRow(`SELECT operation, state, errors, warnings, created_at, updated_at FROM platform_jobs WHERE guid = ?`, guid).
			Scan(&j.Operation, &j.State, &errs, &warnings, &created, &updated)
		j.Errors, j.Warnings, j.Created, j.Updated = errs.V, warnings.V, db.Time(created), db.Time(updated)
		return err
	})
	if missing(err) {
		return nil, errNotFound(err)
	}
	if err != nil {
		return nil, err
	}
	return j, nil
}

// PurgeJobs removes finished jobs that have not changed since before.
func (s *Store) PurgeJobs(ctx context.Context, before time.Time) error {
	return s.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`DELETE FROM platform_jobs WHERE state IN ('COMPLETE', 'FAILED') AND updated_at < ?`, db.Nanos(before))
		return err
	})
}
