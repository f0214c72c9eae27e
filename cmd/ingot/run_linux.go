package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/server/memlimit"
	"ingot/internal/system"
)

// serverCommand runs a command of the server.
func (p *process) serverCommand(o *options, command string) error {
	switch command {
	case "up":
		return p.up(o.Up)
	case "reload":
		return p.reload(o.Reload)
	case "down":
		return p.down(o.Down)
	case "notifications":
		return p.notifications(o.Notifications)
	case "keys rotate-encryption":
		return p.rotate(o.Keys.Rotate.DataDir)
	case "keys rotate-agents":
		return p.rotateAgents(o.Keys.RotateAgents.DataDir, o.Keys.RotateAgents.DatabaseURL, o.Keys.RotateAgents.logOptions)
	case "blob copy":
		return p.copyBlobs(o.Blob.Copy)
	case "db migrate":
		return p.migrateDB(o.DB.Migrate)
	case "db copy":
		return p.copyDB(o.DB.Copy)
	case "backup":
		return p.backup(o.Backup)
	case "backup keygen":
		return p.backupKeygen(o.Backup.Keygen)
	case "backup signing-key":
		return p.backupSigningKey(o.Backup.Signing)
	case "backup list":
		return p.listBackups(o.Backup.List)
	case "backup verify":
		return p.verifyBackup(o.Backup.Verify)
	case "backup prune":
		return p.pruneBackups(o.Backup.Prune)
	case "backup status":
		return p.backupStatus(o.Backup.Status)
	case "restore":
		return p.restore(o.Restore)
	case "demo":
		return p.demo(o.Demo)
	}
	return fmt.Errorf("unknown command %q", command)
}

// up runs the server until it is asked to stop.
func (p *process) up(o upOptions) error {
	c, err := p.config(o)
	if err != nil {
		return &usageError{err.Error(), "up"}
	}
	return p.succeed(c, o.Replace)
}

// serve runs a server until it is asked to stop; welcome is called when it is
// ready.
func (p *process) serve(s background.Service, log *slog.Logger, welcome func()) error {
	if err := keepDescriptors(); err != nil {
		log.Warn(err.Error())
	}
	slog.SetDefault(log) // for libraries without a logger of their own
	background.OnPanic(func(e *background.PanicError) {
		log.Error("background job panicked; the server continues", "job", e.Name, "panic", fmt.Sprint(e.Value), "stack",
			string(e.Stack))
	})
	ctx, stop := p.untilAsked(log)
	defer stop()
	if p.getenv("GOMEMLIMIT") == "" && p.getenv("GOGC") == "" {
		defer memlimit.Keep(memlimit.Server)()
	}
	if err := s.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it was ready
		}
		return err
	}
	welcome()
	if err := memlimit.ReleaseCode(); err != nil {
		log.Debug("pages of the program stay mapped: " + err.Error())
	}
	replaced := make(<-chan struct{})
	follows, ok := s.(interface {
		Over() <-chan struct{}
		Err() error
	})
	if ok {
		replaced = follows.Over()
	}
	select {
	case <-ctx.Done():
		s.Stop()
		log.Info("stopped")
		return nil
	case <-replaced:
		s.Stop()
		return follows.Err()
	}
}

// untilAsked returns a context that is canceled by the first signal to stop. The
// second signal terminates the process.
func (p *process) untilAsked(log *slog.Logger) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	background.Go("signals", func() {
		for first := true; ; first = false {
			select {
			case sig := <-p.signals:
				if !first {
					p.exit(exitFailure)
					return
				}
				log.Info("stopping; a second signal terminates the server at once", "signal", sig.String())
				cancel()
			case <-done:
				return
			}
		}
	})
	return ctx, func() {
		cancel()
		close(done)
	}
}

// rotateAgents adds keys of agents.
func (p *process) rotateAgents(dataDir, databaseURL string, o logOptions) error {
	log, err := p.logger(o)
	if err != nil {
		return &usageError{err.Error(), "keys rotate-agents"}
	}
	ctx, stop := p.untilAsked(log)
	defer stop()
	if err := system.RotateAgentKeys(ctx, dataDir, databaseURL, p.getenv("INGOT_ENCRYPTION_KEY"), log); err != nil {
		return err
	}
	fmt.Fprintln(p.out, "New instances get new keys within a minute. Running instances keep the old ones: restart their "+
		"apps\n"+
		"with 'cf restart APP --strategy rolling'. The servers delete the old keys when no instance has them any more.")
	return nil
}

// rotate adds an encryption key.
func (p *process) rotate(dataDir string) error {
	if dataDir == "" {
		return &usageError{"--data-dir is required", "keys rotate-encryption"}
	}
	if p.getenv("INGOT_ENCRYPTION_KEY") != "" {
		return errors.New("INGOT_ENCRYPTION_KEY is set, so the keys come from there: put a new key in front of the old one " +
			"in that variable, separated by a comma")
	}
	if err := datadir.RotateKeys(dataDir); err != nil {
		return err
	}
	fmt.Fprintf(p.out, "A new encryption key is in front of the others in %s.\n"+
		"The next start of the server uses it and encrypts all secrets again; keep the old keys until its log says that "+
		"this is done.\n", dataDir)
	return nil
}
