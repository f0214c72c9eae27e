//go:build linux

package agentserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"ingot/internal/platform/instance/agentproto"
	"ingot/internal/platform/instance/initproto"
)

// launchLimit is how long a launch may take.
const launchLimit = 10 * time.Minute

// Launch is a complete launch: the files are unpacked.
type Launch struct {
	Spec initproto.Spec

	agent    *Agent
	memory   int64 // limit
	linger   time.Duration
	accepted chan struct{}
}

// Accept tells the server that the instance is launched, and makes it accessible.
func (l *Launch) Accept(i Instance) {
	l.agent.mu.Lock()
	defer l.agent.mu.Unlock()
	l.agent.phase, l.agent.launch, l.agent.instance = launched, l, i
	close(l.accepted)
}

// serveLaunch receives a launch. It counts when its last frame has arrived; otherwise it is
// forgotten with everything it brought.
func (a *Agent) serveLaunch(c *agentproto.Conn) error {
	if err := a.beginLaunch(); err != nil {
		return err
	}
	l, err := a.receiveLaunch(c)
	debug.FreeOSMemory() // it needed more than the agent will ever again
	if err != nil {
		err = errors.Join(err, removeAll(a.home, "."))
		a.mu.Lock()
		a.phase = waiting
		a.mu.Unlock()
		return err
	}
	a.launches <- l
	<-l.accepted
	return c.SendJSON(agentproto.Document, a.facts())
}

func (a *Agent) beginLaunch() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch a.phase {
	case waiting:
		a.phase = launching
		return nil
	case launching:
		return agentproto.Errorf(agentproto.Launching, "another launch is in progress")
	default:
		return agentproto.Errorf(agentproto.Launched, "the instance was launched before")
	}
}

func (a *Agent) receiveLaunch(c *agentproto.Conn) (*Launch, error) {
	until := time.Now().Add(launchLimit)
	var request agentproto.Launch
	if err := receive(c, agentproto.MaxSpec, &request); err != nil {
		return nil, err
	}
	l := &Launch{agent: a, memory: request.Memory, linger: request.Linger, accepted: make(chan struct{})}
	err := json.Unmarshal(request.Spec, &l.Spec)
	if err == nil {
		err = l.Spec.Validate()
	}
	if err == nil && l.Spec.Instance != a.c.Instance {
		err = errors.New("it is for another instance")
	}
	if err != nil {
		return nil, agentproto.Errorf(agentproto.Malformed, "spec: %s", err)
	}
	for i := 1; ; i++ {
		f := &frames{c: c, until: until}
		archive, err := f.announced()
		if err != nil {
			return nil, err
		}
		if archive == nil { // the last frame
			return l, setLimits(request.Files, request.PIDs)
		}
		if err := a.receiveArchive(f, archive, request.Disk); err != nil {
			return nil, fmt.Errorf("files %d, into %q: %w", i, archive.Target, err)
		}
	}
}

func (a *Agent) receiveArchive(f *frames, archive *agentproto.Archive, limit int64) error {
	f.sum = sha256.New()
	if err := unpack(a.home, archive.Target, f, limit); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, f); err != nil { // bytes after the archive, and the sum
		return err
	}
	if target := filepath.Clean(archive.Target); archive.ReadOnly && target != "." {
		return protect(a.home, target)
	}
	return nil
}

// frames reads the frames of a launch, and the bytes of an archive in them.
type frames struct {
	c     *agentproto.Conn
	until time.Time
	sum   hash.Hash
	size  int64
	rest  []byte
	over  bool
}

func (f *frames) receive() (agentproto.Type, []byte, error) {
	deadline := time.Now().Add(f.c.Patience)
	if deadline.After(f.until) {
		deadline = f.until
	}
	if err := f.c.SetReadDeadline(deadline); err != nil {
		return 0, nil, err
	}
	return f.c.Receive(agentproto.MaxFrame)
}

// announced returns the next archive, or nil after the last.
func (f *frames) announced() (*agentproto.Archive, error) {
	t, payload, err := f.receive()
	switch {
	case err != nil:
		return nil, err
	case t == agentproto.End:
		return nil, f.c.SetReadDeadline(time.Time{})
	case t != agentproto.Document:
		return nil, agentproto.Errorf(agentproto.Malformed, "a frame of type %d between archives", t)
	}
	var archive agentproto.Archive
	if err := json.Unmarshal(payload, &archive); err != nil {
		return nil, agentproto.Errorf(agentproto.Malformed, "archive: %s", err)
	}
	return &archive, nil
}

// Read reads the bytes of an archive. At the end it compares the checksum.
func (f *frames) Read(p []byte) (int, error) {
	for len(f.rest) == 0 {
		if f.over {
			return 0, io.EOF
		}
		t, payload, err := f.receive()
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.ErrUnexpectedEOF
		case err != nil:
			return 0, err
		case t == agentproto.Data:
			f.sum.Write(payload)
			f.size += int64(len(payload))
			f.rest = payload
		case t == agentproto.End:
			var told agentproto.Sum
			if json.Unmarshal(payload, &told) != nil || told.Size != f.size || !bytes.Equal(told.SHA256, f.sum.Sum(nil)) {
				return 0, agentproto.Errorf(agentproto.Malformed, "the checksum differs")
			}
			f.over = true
		default:
			return 0, agentproto.Errorf(agentproto.Malformed, "a frame of type %d in an archive", t)
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// rlimitNPROC limits the processes of a user.
const rlimitNPROC = 6

// setLimits sets limits that the members inherit. The number of processes is counted for
// the user, who in a user namespace is this instance's own.
func setLimits(files, pids int) error {
	if err := setLimit(syscall.RLIMIT_NOFILE, files); err != nil {
		return err
	}
	if !inUserNamespace() {
		return nil
	}
	return setLimit(rlimitNPROC, pids)
}

func setLimit(resource, n int) error {
	if n <= 0 {
		return nil
	}
	var now syscall.Rlimit
	if err := syscall.Getrlimit(resource, &now); err != nil {
		return err
	}
	limit := min(uint64(n), now.Max)
	return syscall.Setrlimit(resource, &syscall.Rlimit{Cur: limit, Max: limit})
}

// inUserNamespace reports whether the ids of this process are mapped to others.
func inUserNamespace() bool {
	content, err := os.ReadFile("/proc/self/uid_map")
	fields := strings.Fields(string(content))
	return err == nil && !(len(fields) == 3 && fields[0] == "0" && fields[1] == "0" && fields[2] == "4294967295")
}

func (a *Agent) facts() agentproto.Facts {
	return agentproto.Facts{Home: a.c.Home, UID: os.Getuid(), UserNamespace: inUserNamespace()}
}
