package choice

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/datadir"
	"ingot/internal/base/rootless"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/kubernetes"
	"ingot/internal/platform/engine/local"
	"ingot/internal/platform/engine/process"
)

// Auto is the value of --engine with which the server chooses.
const Auto = "auto"

// Names returns the values of --engine.
func Names() []string {
	names := []string{Auto}
	for _, k := range (&chooser{}).kinds() {
		names = append(names, k.name)
	}
	return names
}

// Options are what engines need.
type Options struct {
	Dir *datadir.Dir
	// Programs is the directory of ingot-init and ingot-sftp; empty means the
	// directory of ingot.
	Programs string
	// Overcommit is the maximum sum of the memory limits of all instances, as a
	// multiple of the machine's memory; 0 means the engine's default.
	Overcommit int
	// Kubernetes returns the options of the Kubernetes engine. It is called only if that
	// engine is or was used; nil means that it cannot be.
	Kubernetes func(context.Context) (kubernetes.Options, error)
	// NotRoot is why an ordinary user who started the server cannot have containers.
	NotRoot error
	Log     *slog.Logger
}

// chooser opens the engines of a data directory.
type chooser struct {
	dir        *datadir.Dir
	container  container.Options
	process    process.Options
	kubernetes func(context.Context) (kubernetes.Options, error)
	log        *slog.Logger
}

func newChooser(o Options) *chooser {
	initProgram := program(o.Programs, local.InitName)
	root := o.Dir.File("containers")
	if s := rootless.Current(); s != nil {
		root = s.Data
	}
	return &chooser{
		dir: o.Dir, log: o.Log, kubernetes: o.Kubernetes,
		container: container.Options{Root: root, Init: initProgram, Log: o.Log, Egress: true,
			Overcommit: o.Overcommit, NotRoot: o.NotRoot},
		process: process.Options{Root: o.Dir.File("processes"), Cache: o.Dir.File("cache"), Init: initProgram, Log: o.Log,
			Overcommit: o.Overcommit},
	}
}

