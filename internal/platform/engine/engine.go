package engine

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/instance/initproto"
)

// ErrNotFound means that the engine has no such instance.
var ErrNotFound = errors.New("no such instance")

// PlacementError means that the engine does not start an instance at the moment, through no
// fault of the instance: there is no room for it, or the engine is paused. A later attempt
// may succeed.
type PlacementError struct {
	// Reason is for the users of the instance: Cloud Foundry's words where it has them, and
	// no internals of the machine.
	Reason string
	// Displaced means that there was room, but the machine was taken away before anything
	// ran.
	Displaced bool
	// Err is the cause, for the operator; it may be nil.
	Err error
}

// InsufficientMemory and InsufficientDisk are the reasons of Diego, Cloud Foundry's
// scheduler, when no machine has room for an instance.
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
	// Describe returns the kind of the engine and its isolation.
	Describe() Description

	// Start creates an instance and runs it. It returns when ingot-init runs; records
	// report the rest. Starting an existing id does nothing. If it fails, nothing is left
	// behind. A *PlacementError means that it was not even tried.
	Start(ctx context.Context, s Spec) error

	// Signal asks the instance to stop gracefully: members get SIGTERM, and SIGKILL after
	// the grace period of its initproto.Spec. It returns at once. It is not an error if the
	// instance has ended; an unknown one is ErrNotFound, here and below.
	Signal(ctx context.Context, id string) error

	// Remove stops the instance at once if it still runs, and deletes everything it had. It
	// returns when nothing is left. Removing an unknown instance is not an error. After an
	// error the instance may be unknown: then only something that another program uses is left.
	Remove(ctx context.Context, id string) error

	// List returns the instances with wanted labels, running or ended, including those
	// started by an earlier server process. Nil means all. Asking for few is cheaper: an
	// engine may have to ask a distant process for the state of each.
	List(ctx context.Context, wanted Wanted) ([]Instance, error)

	// Get returns one instance, or ErrNotFound.
	Get(ctx context.Context, id string) (Instance, error)

	// Records streams the instance's records that come after the position, in
	// order, as they are written; the zero Position means from the first that
	// still exists. The stream ends with io.EOF after the record initproto.EventEnded,
	// or when ingot-init was killed or the instance removed; when ctx or the
	// engine ends, with another error. Records that were lost before they could
	// be read show as a gap in Seq.
	Records(ctx context.Context, id string, after Position) (Stream, error)

	// Exec runs another process inside the instance, as its user and with its environment.
	// ctx limits the start only; the process is killed by Close, with its instance and with
	// the engine.
	Exec(ctx context.Context, id string, r ExecRequest) (Process, error)

	// Dial connects to an address as seen from inside the instance.
	Dial(ctx context.Context, id, network, address string) (net.Conn, error)

	// Usage returns the current resource usage of the instance.
	Usage(ctx context.Context, id string) (Usage, error)

	// Collect writes path of an instance, running or ended, as a tar stream rooted at path:
	// the content of a directory, or one file. The path is relative to the home directory,
	// starts with {{home}}, or is absolute and below it.
	Collect(ctx context.Context, id, path string, w io.Writer) error

	// Close releases the engine. Instances keep running.
	Close() error
}

// Description describes an engine.
type Description struct {
	Name     string // "container", "process"
	Isolated bool   // whether instances are isolated from each other and the host
	Detail   string // why it was chosen and what it cannot do, as text
	// SharedPorts means that instances share the host's ports, so that a fixed port can be
	// used by one instance only.
	SharedPorts bool
	// HardDisk means that a write beyond the disk limit fails, HardProcesses that a process
	// beyond their limit is not started. Otherwise such an instance is stopped some time
	// later, or not at all.
	HardDisk, HardProcesses bool
	// NoImages is why the engine runs no container images, for users; empty if it does.
	NoImages string
	// Remote means that instances run on other machines: starting one is mostly waiting, and
	// an image is downloaded there and not by this server.
	Remote bool
	// NoMemberLimits is why the engine cannot enforce a memory limit or a processor weight of
	// single members, for users; empty if it can.
	NoMemberLimits string
	// Held is why the engine starts no instances at the moment, for operators; empty if it
	// does. Running instances are not affected.
	Held string
}

// Spec describes an instance to start.
type Spec struct {
	ID string
	// Labels are returned by List and have no meaning for the engine.
	Labels map[string]string
	// Files are unpacked in order before anything runs.
	Files []Archive
	// FilesAt returns more files, which depend on the instance's own address ({{ip}});
	// nil means none.
	FilesAt func(ip string) ([]Archive, error)
	// Image is the root file system of the instance; nil means the engine's own. Only
	// engines without Description.NoImages run images.
	Image *Image
	// Launch is for ingot-init. Its paths are those inside the instance, where {{home}}
	// stands for the home directory. Engines replace that placeholder in Args, Env, Dir and TLS,
	// {{ip}} by the instance's own address, {{host}} by the address that it has for others
	// (CF_INSTANCE_IP), and {{port:8080}} by the number on which the instance must listen
	// for port 8080; the ports of checks likewise. The same applies to an ExecRequest. Text
	// that must not be replaced goes through Escape.
	Launch initproto.Spec
	Limits Limits
	// Ports are the ports that must be reachable from outside. With shared ports, one that
	// no member mentions as {{port:N}} is fixed: Start fails with fault.Unprocessable if it
	// is taken.
	Ports []int
	// Reach are addresses that the instance may connect to whatever the rules say, such as
	// those of its services. Engines without isolation ignore them.
	Reach []netip.AddrPort
	// Segment is the isolation segment whose machines run the instance; empty means the
	// shared one.
	Segment string
	// Zone decides which security groups count for the instance, App which network policies;
	// an instance without App is in none. See Rules.
	Zone Zone
	App  string
}

