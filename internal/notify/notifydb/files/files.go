package files

import (
	"cmp"
	"context"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/notify"
	"ingot/internal/notify/notifydb/query"
	"ingot/internal/notify/notifydb/usage"
)

const (
	fileColumns = "client_id, id, kind, size, created, used"
	// fileOverhead is what a file takes in addition to its content.
	fileOverhead = 512
	// filesAtOnce limits the files that one transaction deletes.
	filesAtOnce = 50
)

// Files implements the part of notify.Store that is about files. It is safe for concurrent use.
type Files struct {
	db    *db.DB
	usage *usage.Usage
	now   func() time.Time
}

// New returns the files in a database with the tables of notifydb.
func New(d *db.DB, u *usage.Usage, now func() time.Time) *Files {
	return &Files{db: d, usage: u, now: now}
}

func scanFile(row db.Scanner) (f notify.File, err error) {
	err = row.Scan(&f.ClientID, &f.ID, &f.Kind, &f.Size, query.Moment(&f.Created), query.Moment(&f.Used))
	return f, err
}

// PutFile implements notify.Store.
func (s *Files) PutFile(ctx context.Context, f notify.File, content []byte) (known bool, err error) {
	if err := query.AllStorable(f.ClientID, f.ID, f.Kind); err != nil {
		return false, err
	}
	now := db.Nanos(s.now())
	err = query.Lock(ctx, s.db, func(tx *db.Tx) (err error) {
		known, err = Use(tx, f.ClientID, f.ID, now)
		return err
	})
	if err != nil || known {
		return known, err
	}
	err = s.usage.Storing(ctx, f.ClientID, int64(len(content))+fileOverhead, func() (bool, error) {
		err := query.Lock(ctx, s.db, func(tx *db.Tx) error {
			n, err := tx.Exec(query.Insert("notify_files", fileColumns)+" ON CONFLICT (client_id, id) DO NOTHING",
				f.ClientID, f.ID, f.Kind, len(content), now, now)
			if err != nil {
				return err
			}
			if known = n == 0; known { // another request was faster
				_, err = Use(tx, f.ClientID, f.ID, now)
				return err
			}
			_, err = tx.Exec(query.Insert("notify_file_data", "client_id, id, content"), f.ClientID, f.ID, db.Raw{V: content})
			return err
		})
		return err == nil && !known, err
	})
	return known, err
}

// Use renews a file, which keeps Purge from deleting it, and reports whether there is one.
func Use(tx *db.Tx, client, id string, now int64) (bool, error) {
	n, err := tx.Exec("UPDATE notify_files SET used = ? WHERE client_id = ? AND id = ?", now, client, id)
	return n > 0, err
}

// File implements notify.Store.
func (s *Files) File(ctx context.Context, clientID, id string) (notify.File, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) (notify.File, error) {
		return query.One(tx, scanFile, "SELECT "+fileColumns+" FROM notify_files WHERE client_id = ? AND id = ?",
			clientID, id)
	})
}

// FileContent implements notify.Store.
func (s *Files) FileContent(ctx context.Context, clientID, id string) ([]byte, error) {
	return query.Read(ctx, s.db, func(tx *db.Tx) ([]byte, error) {
		return query.One(tx, func(row db.Scanner) (content []byte, err error) {
			err = row.Scan(&content)
			return content, err
		}, "SELECT content FROM notify_file_data WHERE client_id = ? AND id = ?", clientID, id)
	})
}

// DeleteFile implements notify.Store.
func (s *Files) DeleteFile(ctx context.Context, clientID, id string) error {
	return s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
		less, deleted, err := deleteUnused(tx, clientID, id)
		if err == nil && !deleted {
			err = notify.ErrConflict
		}
		return less, err
	})
}

// deleteUnused deletes a file unless a send has it. The file is locked first: a send that is accepted at the same time
// either has it then, or is refused.
func deleteUnused(tx *db.Tx, client, id string) (less []usage.Freed, deleted bool, err error) {
	f, err := query.One(tx, scanFile, "SELECT "+fileColumns+" FROM notify_files WHERE client_id = ? AND id = ?"+
		query.ForUpdate(tx.Dialect()), client, id)
	if err != nil {
		return nil, false, err
	}
	uses, err := db.All(tx, query.ScanNumber, "SELECT send FROM notify_file_uses WHERE client_id = ? AND id = ? LIMIT 1",
		client, id)
	if err != nil || len(uses) > 0 {
		return nil, false, err
	}
	if _, err := tx.Exec("DELETE FROM notify_files WHERE client_id = ? AND id = ?", client, id); err != nil {
		return nil, false, err
	}
	if _, err := tx.Exec("DELETE FROM notify_file_data WHERE client_id = ? AND id = ?", client, id); err != nil {
		return nil, false, err
	}
	return []usage.Freed{{Client: client, Bytes: f.Size + fileOverhead}}, true, nil
}

// Key identifies a file.
type Key struct{ Client, ID string }

// Compare orders files.
func Compare(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Client, b.Client), cmp.Compare(a.ID, b.ID))
}

// Of returns the files of a send, each once.
func Of(s *notify.Send) []Key {
	var all []Key
	for _, a := range s.Attachments {
		all = append(all, Key{s.ClientID, a.ID})
	}
	slices.SortFunc(all, Compare)
	return slices.Compact(all)
}

// NewUses records which sends have files: client, id, send.
var NewUses = query.NewInsertion("notify_file_uses", "client_id, id, send", "")

// Erase removes the files of a send whose content is erased, unless other sends have them.
func Erase(tx *db.Tx, send *notify.Send) ([]usage.Freed, error) {
	if _, err := tx.Exec("DELETE FROM notify_file_uses WHERE send = ?", send.Number); err != nil {
		return nil, err
	}
	var less []usage.Freed
	for _, k := range Of(send) {
		more, _, err := deleteUnused(tx, k.Client, k.ID)
		if query.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		less = append(less, more...)
	}
	return less, nil
}

// PurgeFiles deletes files that no send has and that were not used for some time.
func (s *Files) PurgeFiles(ctx context.Context) error {
	before := db.Nanos(s.now().Add(-notify.FilesKept))
	for {
		n := 0
		err := s.usage.Freeing(ctx, func(tx *db.Tx) ([]usage.Freed, error) {
			// The second condition on used is for files that are used while this waits for them.
			gone, err := db.All(tx, scanFile, `DELETE FROM notify_files WHERE used < ? AND (client_id, id) IN
				(SELECT client_id, id FROM notify_files AS f WHERE used < ? AND NOT EXISTS
					(SELECT 1 FROM notify_file_uses AS u WHERE u.client_id = f.client_id AND u.id = f.id)
				ORDER BY used LIMIT ?) RETURNING `+fileColumns, before, before, filesAtOnce)
			if err != nil {
				return nil, err
			}
			n = len(gone)
			var less []usage.Freed
			for _, f := range gone {
				if _, err := tx.Exec("DELETE FROM notify_file_data WHERE client_id = ? AND id = ?", f.ClientID,
					f.ID); err != nil {
					return nil, err
				}
				less = append(less, usage.Freed{Client: f.ClientID, Bytes: f.Size + fileOverhead})
			}
			return less, nil
		})
		if err != nil || n < filesAtOnce {
			return err
		}
	}
}