// program returns the path of a program for instances; empty means that it is in
// the directory of ingot.
func program(dir, name string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// Open returns the engine with a name, or the one that Auto chooses; the log says
// why. It stops the instances of other engines, and records the choice. sftp is the
// path of the sftp server in instances; empty if there is none.
func Open(ctx context.Context, name string, o Options) (e engine.Engine, sftp string, err error) {
	sftp, err = local.ProgramPath(local.SFTPName, program(o.Programs, local.SFTPName))
	if err != nil {
		o.Log.Warn("sftp and scp work only with instances that have their own sftp server", "why", err)
		sftp = ""
	}
	c := newChooser(o)
	c.container.SFTP = sftp
	e, k, err := c.open(ctx, name)
	if err != nil {
		return nil, "", err
	}
	if sftp, err = k.sftp(sftp); err != nil {
		return nil, "", errors.Join(err, e.Close())
	}
	return e, sftp, nil
}

func (c *chooser) open(ctx context.Context, name string) (e engine.Engine, k kind, err error) {
	before, err := c.recorded()
	if err != nil {
		return nil, k, err
	}
	now := record{Engine: name, Chosen: time.Now().UTC(), Why: "--engine " + name}
	if name == Auto {
		now.Engine, now.Why = before.Engine, before.Why
	}
	k, known := c.kind(now.Engine)
	if known {
		e, err = k.open(ctx, before)
	} else { // the first start decides
		e, now, err = c.decide(ctx)
		k, _ = c.kind(now.Engine)
	}
	if err != nil {
		return nil, k, err
	}
	if err := c.stopOthers(ctx, k.name); err != nil {
		return nil, k, errors.Join(err, e.Close())
	}
	if now.Engine != before.Engine || before.Chosen.IsZero() {
		if err := c.dir.WriteJSON(recordFile, now, 0o600); err != nil {
			return nil, k, errors.Join(fmt.Errorf("record the engine: %w", err), e.Close())
		}
	}
	return e, k, nil
}

// record is DIR/engine.json: which engine runs the apps of a data directory. The
// first start decides; later ones change it only when --engine names another.
type record struct {
	Engine string    `json:"engine"`
	Chosen time.Time `json:"chosen"`
	Why    string    `json:"why"`
}

const recordFile = "engine.json"

// Check returns an error if the file of a data directory that names the engine cannot be
// used. A server may be using the directory.
func Check(dataDir string) error {
	if _, err := readRecord(filepath.Join(dataDir, recordFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Recorded returns the engine that runs the apps of a data directory; "" if none was chosen yet or it is not
// known, of which Open tells.
func Recorded(dataDir string) string {
	r, _ := readRecord(filepath.Join(dataDir, recordFile)) // Open reads it again
	return r.Engine
}

func readRecord(path string) (r record, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !datadir.IsDamaged(err) {
		return r, fmt.Errorf("data directory: %w", err)
	}
	if err := json.Unmarshal(text, &r); err != nil || !slices.Contains(Names()[1:], r.Engine) {
		return r,
			fmt.Errorf("%s does not say which engine runs the apps of this data directory: restore it, or write %s there, as "+
				"in {\"engine\": %q}",
				path, strings.Join(Names()[1:], " or "), Names()[1])
	}
	return r, nil
}

// recorded returns the choice of an earlier start; zero if there was none. For a
// data directory that is older than the file, it is the engine that has instances;
// if several have some, the first of the table.
func (c *chooser) recorded() (record, error) {
	r, err := readRecord(c.dir.File(recordFile))
	if !errors.Is(err, fs.ErrNotExist) {
		return r, err
	}
	for _, k := range c.kinds() {
		used, err := hasEntries(k.root)
		if err != nil {
			return record{}, fmt.Errorf("data directory: %w", err)
		}
		if used {
			return record{Engine: k.name, Why: filepath.Base(k.root) + " has its instances"}, nil
		}
	}
	return record{}, nil
}

// decide chooses the engine for Auto on a new data directory.
func (c *chooser) decide(ctx context.Context) (engine.Engine, record, error) {
	r := record{Engine: containers, Chosen: time.Now().UTC(), Why: "a trial container worked"}
	e, err := container.Open(ctx, c.container)
	if err == nil {
		c.log.Info("apps run in containers", "why", r.Why)
		return e, r, nil
	}
	if rootless.Current() != nil {
		// The trial before the start was in the same namespaces; processes would not be those of the user.
		return nil, r, fmt.Errorf("a trial container worked, and another one does not: %w; start again, or choose with "+
			"--engine process", err)
	}
	if exhausted(ctx, err) {
		return nil, r, fmt.Errorf("a trial container could not be run, but not because containers do not work here: %w; "+
			"free resources and start again, or choose with --engine container or --engine process", err)
	}
	if runtime := container.Inside("/"); runtime != "" {
		err = fmt.Errorf("%w; this is a container (%s): %s", err, runtime, container.InsideHint(runtime))
	}
	r.Engine, r.Why = processes, err.Error()
	c.log.Warn("apps run as plain processes, WITHOUT isolation; --engine container makes this an error", "why", err)
	plain, processErr := c.newProcesses(record{})
	if processErr != nil {
		return nil, r, fmt.Errorf("%w; and containers: %w", processErr, err)
	}
	return plain, r, nil
}

// exhausted reports whether a trial failed because a resource was temporarily
// exhausted: that must not be a permanent choice.
func exhausted(ctx context.Context, err error) bool {
	for _, e := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, context.DeadlineExceeded,
		context.Canceled,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return ctx.Err() != nil
}

// TryContainers runs a trial container and returns why it failed. Auto decides in
// the same way.
func TryContainers(ctx context.Context, programs string) error {
	return container.Probe(ctx, container.Options{Log: slog.New(slog.DiscardHandler),
		Init: program(programs, local.InitName)})
}
