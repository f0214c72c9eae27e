package diskspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
)

// State classifies the free space.
type State int

const (
	Enough State = iota
	Low
	Full
)

func (s State) String() string {
	switch s {
	case Enough:
		return "enough"
	case Low:
		return "low"
	case Full:
		return "full"
	}
	return fmt.Sprintf("State(%d)", int(s))
}

// Options configure a Guard.
type Options struct {
	// Dir is the data directory.
	Dir string
	// Reserve is the space to keep free, in bytes. Zero means a twentieth of
	// the file system, at most 256 MiB.
	Reserve int64
	Log     *slog.Logger
	// Relieve is called when space is low, to delete files that can be
	// recreated. It may be nil.
	Relieve func(context.Context)
	// Every is the interval of the checks; one second if zero.
	Every time.Duration
	// Measure returns the size and the free space of a file system; nil uses
	// the operating system.
	Measure func(dir string) (size, free int64, err error)
}

// Guard monitors the free space of a disk.
type Guard struct {
	background.Part
	o    Options
	size int64

	// low holds a value when Relieve has to be called. It runs in its own
	// goroutine, because it may take long and the checks have to continue.
	low chan struct{}

	mu       sync.Mutex
	held     []string // files, see Hold
	state    State
	free     int64
	probed   time.Time
	readOnly error // of the last probe
}

var _ background.Service = (*Guard)(nil)

const (
	maxReserve = 256 << 20
	// Sizes of the reserve files and of what is held, as fractions of the reserve.
	fileShare, startShare, holdShare = 8, 32, 8
	// maxHold limits what is held for one file: SQLite's log has about as much when it starts again.
	maxHold = 4 << 20
	// startParts is how many starts on a full disk the reserve of starts is for.
	startParts    = 4
	reserveFile   = "reserve"
	startFile     = "reserve-start"
	probeFile     = ".writable"
	probeInterval = 5 * time.Second
)

// Open measures the disk and, when it is full, releases the reserved space, so
// that the server can start.
func Open(o Options) (*Guard, error) {
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Every <= 0 {
		o.Every = time.Second
	}
	if o.Measure == nil {
		o.Measure = measure
	}
	size, free, err := o.Measure(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("measure the disk of %s: %w", o.Dir, err)
	}
	if o.Reserve <= 0 {
		o.Reserve = min(size/20, maxReserve)
	}
	g := &Guard{o: o, size: size, low: make(chan struct{}, 1)}
	if free < o.Reserve/4 {
		g.releaseStart()
	}
	if err := g.Check(context.Background()); err != nil {
		return nil, err
	}
	return g, nil
}

// Size returns the size of the disk, in bytes.
func (g *Guard) Size() int64 { return g.size }

// Reserve returns the space that is kept free, in bytes.
func (g *Guard) Reserve() int64 { return g.o.Reserve }

// OnLow sets the function to call when space is low. It must be called before
// Start.
func (g *Guard) OnLow(relieve func(context.Context)) { g.o.Relieve = relieve }

// Start starts the checks.
func (g *Guard) Start(ctx context.Context) error {
	return g.Run(ctx, func(work context.Context) {
		for range background.Ticks(work, g.o.Every, nil) {
			if err := g.Check(work); err != nil {
				g.o.Log.WarnContext(work, "disk space unknown", "dir", g.o.Dir, "error", err)
			}
		}
	}, func(work context.Context) {
		for {
			select {
			case <-work.Done():
				return
			case <-g.low:
			}
			if g.o.Relieve != nil {
				background.Safely("diskspace.relieve", func() { g.o.Relieve(work) })
			}
		}
	})
}

// Stop stops the checks. The reserve files stay for the next start.
func (g *Guard) Stop() { g.Halt(nil) }

// Restock keeps the space that the databases of a server give back at its end for the next
// start, if the disk is full. It is called when they are closed.
func (g *Guard) Restock() {
	if state, _ := g.State(); state == Full {
		g.keep(startFile, g.o.Reserve/startShare)
	}
}

// Hold keeps space allocated for a file that grows and is used again from its beginning, as the
// write-ahead log of a database is: small changes such as logins and deletions succeed on a disk
// on which nothing else does, also after a crash and a restart, because no other program can use these
// blocks. The file exists; "" means none. It does nothing on file systems that cannot do it.
func (g *Guard) Hold(path string) {
	if path == "" {
		return
	}
	g.mu.Lock()
	g.held = append(g.held, path)
	g.mu.Unlock()
	g.hold(path)
}

