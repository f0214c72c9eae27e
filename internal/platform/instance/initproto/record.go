package initproto

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"
)

// Kind is the kind of a record.
type Kind byte

// The kinds of record.
const (
	Stdout Kind = 'o'
	Stderr Kind = 'e'
	Event  Kind = 'v' // the payload is an EventBody as JSON
)

// Record is one line of the stream.
//
//	o 1794710014123456789 4711 0 the text of the line
//	│ │                   │    │ └ payload, without line breaks
//	│ │                   │    └ index of the member
//	│ │                   └ sequence number, from 1, without gaps: a gap is a loss
//	│ └ nanoseconds
//	└ kind
type Record struct {
	Kind    Kind
	Time    time.Time
	Seq     uint64
	Member  int
	Payload []byte
}

// Append writes the record with its line break to b.
func (r Record) Append(b []byte) []byte {
	b = append(b, byte(r.Kind), ' ')
	b = strconv.AppendInt(b, r.Time.UnixNano(), 10)
	b = append(b, ' ')
	b = strconv.AppendUint(b, r.Seq, 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(r.Member), 10)
	b = append(b, ' ')
	b = append(b, r.Payload...)
	return append(b, '\n')
}

// ErrRecord means that a line is not a record: the stream is damaged there.
var ErrRecord = errors.New("not a record")

// ParseRecord parses one line, with or without its line break. It accepts exactly what
// Append writes: no other signs, spaces or leading zeros. The payload shares line's memory.
func ParseRecord(line []byte) (Record, error) {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if len(line) < 2 || line[1] != ' ' || bytes.IndexByte(line, '\n') >= 0 {
		return Record{}, ErrRecord
	}
	kind := Kind(line[0])
	if kind != Stdout && kind != Stderr && kind != Event {
		return Record{}, ErrRecord
	}
	rest := line[2:]
	negative := len(rest) > 1 && rest[0] == '-' && rest[1] != '0'
	if negative {
		rest = rest[1:]
	}
	ns, rest, ok1 := cutNumber(rest, math.MaxInt64)
	seq, rest, ok2 := cutNumber(rest, math.MaxUint64)
	member, rest, ok3 := cutNumber(rest, math.MaxInt32)
	if !ok1 || !ok2 || !ok3 {
		return Record{}, ErrRecord
	}
	at := int64(ns)
	if negative {
		at = -at
	}
	return Record{Kind: kind, Time: time.Unix(0, at).UTC(), Seq: seq, Member: int(member), Payload: rest}, nil
}

// cutNumber parses a number and the space after it.
func cutNumber(b []byte, limit uint64) (n uint64, rest []byte, ok bool) {
	for i, c := range b {
		switch {
		case c == ' ':
			return n, b[i+1:], i > 0 && (i == 1 || b[0] != '0')
		case c < '0' || c > '9':
			return 0, nil, false
		}
		digit := uint64(c - '0')
		if n > (limit-digit)/10 {
			return 0, nil, false
		}
		n = n*10 + digit
	}
	return 0, nil, false
}

// EventKind is the kind of an event.
type EventKind string

// The events of an instance.
const (
	EventStarted   EventKind = "started"   // all members run
	EventHealthy   EventKind = "healthy"   // the health check passed
	EventUnhealthy EventKind = "unhealthy" // it failed for good: members are being stopped
	EventWaiting   EventKind = "waiting"   // a member is not healthy yet, for a reason that is worth a message
	EventReady     EventKind = "ready"
	EventNotReady  EventKind = "not-ready"
	EventExited    EventKind = "exited"  // one member ended
	EventDropped   EventKind = "dropped" // output was over the rate limit
	EventEnded     EventKind = "ended"   // the last record: all members ended
	// Of a member that the instance can do without for a while, or altogether.
	EventRestarted       EventKind = "restarted"        // it was started again
	EventMemberUnhealthy EventKind = "member-unhealthy" // its own check failed: it is being stopped
)

