package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"ingot/internal/base/background"
	"ingot/internal/broker/dump"
)

// Saved is a service instance whose data can be saved while its server is used.
type Saved struct {
	// Name is a file name that identifies the instance.
	Name string
	// ID is its id on the platform, Offering its service.
	ID, Offering string
	// Save writes the data to w. It returns a line about each object that is missing in it
	// because the tenant broke it. An UnsavedError means that the data is incomplete, which
	// can be the tenant's doing and says nothing about other instances; any other error
	// comes from w or ctx.
	Save func(ctx context.Context, w io.Writer) ([]string, error)
}

// FailedSuffix follows the name of an instance's data in the name of a file that exists if
// the data is incomplete. It says why.
const FailedSuffix = ".failed"

// maxFailed limits how much of such a file is read.
const maxFailed = 4 << 10

// maxStall is how long a dump may write nothing. A tenant's lock on a table can make it
// wait forever. After the first dump that did, the others have a tenth of it: a tenant can have many
// instances.
const maxStall = 10 * time.Minute

// UnsavedError means that the data of an instance could not be saved.
type UnsavedError struct {
	ID, Offering string
	// Why is a line of limited length, since a tenant controls it.
	Why string

	stalled bool
}

func (e *UnsavedError) Error() string {
	return fmt.Sprintf("the data of the %s instance %s: %s", e.Offering, e.ID, e.Why)
}

// dumpName is the name of an instance's data in a backup.
func dumpName(i *instance) string { return i.Offering + "/" + i.hash() + ".dump" }

// Savable returns the instances on servers that Ingot runs. The broker of the same
// directory may be running.
func Savable(c Config) ([]Saved, error) {
	c.ReadOnly = true
	b, err := New(c)
	if err != nil {
		return nil, err
	}
	var all []Saved
	var stalled atomic.Bool
	for _, i := range b.state.list() {
		if i.Phase != ready || !i.isOurs() || i.Offering == Notifications {
			continue
		}
		s, err := b.backendOf(i)
		if err != nil {
			return nil, err
		}
		if d, ok := s.(dumper); ok {
			all = append(all, Saved{dumpName(i), i.ID, i.Offering, func(ctx context.Context, w io.Writer) ([]string, error) {
				limit := cmp.Or(c.Stall, maxStall)
				if stalled.Load() {
					limit /= 10
				}
				lines, err := save(ctx, d, i, w, limit)
				if unsaved := (*UnsavedError)(nil); errors.As(err, &unsaved) && unsaved.stalled {
					stalled.Store(true)
				}
				return lines, err
			}})
		}
	}
	return all, nil
}

// save dumps an instance and gives up when nothing was written for the time of stall.
func save(ctx context.Context, d dumper, i *instance, w io.Writer, stall time.Duration) ([]string, error) {
	stalled := fmt.Errorf("nothing was written for %v: is a table locked?", stall)
	limited, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := &progress{w: w, limit: stall, idle: background.AfterFunc("stalled dump", stall, func() { cancel(stalled) })}
	defer out.idle.Stop()
	missing, err := d.dump(limited, i, out)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case out.err != nil:
		return nil, out.err
	case err == nil:
		var lines []string
		for _, what := range missing.List() {
			lines = append(lines, fmt.Sprintf("%s instance %s: %s", i.Offering, i.ID, what))
		}
		return lines, nil
	case limited.Err() != nil:
		err = context.Cause(limited)
	case isUnreachable(err):
		err = fmt.Errorf("is its server running? %w", err)
	}
	return nil, &UnsavedError{i.ID, i.Offering, dump.Printable(err.Error()), limited.Err() != nil}
}

// isUnreachable reports whether a server did not accept a connection. PostgreSQL's programs
// say it as text.
func isUnreachable(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) || strings.Contains(err.Error(), "connection to server")
}

// progress restarts a timer with everything that is written. The timer does not run while w
// is busy: a slow target is not the dump's fault.
type progress struct {
	w     io.Writer
	limit time.Duration
	idle  *time.Timer
	err   error // of w
}

func (p *progress) Write(b []byte) (int, error) {
	p.idle.Stop()
	defer p.idle.Reset(p.limit)
	n, err := p.w.Write(b)
	if p.err == nil {
		p.err = err
	}
	return n, err
}

// whyFailed reports whether the data of an instance in a backup is incomplete, and why.
func whyFailed(open func(name string) (io.ReadCloser, error), name string) (why string, failed bool, err error) {
	r, err := open(name + FailedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	if err != nil {
		return "", false, err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxFailed)) // part of a message
	return dump.Printable(string(text)), true, err
}
