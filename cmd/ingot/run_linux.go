package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/datadir"
	"ingot/internal/server/memlimit"
	"ingot/internal/system"
)

// serverCommand runs a command of the server.
func (p *process) serverCommand(o *options, command string) error {
	if do, ok := p.commands(o)[command]; ok {
		return do()
	}
	return fmt.Errorf("unknown command %q", command)
}

// commands are the functions of the server's commands with their flags.
func (p *process) commands(o *options) map[string]func() error {
	return map[string]func() error{
		"up":                     func() error { return p.up(o.Up) },
		"reload":                 func() error { return p.reload(o.Reload) },
		"down":                   func() error { return p.down(o.Down) },
		"notifications":          func() error { return p.notifications(o.Notifications) },
		"keys rotate-encryption": func() error { return p.rotate(o.Keys.Rotate.DataDir) },
		"keys rotate-agents": func() error {
			of := o.Keys.RotateAgents
			return p.rotateAgents(of.DataDir, of.DatabaseURL, of.logOptions)
		},
		"blob copy":          func() error { return p.copyBlobs(o.Blob.Copy) },
		"db migrate":         func() error { return p.migrateDB(o.DB.Migrate) },
		"db copy":            func() error { return p.copyDB(o.DB.Copy) },
		"backup":             func() error { return p.backup(o.Backup) },
		"backup keygen":      func() error { return p.backupKeygen(o.Backup.Keygen) },
		"backup signing-key": func() error { return p.backupSigningKey(o.Backup.Signing) },
		"backup list":        func() error { return p.listBackups(o.Backup.List) },
		"backup verify":      func() error { return p.verifyBackup(o.Backup.Verify) },
		"backup prune":       func() error { return p.pruneBackups(o.Backup.Prune) },
		"backup status":      func() error { return p.backupStatus(o.Backup.Status) },
		"restore":            func() error { return p.restore(o.Restore) },
		"support-bundle":     func() error { return p.supportBundle(o.SupportBundle) },
		"demo":               func() error { return p.demo(o.Demo) },
	}
}

// up runs the server until it is asked to stop.
func (p *process) up(o upOptions) error {
	c, err := p.config(o)
	if err != nil {
		return &usageError{err.Error(), "up"}
	}
	if c.NotRoot, err = p.becomeRoot(c); err != nil {
		return err
	}
	warnings, err := p.checkHost()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		c.Log.Warn(w)
	}
	return p.succeed(c, o.Replace)
}

// serve runs a server until it is asked to stop; welcome is called when it is
// ready.
func (p *process) serve(s background.Service, log *slog.Logger, welcome func(context.Context)) error {
	if err := keepDescriptors(); err != nil {
		log.Warn(err.Error())
	}
	slog.SetDefault(log) // for libraries that take no logger
	background.OnPanic(func(e *background.PanicError) {
		log.Error("background job panicked; the server continues", "job", e.Name, "panic", fmt.Sprint(e.Value), "stack",
			string(e.Stack))
	})
	ctx, stop := p.untilAsked(log)
	defer stop()
	started := func() {}
	if p.getenv("GOMEMLIMIT") == "" && p.getenv("GOGC") == "" {
		var end func()
		started, end = memlimit.Keep(memlimit.Server)
		defer end()
	}
	if err := s.Start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to stop before it was ready
		}
		return err
	}
	started()
	welcome(ctx)
	defer releaseCode(log)()
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

// releaseAgain is when memory and code that only the first seconds of a server need are released, too.
const releaseAgain = 5 * time.Second

// releaseCode releases the pages of the program, now and once more, unless stop is called before.
func releaseCode(log *slog.Logger) (stop func()) {
	release := func() {
		if err := memlimit.ReleaseCode(); err != nil {
			log.Debug("pages of the program stay mapped: " + err.Error())
		}
	}
	release()
	again := background.AfterFunc("release memory", releaseAgain, func() {
		debug.FreeOSMemory() // what the start has left; it runs code, too
		release()
	})
	return func() { again.Stop() }
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
