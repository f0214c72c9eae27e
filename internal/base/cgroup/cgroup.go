package cgroup

import "errors"

// Limits are those of a group; 0 means none.
type Limits struct {
	// Memory is in bytes, swap included. With version 2 the kernel takes back memory before the limit
	// is reached; see High.
	Memory int64
	// Whole means that all processes are killed together if memory runs out: version 2 only.
	Whole bool
	// Processes includes threads.
	Processes int
	// Weight is the share of the processors when others want them too; a group
	// without has 100.
	Weight int
	// Cores is how many processors the group may use at a time.
	Cores float64
	// Spare is how many processors of the machine the group leaves to others, unless it has
	// no more.
	Spare int
}

// ErrNone means that this machine has no control groups that can be used.
var ErrNone = errors.New("no control groups for memory, processes and processors")
