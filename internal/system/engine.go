package system

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/engine/process"
)

// The values of --engine; with auto the server chooses.
const (
	engineAuto      = "auto"
	engineContainer = "container"
	engineProcess   = "process"
)

// engineFile is DIR/engine.json: which engine runs the apps of a data directory.
// The first start decides; later ones change it only when --engine names another.
const engineFile = "engine.json"

type engineChoice struct {
	Engine string    `json:"engine"`
	Chosen time.Time `json:"chosen"`
	Why    string    `json:"why"`
}

// engines opens the engines of a data directory.
type engines struct {
	dir       *dataDir
	container container.Options
	process   process.Options
	log       *slog.Logger
}

// openEngine returns the engine of --engine. auto means the engine that is recorded
// in the data directory; the first start runs a trial container, and logs why if
// that fails. sftp is the path of the sftp server in instances; empty if there is
// none.
func openEngine(ctx context.Context, d *dataDir, c Config) (e engine.Engine, sftp string, err error) {
	initProgram, sftpProgram := enginePrograms(c.Programs)
	if sftpProgram, err = local.ProgramPath(local.SFTPName, sftpProgram); err != nil {
		c.Log.Warn("sftp and scp work only with instances that have an sftp server of their own", "why", err)
		sftpProgram = ""
	}
	o := engines{
		dir: d, log: c.Log,
		container: container.Options{
			Root: d.file("containers"), Init: initProgram, SFTP: sftpProgram, Log: c.Log, Egress: true, Overcommit: c.MemoryOvercommit,
		},
		process: process.Options{Root: d.file("processes"), Init: initProgram, Log: c.Log, Overcommit: c.MemoryOvercommit},
	}
	e, err = o.open(ctx, c.Engine)
	if err != nil {
		return nil, "", err
	}
	if e.Describe().Name == engineContainer {
		return e, container.SFTPInside, nil
	}
	if sftp, err = d.shared(sftpProgram); err != nil {
		return nil, "", errors.Join(err, e.Close())
	}
	return e, sftp, nil
}

// open opens the engine of a kind, removes the instances of the other one, and
// records the choice.
func (o engines) open(ctx context.Context, kind string) (e engine.Engine, err error) {
	before, err := o.recorded()
	if err != nil {
		return nil, err
	}
	now := engineChoice{Engine: kind, Chosen: time.Now().UTC(), Why: "--engine " + kind}
	if kind == engineAuto {
		now.Engine, now.Why = before.Engine, before.Why
	}
	switch now.Engine {
	case engineContainer:
		e, err = o.openContainers(ctx, before.Engine == engineContainer)
	case engineProcess:
		e, err = o.openProcesses(before)
	default: // the first start decides
		e, now, err = o.decide(ctx)
	}
	if err != nil {
		return nil, err
	}
	if err := o.endOther(ctx, now.Engine); err != nil {
		return nil, errors.Join(err, e.Close())
	}
	if now.Engine != before.Engine || before.Chosen.IsZero() {
		if err := writeJSON(o.dir.file(engineFile), now, 0o600); err != nil {
			return nil, errors.Join(fmt.Errorf("record the engine: %w", err), e.Close())
		}
	}
	return e, nil
}

// recorded returns the choice of an earlier start; zero if there was none. For a
// data directory that is older than the file, it is the engine that has instances;
// if both have some, the one that isolates.
func (o engines) recorded() (engineChoice, error) {
	path := o.dir.file(engineFile)
	text, err := os.ReadFile(path)
	if err == nil {
		var c engineChoice
		if err := json.Unmarshal(text, &c); err != nil || c.Engine != engineContainer && c.Engine != engineProcess {
			return c, fmt.Errorf("%s does not say which engine runs the apps of this data directory: restore it, or write %q or %q there, as in {\"engine\": %q}",
				path, engineContainer, engineProcess, engineContainer)
		}
		return c, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return engineChoice{}, fmt.Errorf("data directory: %w", err)
	}
	for _, kind := range []struct{ name, dir string }{{engineContainer, o.container.Root}, {engineProcess, o.process.Root}} {
		used, err := hasEntries(kind.dir)
		if err != nil {
			return engineChoice{}, fmt.Errorf("data directory: %w", err)
		}
		if used {
			return engineChoice{Engine: kind.name, Why: filepath.Base(kind.dir) + " has its instances"}, nil
		}
	}
	return engineChoice{}, nil
}