func (g *Guard) hold(path string) {
	if err := hold(path, min(g.o.Reserve/holdShare, maxHold)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		g.o.Log.Debug("disk space not held", "file", path, "error", err)
	}
}

// Check measures the disk and acts on the result.
func (g *Guard) Check(ctx context.Context) error {
	_, free, err := g.o.Measure(g.o.Dir)
	if err != nil {
		return err
	}
	state := Enough
	switch {
	case free < g.o.Reserve/4:
		state = Full
	case free < g.o.Reserve:
		state = Low
	}
	g.mu.Lock()
	before := g.state
	g.state, g.free = state, free
	held := slices.Clone(g.held)
	g.mu.Unlock()
	switch state {
	case Full:
		g.release(reserveFile)
	case Enough:
		// Only if the state remains Enough afterwards.
		if free > g.o.Reserve*3/2 {
			g.keep(reserveFile, g.o.Reserve/fileShare)
			g.keep(startFile, g.o.Reserve/startShare)
			for _, path := range held {
				g.hold(path)
			}
		}
	}
	if state > before {
		g.o.Log.WarnContext(ctx, "disk space low", "dir", g.o.Dir, "state", state.String(), "free_bytes", free,
			"reserve_bytes", g.o.Reserve)
	} else if state < before {
		g.o.Log.InfoContext(ctx, "disk space recovered", "dir", g.o.Dir, "state", state.String(), "free_bytes", free)
	}
	if state != Enough {
		background.Kick(g.low)
	}
	return nil
}

// State returns the result of the last check.
func (g *Guard) State() (state State, free int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state, g.free
}

// Room returns an error for requests that store much data while space is low. Before it
// refuses one it measures again: space may have been freed since the last check.
func (g *Guard) Room() error {
	state, free := g.State()
	if state == Enough {
		return nil
	}
	if _, now, err := g.o.Measure(g.o.Dir); err == nil {
		if now >= g.o.Reserve {
			return nil
		}
		free = now
	}
	return fault.New(fault.InsufficientStorage,
		"The server's disk is nearly full (%s free, %s reserved for small changes). Delete apps, packages or droplets that "+
			"are not needed, or ask the operator to free disk space.",
		megabytes(free), megabytes(g.o.Reserve)).After(30 * time.Second)
}

// Ready returns an error while the disk is full or cannot be written to.
func (g *Guard) Ready(context.Context) error {
	if state, free := g.State(); state == Full {
		return fmt.Errorf("the disk of the data directory is full: %s free", megabytes(free))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	// A probe writes, so it is not made each time: readiness may be checked often.
	if time.Since(g.probed) >= probeInterval {
		g.probed, g.readOnly = time.Now(), probe(g.o.Dir)
	}
	if g.readOnly != nil {
		return fmt.Errorf("the data directory cannot be written to: %w", g.readOnly)
	}
	return nil
}

// probe creates an empty file and removes it. A file system that became read-only because of
// an error is not always reported as such, so that only writing shows it.
func probe(dir string) error {
	name := filepath.Join(dir, probeFile)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(name))
}

func megabytes(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

// releaseStart releases a part of the reserve of starts: the next start may find the disk full again.
func (g *Guard) releaseStart() {
	path := filepath.Join(g.o.Dir, startFile)
	info, err := os.Stat(path)
	part := g.o.Reserve / startShare / startParts
	if err != nil || info.Size() <= part {
		g.release(startFile)
		return
	}
	if err := os.Truncate(path, info.Size()-part); err != nil {
		g.o.Log.Error("disk space reserve not released", "file", startFile, "error", err)
		return
	}
	g.o.Log.Warn("disk space reserve released", "file", startFile, "bytes", part, "left_bytes", info.Size()-part)
}

func (g *Guard) release(name string) {
	err := os.Remove(filepath.Join(g.o.Dir, name))
	switch {
	case err == nil:
		g.o.Log.Warn("disk space reserve released", "file", name)
	case !errors.Is(err, fs.ErrNotExist):
		g.o.Log.Error("disk space reserve not released", "file", name, "error", err)
	}
}

// keep creates a reserve file if it does not exist. The file is complete or
// absent.
func (g *Guard) keep(name string, size int64) {
	path := filepath.Join(g.o.Dir, name)
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return
	}
	if err := allocate(path, size); err != nil {
		_ = os.Remove(path)
		g.o.Log.Warn("disk space reserve not created", "file", name, "error", err)
	}
}
