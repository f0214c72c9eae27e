package diskspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
)

// State says how much room there is.
type State int

// The states.
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

// Options make a Guard.
type Options struct {
	// Dir is the data directory.
	Dir string
	// Reserve is how much space is to stay free, in bytes. Zero is a twentieth of
	// the file system, at most 256 MiB.
	Reserve int64
	Log     *slog.Logger
	// Relieve is called when space is low, to remove what can be made again. It
	// may be nil.
	Relieve func(context.Context)
	// Every is how often the disk is looked at; a second if zero.
	Every time.Duration
	// Measure returns the size of a file system and what is free there; nil asks
	// the system.
	Measure func(dir string) (size, free int64, err error)
}

// Guard watches the disk.
type Guard struct {
	background.Part
	o    Options
	size int64

	// low has something in it when there is something to relieve. A sweep takes
	// as long as there are files; the watch goes on meanwhile.
	low chan struct{}

	mu    sync.Mutex
	state State
	free  int64
}

var _ background.Service = (*Guard)(nil)

const (
	maxReserve = 256 << 20
	// The files are parts of the reserve: an eighth and a thirty-second.
	fileShare, startShare = 8, 32
	reserveFile           = "reserve"
	startFile             = "reserve-start"
)

// Open measures the disk and, when it is full, gives back the space kept for
// this moment, so that the server can start.
func Open(o Options) (*Guard, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
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
		g.release(startFile)
	}
	if err := g.Look(context.Background()); err != nil {
		return nil, err
	}
	return g, nil
}

// Size returns the size of the disk, in bytes.
func (g *Guard) Size() int64 { return g.size }

// OnLow sets what to call when space is low; before Start.
func (g *Guard) OnLow(relieve func(context.Context)) { g.o.Relieve = relieve }

// Start begins to watch.
func (g *Guard) Start(ctx context.Context) error {
	return g.Launch(ctx, func(work context.Context, spawn func(func())) error {
		spawn(func() {
			tick := time.NewTicker(g.o.Every)
			defer tick.Stop()
			for {
				select {
				case <-work.Done():
					return
				case <-tick.C:
				}
				if err := g.Look(work); err != nil {
					g.o.Log.WarnContext(work, "the disk cannot be measured", "dir", g.o.Dir, "error", err)
				}
			}
		})
		spawn(func() {
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
		return nil
	})
}

// Stop ends the watch. The files stay for the next start.
func (g *Guard) Stop() { g.Halt(nil) }

// Look measures the disk and does what follows from it.
func (g *Guard) Look(ctx context.Context) error {
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
	g.mu.Unlock()
	switch state {
	case Full:
		g.release(reserveFile)
	case Enough:
		// Enough to be still enough afterwards.
		if free > g.o.Reserve*3/2 {
			g.keep(reserveFile, g.o.Reserve/fileShare)
			g.keep(startFile, g.o.Reserve/startShare)
		}
	}
	if state > before {
		g.o.Log.WarnContext(ctx, "the disk of the data directory runs full", "dir", g.o.Dir, "state", state.String(), "free_bytes", free, "reserve_bytes", g.o.Reserve)
	} else if state < before {
		g.o.Log.InfoContext(ctx, "there is room on the disk of the data directory again", "dir", g.o.Dir, "state", state.String(), "free_bytes", free)
	}
	if state != Enough {
		select {
		case g.low <- struct{}{}:
		default:
		}
	}
	return nil
}

// State returns what Look saw last.
func (g *Guard) State() (state State, free int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.state, g.free
}

// Room returns nil, or the refusal of a request that would store much.
func (g *Guard) Room() error {
	state, free := g.State()
	if state == Enough {
		return nil
	}
	return fault.New(fault.InsufficientStorage,
		"The disk of the server is nearly full (%s free, %s are kept for small changes), so nothing large is stored. Delete apps, packages or droplets that are not needed, or ask the operator for space.",
		megabytes(free), megabytes(g.o.Reserve)).After(30 * time.Second)
}

// Ready returns an error while the disk is full.
func (g *Guard) Ready(context.Context) error {
	if state, free := g.State(); state == Full {
		return fmt.Errorf("the disk of the data directory is full: %s free", megabytes(free))
	}
	return nil
}

func megabytes(n int64) string {
	if n < 10<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}

func (g *Guard) release(name string) {
	err := os.Remove(filepath.Join(g.o.Dir, name))
	switch {
	case err == nil:
		g.o.Log.Warn("space kept in reserve was given back", "file", name)
	case !errors.Is(err, fs.ErrNotExist):
		g.o.Log.Error("space kept in reserve cannot be given back", "file", name, "error", err)
	}
}

// keep makes a reserve file if it is not there. It is complete or absent.
func (g *Guard) keep(name string, size int64) {
	path := filepath.Join(g.o.Dir, name)
	if info, err := os.Stat(path); err == nil && info.Size() == size {
		return
	}
	if err := allocate(path, size); err != nil {
		_ = os.Remove(path)
		g.o.Log.Warn("no space can be kept in reserve", "file", name, "error", err)
	}
}
