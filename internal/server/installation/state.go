package installation

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/server/backup"
	"ingot/internal/server/databases"
	"ingot/internal/server/steps"
)

// BackupState is what is known about the last backup: DIR/backup.json, or a row of the
// database that several servers share.
type BackupState struct {
	// Attempted is when the last backup began, and Failure why it failed.
	Attempted time.Time `json:"attempted"`
	Failure   string    `json:"failure,omitempty"`
	Target    string    `json:"target"`
	// The rest is about the last one that was written. Finished is nil if there is none.
	ID       string     `json:"id,omitempty"`
	Started  time.Time  `json:"started"`
	Finished *time.Time `json:"finished,omitempty"`
	Size     int64      `json:"size"`
	Added    int64      `json:"added"`
	BlobSize int64      `json:"blob_size"`
	Blobs    int        `json:"blobs"`
	Missing  int        `json:"missing,omitempty"`
	Services int        `json:"services"`
	// Unsaved is the number of service instances whose data could not be saved.
	Unsaved int `json:"unsaved_services,omitempty"`
	// Unsigned means that the server has no signing key.
	Unsigned bool `json:"unsigned,omitempty"`
}

// StateFile is the file of the state in a data directory.
const StateFile = "backup.json"

// Names of notes in the database: about the last backup, and the id of the backup that the
// database was restored from.
const (
	noteLast     = "last"
	noteRestored = "restored"
)

// record stores the state, with the last success if this one failed.
func (in *source) record(ctx context.Context, state BackupState) error {
	state.Started = state.Attempted
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if state.Finished == nil {
		if before, err := in.readState(ctx, in.DataDir, in.postgres); err == nil {
			before.Attempted, before.Failure = state.Attempted, state.Failure
			state = before
		}
	}
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	if in.postgres != nil {
		return in.postgres.Update(ctx, func(tx *db.Tx) error { return in.SetNote(tx, noteLast, string(text)) })
	}
	return backup.WriteFile(filepath.Join(in.DataDir, StateFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

const recordTimeout = 10 * time.Second

// readState returns the state, which is zero if there was no backup yet.
func (p Parts) readState(ctx context.Context, dataDir string, postgres *db.DB) (state BackupState, err error) {
	var text string
	if postgres != nil {
		text, err = db.Within(ctx, postgres.View, func(tx *db.Tx) (string, error) { return p.Note(tx, noteLast) })
	} else {
		var b []byte
		b, err = os.ReadFile(filepath.Join(dataDir, StateFile))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		text = string(b)
	}
	if err != nil || text == "" {
		return state, err
	}
	err = json.Unmarshal([]byte(text), &state)
	return state, err
}

// Last returns what is known about the last backup of a server. It is zero if there
// was none.
func (p Parts) Last(ctx context.Context, dataDir, databaseURL string, log *slog.Logger) (BackupState, error) {
	if !databases.IsPostgres(databaseURL) {
		if err := datadir.Readable(dataDir); err != nil {
			return BackupState{}, err
		}
		return p.readState(ctx, dataDir, nil)
	}
	var s steps.Stack
	defer s.Unwind()
	d, err := s.OpenDB(ctx, db.Options{URL: databaseURL, Log: log})
	if err != nil {
		return BackupState{}, err
	}
	return p.readState(ctx, "", d)
}

// LastOf is Last for a server that has opened its database.
func (p Parts) LastOf(ctx context.Context, dataDir string, d *db.DB) (BackupState, error) {
	if d.Dialect() != db.Postgres {
		d = nil
	}
	return p.readState(ctx, dataDir, d)
}
