package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"time"

	"ingot/internal/platform/initproto"
)

// ErrNotFound is what engines answer for an instance they do not have.
var ErrNotFound = errors.New("no such instance")

// PlacementError is why an engine does not start an instance at the moment,
// through no fault of the instance: there is no room for it, or the engine is
// held back. Trying later may work.
type PlacementError struct {
	// Reason is for the users of the instance: Cloud Foundry's words where it
	// has them, and nothing about the machine that is not theirs to know.
	Reason string
	// Err is the cause, for the operator; it may be nil.
	Err error
}

// InsufficientMemory and InsufficientDisk are the reasons of Diego, Cloud
// Foundry's scheduler, when no machine has room for an instance.
const (
	InsufficientMemory = "insufficient resources: memory"
	InsufficientDisk   = "insufficient resources: disk"
)

func (e *PlacementError) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Reason + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *PlacementError) Unwrap() error { return e.Err }

// Engine runs instances. It is safe for concurrent use.
type Engine interface {
	// Describe says what kind of engine this is and how well it isolates.
	Describe() Description

	// Start makes an instance and runs it. It returns when ingot-init runs;
	// how it goes on is told by records. Starting an id that exists already
	// does nothing. When it fails nothing is left behind. A *PlacementError says
	// that it was not even tried.
	Start(ctx context.Context, s Spec) error

	// Signal asks the instance to stop gracefully: members get SIGTERM, and
	// SIGKILL after the grace of its initproto.Spec. It returns at once. It is no
	// error if the instance has ended; one that does not exist is ErrNotFound,
	// here and below.
	Signal(ctx context.Context, id string) error

	// Remove ends the instance at once if it still runs, and destroys
	// everything it had. It returns when nothing is left. Removing what does
	// not exist is no error.
	Remove(ctx context.Context, id string) error

	// List returns all instances, running or ended, including those started
	// by a server process before this one.
	List(ctx context.Context) ([]Instance, error)

	// Get returns one instance, or ErrNotFound.
	Get(ctx context.Context, id string) (Instance, error)

	// Records streams the instance's records that come after the position, in
	// order, as they are written; the zero Position means from the first that
	// still exists. The stream ends with io.EOF after the record initproto.EventEnded,
	// or when ingot-init was killed or the instance removed; when ctx or the
	// engine ends, with another error. Records that were lost before they could
	// be read show as a gap in Seq.
	Records(ctx context.Context, id string, after Position) (Stream, error)

	// Exec runs another process inside the instance, as its user and with its
	// environment. ctx bounds the start only; the process is killed by Close,
	// with its instance and with the engine.
	Exec(ctx context.Context, id string, r ExecRequest) (Process, error)

	// Dial connects to an address as seen from inside the instance.
	Dial(ctx context.Context, id, network, address string) (net.Conn, error)

	// Usage returns what the instance uses at the moment.
	Usage(ctx context.Context, id string) (Usage, error)

	// Collect writes path of an instance, running or ended, as a tar stream
	// rooted at path: what is in a directory, or one file. The path is relative
	// to the home directory, begins with {{home}}, or is absolute and below it.
	Collect(ctx context.Context, id, path string, w io.Writer) error

	// Close lets go of the engine. Instances go on.
	Close() error
}

// Description is what an engine says about itself.
type Description struct {
	Name     string // "container", "process"
	Isolated bool   // whether instances are kept apart from each other and the host
	Detail   string // for people: why it was chosen, what it cannot do
	// SharedPorts means that instances share the host's ports, so that a fixed
	// port can be used by one instance only.
	SharedPorts bool
	// Held is why the engine starts no instances at the moment, for operators;
	// empty while it does. Instances that run already go on.
	Held string
}

// Spec is an instance to start.
type Spec struct {
	ID string
	// Labels are returned by List and mean nothing to the engine.
	Labels map[string]string
	// Files are unpacked in order before anything runs.
	Files []Archive
	// Launch is for ingot-init. Paths in it are those inside the instance,
	// where the home directory is whatever {{home}} stands for. Engines replace
	// that in Args, Env and Dir, {{ip}} by the instance's own address, and
	// {{port:8080}} by the number under which the instance must listen for port
	// 8080; the ports of checks likewise. The same goes for an ExecRequest.
	// What is not meant as such a word goes through Escape.
	Launch initproto.Spec
	Limits Limits
	// Ports are those that have to be reachable from outside. Where ports are
	// shared, one that no member mentions as {{port:N}} is fixed: Start refuses
	// with fault.Unprocessable when it is taken.
	Ports []int
	// Reach are addresses beside the internet that the instance may connect to,
	// as those of its services. Engines that do not isolate ignore them.
	Reach []netip.AddrPort
}

// Escape keeps a text as it is through the replacing of words in a Spec: for
// what users wrote.
func Escape(text string) string { return strings.ReplaceAll(text, "{{", "{{{{") }

// Archive is files for an instance.
type Archive struct {
	// Key names the content: two archives of one key are equal, and an engine
	// may keep it unpacked. Empty means never again.
	Key string
	// Open returns a tar stream, gzip-compressed or not.
	Open func() (io.ReadCloser, error)
	// Target is the directory below {{home}} to unpack into; "" is the home
	// itself.
	Target string
	// ReadOnly files are not written to by the instance.
	ReadOnly bool
}

// Limits bound an instance. Zero means the engine's default.
type Limits struct {
	Memory int64 // bytes
	Disk   int64 // bytes
	CPU    int   // shares; 1024 is one of several equals
	PIDs   int
	Files  int // open files of a process
}

// Instance is what an engine knows of one.
type Instance struct {
	ID     string
	Labels map[string]string
	State  initproto.State
	// Running is false when ingot-init is gone; then State may be older than
	// its end if it was killed.
	Running bool
	Created time.Time
	// Ports says where each port of the Spec is reached.
	Ports []Port
	// Host and Internal are addresses of the machine and of the instance.
	Host     string
	Internal string
}

// Port is one reachable port of an instance.
type Port struct {
	Inside  int    // the number asked for, in Spec.Ports
	Listens int    // the number the instance listens on; differs with shared ports
	Address string // host:port to dial from the server
}

// Position is a place in an instance's record stream: the number of the last
// record that was read.
type Position uint64

// Stream is a reader of records.
type Stream interface {
	// Next blocks for the next record. The record's memory is valid until the
	// call after. It returns io.EOF at the end.
	Next() (initproto.Record, error)
	Close() error
}

// ExecRequest is another process in an instance.
type ExecRequest struct {
	Args []string
	Env  []string // added to the main process's environment
	Dir  string   // empty means the home directory
	// Terminal makes a pseudo-terminal.
	Terminal *Terminal
}

// Terminal is the size and kind of a pseudo-terminal.
type Terminal struct {
	Term          string
	Columns, Rows int
}

// Process is a process started by Exec. Its outputs have to be read, or it blocks
// when they are full; and Close has to be called in the end.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Stderr() io.Reader // nil with a terminal
	Resize(columns, rows int) error
	// Signal sends a signal. It is no error if the process has ended.
	Signal(number int) error
	// Wait returns the exit status; 128 + signal when killed.
	Wait() (status int, err error)
	// Close kills the process if it still runs, and waits for it.
	Close() error
}

// Usage is what an instance uses.
type Usage struct {
	Time        time.Time
	CPUTime     time.Duration // since its start
	Memory      int64         // bytes
	MemoryLimit int64
	Disk        int64
	OOMKills    int64
}