// openContainers opens the container engine. If it was used before and containers
// no longer work, it is opened but starts no instances: the server does not decide
// to run apps without isolation, and running instances need the engine.
func (o engines) openContainers(ctx context.Context, used bool) (engine.Engine, error) {
	if !used {
		e, err := container.Open(ctx, o.container)
		if err != nil {
			return nil, fmt.Errorf("--engine container: %w", err)
		}
		o.log.Info("apps run in containers", "why", "--engine container, and a trial container worked")
		return e, nil
	}
	e, err := container.Reopen(ctx, o.container)
	if err != nil {
		return nil, fmt.Errorf("the apps of this data directory run in containers, and these cannot be taken over: %w; "+
			"to run them WITHOUT isolation from now on, start with --engine process", err)
	}
	if why := e.Describe().Held; why != "" {
		o.log.Error("no app instance is started until containers work again; running ones continue. "+
			"To run apps WITHOUT isolation from now on, start with --engine process", "why", why)
	} else {
		o.log.Info("apps run in containers", "why", "as before, and a trial container worked")
	}
	return e, nil
}

func (o engines) openProcesses(before engineChoice) (engine.Engine, error) {
	why := "--engine process"
	if before.Engine == engineProcess {
		why = "as before (" + before.Why + "); --engine container changes it"
	}
	o.log.Warn("apps run as plain processes, WITHOUT isolation", "why", why)
	return o.newProcesses()
}

func (o engines) newProcesses() (engine.Engine, error) {
	if err := o.dir.allowTraversal(); err != nil {
		return nil, err
	}
	return process.New(o.process)
}

// decide chooses the engine for --engine auto on a new data directory.
func (o engines) decide(ctx context.Context) (engine.Engine, engineChoice, error) {
	c := engineChoice{Engine: engineContainer, Chosen: time.Now().UTC(), Why: "a trial container worked"}
	e, err := container.Open(ctx, o.container)
	if err == nil {
		o.log.Info("apps run in containers", "why", c.Why)
		return e, c, nil
	}
	if exhausted(ctx, err) {
		return nil, c, fmt.Errorf("a trial container could not be run, but not because containers do not work here: %w; "+
			"free resources and start again, or choose with --engine container or --engine process", err)
	}
	c.Engine, c.Why = engineProcess, err.Error()
	o.log.Warn("apps run as plain processes, WITHOUT isolation; --engine container makes this an error", "why", err)
	plain, err := o.newProcesses()
	return plain, c, err
}

// exhausted reports whether a trial failed because a resource was temporarily
// exhausted: that must not be a permanent choice.
func exhausted(ctx context.Context, err error) bool {
	for _, e := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, context.DeadlineExceeded, context.Canceled,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return ctx.Err() != nil
}

// endOther stops the instances of the engine that is no longer used, and removes
// its files.
func (o engines) endOther(ctx context.Context, kind string) error {
	var err error
	n := 0
	if kind == engineProcess {
		var old engine.Engine
		if old, err = openContainers(ctx, o.dir, o.container); err == nil && old != nil {
			n, err = endInstances(ctx, old)
		}
		if err == nil {
			err = os.RemoveAll(o.container.Root)
		}
	} else {
		n, err = o.endProcesses(ctx)
	}
	if err != nil {
		return fmt.Errorf("the instances of the previous engine could not be stopped: %w", err)
	}
	if n > 0 {
		o.log.Info("stopped the instances of the other engine; they are started again", "instances", n, "engine", kind)
	}
	return nil
}

func (o engines) endProcesses(ctx context.Context) (n int, err error) {
	used, err := hasEntries(o.process.Root)
	if err != nil {
		return 0, err
	}
	if used {
		old, err := process.New(o.process)
		if err != nil {
			return 0, err
		}
		if n, err = endInstances(ctx, old); err != nil {
			return n, err
		}
	}
	return n, errors.Join(os.RemoveAll(o.process.Root), os.RemoveAll(o.dir.file("cache")))
}

// enginePrograms returns the paths of the programs for instances; empty means the
// directory of ingot.
func enginePrograms(dir string) (initProgram, sftpProgram string) {
	if dir == "" {
		return "", ""
	}
	return filepath.Join(dir, local.InitName), filepath.Join(dir, local.SFTPName)
}

// heldInterval is how often a container engine that starts no instances is
// checked again.
const heldInterval = 15 * time.Second

// recheck checks a container engine that starts no instances because containers
// do not work.
func (r *runtime) recheck(log *slog.Logger) func(context.Context) {
	return func(ctx context.Context) {
		e, ok := r.engine.(*container.Engine)
		if !ok || e.Describe().Held == "" {
			return
		}
		if err := e.Check(ctx); err != nil {
			log.Debug("containers still do not work", "why", err)
			return
		}
		log.Info("containers work again; starting app instances")
	}
}

// heldMetric is 1 while no instances are started.
func heldMetric(e engine.Engine) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ingot_apps_held_back", Help: "1 while no app instances are started because containers do not work.",
	}, func() float64 {
		if e.Describe().Held != "" {
			return 1
		}
		return 0
	})
}
