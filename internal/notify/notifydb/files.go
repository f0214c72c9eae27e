package notifydb

import (
	"cmp"
	"context"
	"slices"
	"time"

	"ingot/internal/base/db"
	"ingot/internal/base/fault"
	"ingot/internal/notify"
)

const (
	fileColumns = "client_id, id, kind, size, created, used"
	// fileOverhead is what a file takes in addition to its content.
	fileOverhead = 512
	// filesAtOnce limits the files that one transaction deletes.
	filesAtOnce = 50
)

func scanFile(row db.Scanner) (f notify.File, err error) {
	err = row.Scan(&f.ClientID, &f.ID, &f.Kind, &f.Size, moment{&f.Created}, moment{&f.Used})
	return f, err
}

// PutFile implements notify.Store.
func (s *Store) PutFile(ctx context.Context, f notify.File, content []byte) (known bool, err error) {
	if err := allStorable(f.ClientID, f.ID, f.Kind); err != nil {
		return false, err
	}
	now := db.Nanos(s.now())
	err = s.lock(ctx, func(tx *db.Tx) (err error) {
		known, err = useFile(tx, f.ClientID, f.ID, now)
		return err
	})
	if err != nil || known {
		return known, err
	}
	err = s.storing(ctx, f.ClientID, int64(len(content))+fileOverhead, func() (bool, error) {
		err := s.lock(ctx, func(tx *db.Tx) error {
			n, err := tx.Exec(insert("notify_files", fileColumns)+" ON CONFLICT (client_id, id) DO NOTHING", f.ClientID, f.ID,
				f.Kind, len(content), now, now)
			if err != nil {
				return err
			}
			if known = n == 0; known { // another request was faster
				_, err = useFile(tx, f.ClientID, f.ID, now)
				return err
			}
			_, err = tx.Exec(insert("notify_file_data", "client_id, id, content"), f.ClientID, f.ID, db.Raw{V: content})
			return err
		})
		return err == nil && !known, err
	})
	return known, err
}

// useFile renews a file, which keeps Purge from deleting it, and reports whether there is one.
func useFile(tx *db.Tx, client, id string, now int64) (bool, error) {
	n, err := tx.Exec("UPDATE notify_files SET used = ? WHERE client_id = ? AND id = ?", now, client, id)
	return n > 0, err
}

// File implements notify.Store.
func (s *Store) File(ctx context.Context, clientID, id string) (notify.File, error) {
	return read(ctx, s, func(tx *db.Tx) (notify.File, error) {
		return one(tx, scanFile, "SELECT "+fileColumns+" FROM notify_files WHERE client_id = ? AND id = ?", clientID, id)
	})
}

// FileContent implements notify.Store.
func (s *Store) FileContent(ctx context.Context, clientID, id string) ([]byte, error) {
	return read(ctx, s, func(tx *db.Tx) ([]byte, error) {
		return one(tx, func(row db.Scanner) (content []byte, err error) {
			err = row.Scan(&content)
			return content, err
		}, "SELECT content FROM notify_file_data WHERE client_id = ? AND id = ?", clientID, id)
	})
}

// DeleteFile implements notify.Store.
func (s *Store) DeleteFile(ctx context.Context, clientID, id string) error {
	return s.freeing(ctx, func(tx *db.Tx) ([]freed, error) {
		less, deleted, err := deleteUnused(tx, clientID, id)
		if err == nil && !deleted {
			err = notify.ErrConflict
		}
		return less, err
	})
}

// deleteUnused deletes a file unless a send has it. The file is locked first: a send that is accepted at the same time
// either has it then, or is refused.
func deleteUnused(tx *db.Tx, client, id string) (less []freed, deleted bool, err error) {
	f, err := one(tx, scanFile, "SELECT "+fileColumns+" FROM notify_files WHERE client_id = ? AND id = ?"+
		forUpdate(tx.Dialect()), client, id)
	if err != nil {
		return nil, false, err
	}
	uses, err := db.All(tx, scanNumber, "SELECT send FROM notify_file_uses WHERE client_id = ? AND id = ? LIMIT 1", client,
		id)
	if err != nil || len(uses) > 0 {
		return nil, false, err
	}
	if _, err := tx.Exec("DELETE FROM notify_files WHERE client_id = ? AND id = ?", client, id); err != nil {
		return nil, false, err
	}
	if _, err := tx.Exec("DELETE FROM notify_file_data WHERE client_id = ? AND id = ?", client, id); err != nil {
		return nil, false, err
	}
	return []freed{{client, f.Size + fileOverhead}}, true, nil
}