// AllFiles returns the files of an instance with this address of its own.
func (s Spec) AllFiles(ip string) ([]Archive, error) {
	if s.FilesAt == nil {
		return s.Files, nil
	}
	more, err := s.FilesAt(ip)
	return slices.Concat(s.Files, more), err
}

// Escape protects a text, such as user input, from the replacement of placeholders in a
// Spec.
func Escape(text string) string { return strings.ReplaceAll(text, "{{", "{{{{") }

// Archive holds files for an instance.
type Archive struct {
	// Key identifies the content: two archives with one key are equal, and an engine may
	// keep it unpacked. Empty means that it is not reused.
	Key string
	// Open returns a tar stream, gzip-compressed or not.
	Open func() (io.ReadCloser, error)
	// Target is the directory below {{home}} to unpack into; "" is the home
	// itself.
	Target string
	// ReadOnly files are not written to by the instance.
	ReadOnly bool
	// Changes means that its files replace those of the archives before it, which then do not
	// count as files of the instance.
	Changes bool
}

// Image is a container image. In the Launch of its instance, {{home}} stands for the home
// directory of its user, and User and Group are set by the engine.
type Image struct {
	// Layers are the file system, the lowest first.
	Layers []Layer
	// Reference is the name of the image with its digest; Username and Password are for its
	// registry, empty if it needs none. Engines that do not pull images ignore them.
	Reference, Username, Password string
	// User is whom members run as: USER or USER:GROUP, each a name of the image or a
	// number. The image's root, which is also the default, becomes an unprivileged user that
	// owns what root owns in the image.
	User string
	// Account is what Fetch has found out about User; nil if it is not known.
	Account *platform.ImageAccount
	// Dir is the working directory, which is created if the image does not have it and the
	// engine can do so.
	Dir string
}

// Layer is a layer of an image.
type Layer struct {
	// Key identifies the content, as that of an Archive.
	Key string
	// Open returns a tar stream, which may be compressed with gzip or zstd. Its last read
	// fails if the content is not what Key says.
	Open func(ctx context.Context) (io.ReadCloser, error)
}

// Limits are the resource limits of an instance. Zero means the engine's default.
type Limits struct {
	Memory int64 // bytes
	Disk   int64 // bytes
	CPU    int   // relative shares; 1024 is the usual value
	PIDs   int
	Files  int // open files per process
}

// Wanted chooses instances by their labels.
type Wanted func(labels map[string]string) bool

// Of reports whether an instance is wanted.
func (w Wanted) Of(labels map[string]string) bool { return w == nil || w(labels) }

// Instance describes an instance of an engine.
type Instance struct {
	ID     string
	Labels map[string]string
	State  initproto.State
	// Running is false when the instance has ended; if ingot-init was killed, State may be
	// older than that.
	Running bool
	// Displaced means that the machine of the instance is being vacated or needed for
	// something else, or was restarted: it ends through no fault of its own.
	Displaced bool
	Created   time.Time
	// Ports are the addresses of the ports of the Spec.
	Ports []Port
	// Host and Internal are addresses of the machine and of the instance.
	Host     string
	Internal string
}

// Port is one reachable port of an instance.
type Port struct {
	Inside  int    // the requested number, in Spec.Ports
	Listens int    // the number the instance listens on; differs with shared ports
	Address string // host:port to dial from the server
}

// Position is a position in an instance's record stream: the number of the last record that
// was read.
type Position uint64

// Stream is a reader of records.
type Stream interface {
	// Next waits for the next record. The record's memory is valid until the next call. It
	// returns io.EOF at the end.
	Next() (initproto.Record, error)
	// Ack says that the records up to a position are stored: the engine may delete them.
	// It may be called while Next blocks. The last record, initproto.EventEnded, is better
	// acknowledged by Remove: until then the engine can say how the instance ended, and
	// collect its files.
	Ack(upTo Position) error
	Close() error
}

// ExecRequest describes another process in an instance.
type ExecRequest struct {
	Args []string
	Env  []string // added to the main process's environment
	Dir  string   // empty means the home directory
	// Terminal requests a pseudo-terminal.
	Terminal *Terminal
}

// Terminal is the size and kind of a pseudo-terminal.
type Terminal struct {
	Term          string
	Columns, Rows int
}

// Process is a process started by Exec. Its outputs must be read, or it blocks when they
// are full, and Close must be called in the end.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.Reader
	Stderr() io.Reader // nil with a terminal
	Resize(columns, rows int) error
	// Signal sends a signal. It is not an error if the process has ended.
	Signal(number int) error
	// Wait returns the exit status; 128 + signal if killed.
	Wait() (status int, err error)
	// Close kills the process if it still runs, and waits for it.
	Close() error
}

// Usage is the resource usage of an instance.
type Usage struct {
	Time        time.Time
	CPUTime     time.Duration // since its start
	Memory      int64         // bytes
	MemoryLimit int64
	Disk        int64
	OOMKills    int64
	// Members are those of the instance, in the order of its Spec; empty if they are not
	// known.
	Members []MemberUsage
}
