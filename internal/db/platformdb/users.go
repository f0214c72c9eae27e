package platformdb

import (
	"context"
	"errors"
	"time"

	"ingot/internal/db"
	"ingot/internal/fault"
)

// User is a row of the users.
type User struct {
	GUID    string
	Created time.Time
	Updated time.Time
}

// CreateUser fails with fault.Conflict when the guid is taken.
func (s *Store) CreateUser(ctx context.Context, u *User) error {
	err := s.db.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec(`INSERT INTO platform_users (guid, created_at, updated_at) VALUES (?, ?, ?)`,
			u.GUID, db.Nanos(u.Created), db.Nanos(u.Updated))
		return err
	})
	switch {
	case db.IsConflict(err):
		return fault.Wrap(err, fault.Conflict, "the guid is taken")
	case errors.Is(err, db.ErrText):
		return fault.Wrap(err, fault.Unprocessable, "guid must be text without NUL characters")
	}
	return err
}

// User fails with fault.NotFound.
func (s *Store) User(ctx context.Context, guid string) (*User, error) {
	u := &User{GUID: guid}
	err := s.db.View(ctx, func(tx *db.Tx) error {
		var created, updated int64
		err := tx.QueryRow(`SELECT created_at, updated_at FROM platform_users WHERE guid = ?`, guid).Scan(&created, &updated)
		u.Created, u.Updated = db.Time(created), db.Time(updated)
		return err
	})
	if missing(err) {
		return nil, errNotFound(err)
	}
	if err != nil {
		return nil, err
	}
	return u, nil
}

// DeleteUser removes the user and stores the job that tells of it, both or
// neither. It fails with fault.NotFound.
func (s *Store) DeleteUser(ctx context.Context, guid string, job *Job) error {
	err := s.db.Update(ctx, func(tx *db.Tx) error {
		n, err := tx.Exec(`DELETE FROM platform_users WHERE guid = ?`, guid)
		if err != nil {
			return err
		}
		if n == 0 {
			return db.ErrNotFound
		}
		return insertJob(tx, job)
	})
	if missing(err) {
		return errNotFound(err)
	}
	return err
}

// missing reports that there is no such row: none was found, or none can be
// because the key cannot be stored.
func missing(err error) bool { return errors.Is(err, db.ErrNotFound) || errors.Is(err, db.ErrText) }