// EventBody is the payload of an Event record. Fields that do not belong to
// the kind are zero.
type EventBody struct {
	Event EventKind `json:"event"`
	// Exited: the member, and whether it was told to stop. Ended: Status and OOM are those
	// of the Exit.
	Status    int  `json:"status,omitempty"` // exit status; 128 + signal when killed
	Signaled  bool `json:"signaled,omitempty"`
	OOM       bool `json:"oom,omitempty"`
	Cancelled bool `json:"cancelled,omitempty"`
	Overdue   bool `json:"overdue,omitempty"` // it had to be killed after the grace period
	// Restart, of Exited: the member is started again after this time; the instance lives.
	Restart time.Duration `json:"restart,omitempty"`
	// Harmless, of Exited: the instance lives on without the member.
	Harmless bool `json:"harmless,omitempty"`
	// Stopped, of Ended: the instance was told to stop.
	Stopped bool `json:"stopped,omitempty"`
	// Ready, of Healthy: the instance is ready, too. EventReady follows for older servers.
	Ready bool `json:"ready,omitempty"`
	// Final, of Unhealthy: another start would fail in the same way.
	Final bool `json:"final,omitempty"`
	// Unhealthy, Waiting and NotReady: why. Exited: why, if the status does not say it. Ended: the exit
	// description.
	Reason string `json:"reason,omitempty"`
	// Dropped: the amount since the last record.
	Lines int64 `json:"lines,omitempty"`
	Bytes int64 `json:"bytes,omitempty"`
	// Rate, of Dropped: the limit in bytes a second.
	Rate int64 `json:"rate,omitempty"`
}

// JSON returns the payload of the event.
func (e EventBody) JSON() []byte {
	b, err := json.Marshal(e)
	if err != nil {
		panic(err) // plain fields only
	}
	return b
}

// State is the newest state of an instance, written to StateFile before the record of the
// change, so that a restarted server knows the state without reading the whole stream.
type State struct {
	// Protocol is the version that a server must know to understand it: what the spec of the
	// instance Needs. 0 means 1.
	Protocol int `json:"protocol,omitempty"`

	Phase   Phase         `json:"phase"`
	Ready   bool          `json:"ready"`
	Since   time.Time     `json:"since"` // of the phase
	Seq     uint64        `json:"seq"`   // the last record written
	PID     int           `json:"pid"`   // of ingot-init, as it sees itself
	Members []MemberState `json:"members"`
	// Exit says how the instance ended, in the phase Ended.
	Exit *Exit `json:"exit,omitempty"`
}

// MemberState is the state of one member.
type MemberState struct {
	Name   string `json:"name"`
	PID    int    `json:"pid"`
	Exited bool   `json:"exited"`
	Status int    `json:"status"`
	// Since is when it was started, Restarts how often again.
	Since    time.Time `json:"since,omitzero"`
	Restarts int       `json:"restarts,omitempty"`
	// Waiting means that it has not been started yet, or will be again.
	Waiting bool `json:"waiting,omitempty"`
	// LastExit is how its last life ended; nil if it has not exited yet.
	LastExit *MemberExit `json:"last_exit,omitempty"`
}

// MemberExit is how one life of a member ended.
type MemberExit struct {
	Status int       `json:"status"` // 128 + signal when killed
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
	OOM    bool      `json:"oom,omitempty"`
}

// Exit describes how an instance ended.
type Exit struct {
	// Status is that of the main process, or of the member that ended first.
	Status int `json:"status"`
	// Description names the member that exited: "APP/PROC/WEB: Exited with status 137".
	Description string `json:"description"`
	// Stopped means that the instance was told to stop.
	Stopped bool `json:"stopped"`
	OOM     bool `json:"oom"`
}

// Phase is how far an instance is.
//
//	Starting ──healthy──▶ Running ──┐
//	    │                           ├──▶ Stopping ──▶ Ended
//	    └──exit, stop or unhealthy──┘
type Phase string

// The phases of an instance.
const (
	Starting Phase = "starting"
	Running  Phase = "running"
	Stopping Phase = "stopping"
	Ended    Phase = "ended"
)