// fileKey identifies a file.
type fileKey struct{ client, id string }

func compareFiles(a, b fileKey) int {
	return cmp.Or(cmp.Compare(a.client, b.client), cmp.Compare(a.id, b.id))
}

// filesOf returns the files of a send, each once.
func filesOf(s *notify.Send) []fileKey {
	var all []fileKey
	for _, a := range s.Attachments {
		all = append(all, fileKey{s.ClientID, a.ID})
	}
	slices.SortFunc(all, compareFiles)
	return slices.Compact(all)
}

// admitFiles renews the files of a group of sends, and refuses those sends whose files were deleted.
func admitFiles(tx *db.Tx, batch []*acceptance, now time.Time) error {
	var all []fileKey
	for _, a := range batch {
		if a.err == nil && !a.replayed {
			all = append(all, filesOf(&a.Send)...)
		}
	}
	// All processes change the rows in the same order, to avoid deadlocks.
	slices.SortFunc(all, compareFiles)
	gone := map[fileKey]bool{}
	for _, k := range slices.Compact(all) {
		known, err := useFile(tx, k.client, k.id, db.Nanos(now))
		if err != nil {
			return err
		}
		if !known {
			gone[k] = true
		}
	}
	if len(gone) == 0 {
		return nil
	}
	for _, a := range batch {
		if a.err != nil || a.replayed {
			continue
		}
		for _, k := range filesOf(&a.Send) {
			if !gone[k] {
				continue
			}
			if err := refuse(tx, batch, a, fault.New(fault.Unprocessable,
				"The attachment with the id %s was deleted meanwhile: upload it again. Nothing was sent", k.id)); err != nil {
				return err
			}
			break
		}
	}
	return nil
}

var newFileUses = newInsertion("notify_file_uses", "client_id, id, send", "")

// storeFileUses records which files the sends of a group have.
func storeFileUses(tx *db.Tx, batch []*acceptance) error {
	var args []any
	for _, a := range batch {
		if a.err != nil || a.replayed {
			continue
		}
		for _, k := range filesOf(&a.Send) {
			args = append(args, k.client, k.id, a.Number)
		}
	}
	return newFileUses.all(tx, args)
}

// eraseFiles removes the files of a send whose content is erased, unless other sends have them.
func eraseFiles(tx *db.Tx, send *notify.Send) ([]freed, error) {
	if _, err := tx.Exec("DELETE FROM notify_file_uses WHERE send = ?", send.Number); err != nil {
		return nil, err
	}
	var less []freed
	for _, k := range filesOf(send) {
		more, _, err := deleteUnused(tx, k.client, k.id)
		if isNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		less = append(less, more...)
	}
	return less, nil
}

// purgeFiles deletes files that no send has and that were not used for some time.
func (s *Store) purgeFiles(ctx context.Context) error {
	before := db.Nanos(s.now().Add(-notify.FilesKept))
	for {
		n := 0
		err := s.freeing(ctx, func(tx *db.Tx) ([]freed, error) {
			// The second condition on used is for files that are used while this waits for them.
			gone, err := db.All(tx, scanFile, `DELETE FROM notify_files WHERE used < ? AND (client_id, id) IN
				(SELECT client_id, id FROM notify_files AS f WHERE used < ? AND NOT EXISTS
					(SELECT 1 FROM notify_file_uses AS u WHERE u.client_id = f.client_id AND u.id = f.id)
				ORDER BY used LIMIT ?) RETURNING `+fileColumns, before, before, filesAtOnce)
			if err != nil {
				return nil, err
			}
			n = len(gone)
			var less []freed
			for _, f := range gone {
				if _, err := tx.Exec("DELETE FROM notify_file_data WHERE client_id = ? AND id = ?", f.ClientID,
					f.ID); err != nil {
					return nil, err
				}
				less = append(less, freed{f.ClientID, f.Size + fileOverhead})
			}
			return less, nil
		})
		if err != nil || n < filesAtOnce {
			return err
		}
	}
}
