package agentproto

import (
	"errors"
	"fmt"
	"time"
)

// The ports of an agent. Apps cannot use them.
const (
	Port      = 61001 // the protocol
	ReadyPort = 61002 // accepts connections only while the instance is ready
)

// The environment of an agent.
const (
	EnvInstance = "INGOT_INSTANCE" // the instance's id
	EnvSeed     = "INGOT_SEED"     // the seed of the agent's key, 32 bytes in base64
	EnvCA       = "INGOT_CA"       // the certificates whose clients it obeys, DER in base64
	EnvIP       = "INGOT_IP"       // the address to listen on
)

// The versions of the protocol.
const (
	Version = 1
	// Oldest is the oldest version that is still spoken: the one before Version, once
	// there is one.
	Oldest = 1
)

// Purpose is what a connection is for.
type Purpose byte

// The purposes of a connection, and what is exchanged after the hello. A document is JSON.
//
//	launch   → Document (Launch), for each archive Document (Archive), Data …, End;
//	         → End; ◀ Document (Facts)
//	records  → Ack (the position to read after), later Ack (what was stored);
//	         ◀ Data (whole records), Heartbeat, at the end End
//	exec     → Document (Exec); ◀ Document (empty); then streams, see Stdin
//	dial     → Document (Dial); ◀ Document (empty); then bytes without frames
//	collect  → Document (Collect); ◀ Data …, End
//	usage    ◀ Document (Usage)
//	stop     → Document (Stop); ◀ Document (empty)
//	state    ◀ Document (State)
const (
	ForLaunch Purpose = 1 + iota
	ForRecords
	ForExec
	ForDial
	ForCollect
	ForUsage
	ForStop
	ForState
)

var purposes = [...]string{"", "launch", "records", "exec", "dial", "collect", "usage", "stop", "state"}

func (p Purpose) String() string {
	if p.valid() {
		return purposes[p]
	}
	return fmt.Sprintf("purpose %d", byte(p))
}

func (p Purpose) valid() bool { return p > 0 && int(p) < len(purposes) }

// The limits of the protocol.
const (
	// MaxFrame limits the payload of every frame that is not a large document: a record
	// with its header fits.
	MaxFrame = 64<<10 + 256
	// Chunk is how much of a file or an output is sent in one frame.
	Chunk = 32 << 10
	// MaxSpec limits the document of a launch, which has the environment of every member.
	MaxSpec = 8 << 20
	// MaxDocument limits other documents, such as a state or the command of an exec.
	MaxDocument = 1 << 20
	// Window is how much of a stream of an exec the receiver buffers: the sender waits
	// for Credit after that many bytes.
	Window = 128 << 10
	// maxText limits the text of an error.
	maxText = 4 << 10
)

// The times of the protocol.
const (
	// HelloTime limits the handshake and the hello.
	HelloTime = 10 * time.Second
	// Beat is how often an agent sends on a connection for records; a server gives up
	// after Silence.
	Beat    = 10 * time.Second
	Silence = 30 * time.Second
	// Patience limits how long a peer may take to send or accept one frame in the middle
	// of an exchange.
	Patience = time.Minute
)

// Code says why an agent refused.
type Code byte

// The codes of an Error.
const (
	Internal    Code = 1 + iota // the agent failed
	Malformed                   // the request breaks the protocol
	BadVersion                  // no common version
	BadInstance                 // it is the agent of another instance
	Launched                    // the instance was launched before
	Launching                   // another launch is in progress
	NotLaunched                 // the instance was not launched yet
	Ended                       // the instance has ended
	NotFound                    // no such file or program
	TooLarge                    // the files exceed the disk limit
	Refused                     // the request is not possible, for example a connection
)

// Error is an agent's refusal.
type Error struct {
	Code Code
	Text string
}

func (e *Error) Error() string { return e.Text }

// Is reports whether target is an Error with the same code and no text.
func (e *Error) Is(target error) bool {
	var other *Error
	return errors.As(target, &other) && other.Text == "" && other.Code == e.Code
}

// Errorf returns an Error.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

// AsError returns err as the Error to send: itself, or Internal.
func AsError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return &Error{Code: e.Code, Text: err.Error()}
	}
	return &Error{Code: Internal, Text: err.Error()}
}

// Launch is the document of a launch.
type Launch struct {
	// Spec is the initproto.Spec as JSON, without placeholders.
	Spec []byte `json:"spec"`
	// Disk limits the size of each unpacked archive; 0 means no limit.
	Disk int64 `json:"disk,omitempty"`
	// Memory is the limit that Usage reports.
	Memory int64 `json:"memory,omitempty"`
	// Files and PIDs limit open files of a process and processes of the instance; 0
	// means the machine's limits. PIDs needs a user namespace.
	Files int `json:"files,omitempty"`
	PIDs  int `json:"pids,omitempty"`
	// Linger is how long the agent waits after the end for its last record to be
	// acknowledged; 0 means the agent's default.
	Linger time.Duration `json:"linger,omitempty"`
}

// Archive announces an archive of a launch.
type Archive struct {
	Target   string `json:"target,omitempty"` // below home
	ReadOnly bool   `json:"read_only,omitempty"`
}

// Sum is the payload of the End after data, as JSON: what was sent.
type Sum struct {
	Size   int64  `json:"size"`
	SHA256 []byte `json:"sha256"`
}

// Facts are what an agent reports about itself.
type Facts struct {
	Home string `json:"home"`
	UID  int    `json:"uid"`
	// UserNamespace means that the agent's ids differ from those of the machine.
	UserNamespace bool `json:"user_namespace"`
}

// Exec is the request for another process.
type Exec struct {
	Args     []string  `json:"args"`
	Env      []string  `json:"env,omitempty"` // added to the main process's
	Dir      string    `json:"dir,omitempty"` // relative to home
	Terminal *Terminal `json:"terminal,omitempty"`
}

// Terminal is a pseudo-terminal of an Exec.
type Terminal struct {
	Term    string `json:"term,omitempty"`
	Columns int    `json:"columns"`
	Rows    int    `json:"rows"`
}

// Dial is the request for a connection from inside the instance.
type Dial struct {
	Network string `json:"network"`
	Address string `json:"address"`
}

// Collect is the request for files.
type Collect struct {
	Path string `json:"path"` // below home, "." is home itself
}

// Stop is the request to stop the instance.
type Stop struct {
	// Kill kills the members at once, and the agent does not wait for acknowledgements.
	Kill bool `json:"kill,omitempty"`
}

// Usage is what an instance uses.
type Usage struct {
	Time        time.Time     `json:"time"`
	CPUTime     time.Duration `json:"cpu_time"`
	Memory      int64         `json:"memory"`
	MemoryLimit int64         `json:"memory_limit"`
	Disk        int64         `json:"disk"`
	OOMKills    int64         `json:"oom_kills"`
	// Members are those of the instance; agents of earlier versions send none.
	Members []MemberUsage `json:"members,omitempty"`
}

// MemberUsage is what one member uses.
type MemberUsage struct {
	// State is the initproto.MemberState as JSON.
	State   []byte        `json:"state"`
	CPUTime time.Duration `json:"cpu_time"`
	Memory  int64         `json:"memory"`
}

// State is the state of an instance.
type State struct {
	Launched bool `json:"launched"`
	// State is the initproto.State as JSON, if it was launched.
	State []byte `json:"state,omitempty"`
}
