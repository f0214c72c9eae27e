//go:build linux

package container

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"

	"ingot/internal/base/rootless"
)

// users allocates ranges of host user ids, one for each instance. They are chosen at random,
// because other servers on this machine use the same space: above those of accounts, or for an
// ordinary user, who has few, among the subordinate ones.
type users struct {
	few   bool // an instance has the ids of fewIDs only
	first uint32
	slots uint32 // of size
	size  uint32
	mu    sync.Mutex
	taken map[uint32]bool
	kept  map[uint32]*os.File // user namespaces with that range, for mapped mounts
	idle  []uint32            // released ranges that have a namespace
}

const (
	firstRange = 1 << 30 / idRange
	lastRange  = 28671 // well below 2^31
	keptRanges = 64
)

// The ids inside an instance that an ordinary user's instances have: root and the groups of devices,
// vcap, and the user without rights.
const (
	fewLow   = 10
	nobodyID = 65534
	fewIDs   = fewLow + 2
)

func newUsers() *users {
	u := &users{taken: map[uint32]bool{}, kept: map[uint32]*os.File{}}
	u.first, u.slots, u.size = firstRange*idRange, lastRange-firstRange, idRange
	if s := rootless.Current(); s != nil {
		first, last := s.ForInstances()
		u.few, u.first, u.size = true, first, fewIDs
		u.slots = (last - first) / fewIDs
	}
	return u
}

var errNoIDs = errors.New("all subordinate user ids of the server's user are in use by other instances; " +
	"see docs/rootless.md")

// take returns the first id of a range that no instance of this engine has.
func (u *users) take() (uint32, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n := len(u.idle); n > 0 {
		base := u.idle[n-1]
		u.idle = u.idle[:n-1]
		u.taken[base] = true
		return base, nil
	}
	if len(u.taken) >= int(u.slots) {
		return 0, errNoIDs
	}
	for {
		base := u.first + rand.Uint32N(u.slots)*u.size
		if !u.taken[base] {
			u.taken[base] = true
			return base, nil
		}
	}
}

// mapping maps the ids of an instance to those outside.
func (u *users) mapping(base uint32) []syscall.SysProcIDMap {
	if !u.few {
		return idMap(base, false)
	}
	first := int(base)
	return []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: first, Size: fewLow},
		{ContainerID: vcapID, HostID: first + fewLow, Size: 1},
		{ContainerID: nobodyID, HostID: first + fewLow + 1, Size: 1},
	}
}

// outside returns the id that one of an instance has outside.
func (u *users) outside(base uint32, id int) int {
	for _, m := range u.mapping(base) {
		if id >= m.ContainerID && id < m.ContainerID+m.Size {
			return m.HostID + id - m.ContainerID
		}
	}
	return -1 // none, and nothing gets this owner
}

// adopt records the range of an instance of an earlier server.
func (u *users) adopt(base uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken[base] = true
}

// release releases a range.
func (u *users) release(base uint32) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.taken[base] {
		return
	}
	delete(u.taken, base)
	f, ok := u.kept[base]
	switch {
	case !ok:
	case len(u.idle) < keptRanges:
		u.idle = append(u.idle, base)
	default:
		_ = f.Close() // a name, not a file
		delete(u.kept, base)
	}
}

// namespace returns a user namespace with the range that starts at base. It is owned by u.
func (u *users) namespace(base uint32) (*os.File, error) {
	u.mu.Lock()
	f, ok := u.kept[base]
	u.mu.Unlock()
	if ok {
		return f, nil
	}
	f, err := newNamespace(u.mapping(base), u.mapping(base))
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.kept[base] = f
	return f, nil
}

func (u *users) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for base, f := range u.kept {
		_ = f.Close() // a name, not a file
		delete(u.kept, base)
	}
	u.idle = nil
}

// idMap maps the ids of an instance to those of the host. With swapped, root and vcap
// change places.
func idMap(base uint32, swapped bool) []syscall.SysProcIDMap {
	first := int(base)
	if !swapped {
		return []syscall.SysProcIDMap{{ContainerID: 0, HostID: first, Size: idRange}}
	}
	return []syscall.SysProcIDMap{
		{ContainerID: 0, HostID: first + vcapID, Size: 1},
		{ContainerID: 1, HostID: first + 1, Size: vcapID - 1},
		{ContainerID: vcapID, HostID: first, Size: 1},
		{ContainerID: vcapID + 1, HostID: first + vcapID + 1, Size: idRange - vcapID - 1},
	}
}

// newNamespace creates a user namespace. Only a process can, so one is started that the
// kernel stops before its first instruction, and killed.
func newNamespace(users, groups []syscall.SysProcIDMap) (_ *os.File, err error) {
	runtime.LockOSThread() // which traces it
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/proc/self/exe", []string{"ingot-users"}, &os.ProcAttr{
		Sys: &syscall.SysProcAttr{
			Cloneflags: syscall.CLONE_NEWUSER, UidMappings: users, GidMappings: groups,
			Ptrace: true, Pdeathsig: syscall.SIGKILL,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("user namespace: %w", err)
	}
	defer func() {
		kill := p.Kill()
		_, wait := p.Wait()
		if err == nil {
			err = errors.Join(kill, wait)
		}
	}()
	return os.Open("/proc/" + strconv.Itoa(p.Pid) + "/ns/user")
}
