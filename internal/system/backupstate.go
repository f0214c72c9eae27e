package system

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

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/base/datadir"
	"ingot/internal/base/db"
	"ingot/internal/platform/platformdb"
	"ingot/internal/server/backup"
	"ingot/internal/server/health"
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

const backupStateFile = "backup.json"

// record stores the state, with the last success if this one failed.
func (in *installation) record(ctx context.Context, state BackupState) error {
	state.Started = state.Attempted
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	if state.Finished == nil {
		if before, err := readBackupState(ctx, in.DataDir, in.postgres); err == nil {
			before.Attempted, before.Failure = state.Attempted, state.Failure
			state = before
		}
	}
	text, err := json.MarshalIndent(state, "", "  ")
	if err != nil {
		return err
	}
	if in.postgres != nil {
		return in.postgres.Update(ctx, func(tx *db.Tx) error { return platformdb.SetBackupNote(tx, platformdb.LastBackup, string(text)) })
	}
	return backup.WriteFile(filepath.Join(in.DataDir, backupStateFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}

const recordTimeout = 10 * time.Second

// readBackupState returns the state, which is zero if there was no backup yet.
func readBackupState(ctx context.Context, dataDir string, postgres *db.DB) (state BackupState, err error) {
	var text string
	if postgres != nil {
		err = postgres.View(ctx, func(tx *db.Tx) (err error) {
			text, err = platformdb.BackupNote(tx, platformdb.LastBackup)
			return err
		})
	} else {
		var b []byte
		b, err = os.ReadFile(filepath.Join(dataDir, backupStateFile))
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

// LastBackup returns what is known about the last backup of a server. It is zero if there
// was none.
func LastBackup(ctx context.Context, dataDir, databaseURL string, log *slog.Logger) (BackupState, error) {
	if !isPostgres(databaseURL) {
		if err := datadir.Readable(dataDir); err != nil {
			return BackupState{}, err
		}
		return readBackupState(ctx, dataDir, nil)
	}
	var s steps
	defer s.unwind()
	d, err := s.openDB(ctx, db.Options{URL: databaseURL, Log: log})
	if err != nil {
		return BackupState{}, err
	}
	return readBackupState(ctx, "", d)
}

// backupMetrics shows the last backup to monitoring.
type backupMetrics struct {
	read func(context.Context) (BackupState, error)
}

var (
	backupSuccess = prometheus.NewDesc("ingot_backup_last_success_timestamp_seconds", "When the last backup that was written was finished, also one that lacks the data of a service instance, as Unix time; absent if there is none.", nil, nil)
	backupTook    = prometheus.NewDesc("ingot_backup_last_run_seconds", "How long the last backup that succeeded took.", nil, nil)
	backupSize    = prometheus.NewDesc("ingot_backup_last_size_bytes", "Size of the archive of the last backup that succeeded.", nil, nil)
	backupBlobs   = prometheus.NewDesc("ingot_backup_last_blob_bytes", "Size of the packages, droplets and buildpacks in the last backup that succeeded.", nil, nil)
	backupAttempt = prometheus.NewDesc("ingot_backup_last_attempt_timestamp_seconds", "When the last backup began, as Unix time; absent if there was none.", nil, nil)
	backupOK      = prometheus.NewDesc("ingot_backup_last_attempt_success", "Whether the last backup succeeded and lacks nothing: 1 or 0; absent if there was none.", nil, nil)
)

// Describe implements prometheus.Collector.
func (m backupMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{backupSuccess, backupTook, backupSize, backupBlobs, backupAttempt, backupOK} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (m backupMetrics) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), pingTime)
	defer cancel()
	s, err := m.read(ctx)
	if err != nil || s.Attempted.IsZero() {
		return // absent says it
	}
	show := func(d *prometheus.Desc, v float64) { to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v) }
	ok := 1.0
	if s.Failure != "" {
		ok = 0
	}
	show(backupAttempt, float64(s.Attempted.Unix()))
	show(backupOK, ok)
	if s.Finished != nil {
		show(backupSuccess, float64(s.Finished.Unix()))
		show(backupTook, s.Finished.Sub(s.Started).Seconds())
		show(backupSize, float64(s.Size))
		show(backupBlobs, float64(s.BlobSize))
	}
}

// showBackups registers the metrics of backups.
func (s *System) showBackups(b *frontend, d *db.DB) {
	b.registry.MustRegister(health.Recovering{Collector: backupMetrics{func(ctx context.Context) (BackupState, error) { return s.lastBackup(ctx, d) }}})
}

// lastBackup returns what is known about the last backup of this server.
func (s *System) lastBackup(ctx context.Context, d *db.DB) (BackupState, error) {
	if d.Dialect() != db.Postgres {
		d = nil
	}
	return readBackupState(ctx, s.config.DataDir, d)
}
