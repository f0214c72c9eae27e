package platform

import (
	"fmt"

	"ingot/internal/base/fault"
)

// Scale is a change of the size of a process; nil leaves a value alone.
type Scale struct {
	Instances *int
	MemoryMB  *int
	DiskMB    *int
	LogRate   *int64
}

// MaxInstances bounds the instances of a process. Lists of them are made in
// memory.
const MaxInstances = 10_000

// maxMegabytes bounds the memory and the disk of an instance.
const maxMegabytes = 1 << 31

// MaxLogRate bounds the log rate of an instance, in bytes a second, so that sums of them do not
// overflow.
const MaxLogRate = 1 << 40

// checkLogRate returns what is wrong with a log rate, "" if nothing is.
func checkLogRate(n int64) string {
	switch {
	case n < -1:
		return "Log rate limit in bytes per second must be greater than or equal to -1"
	case n > MaxLogRate:
		return fmt.Sprintf("Log rate limit in bytes per second must be at most %d; -1 is unlimited", int64(MaxLogRate))
	}
	return ""
}

// Apply changes a process and returns what was asked for.
func (s Scale) Apply(process *Process) (map[string]any, error) {
	request := map[string]any{}
	if s.Instances != nil {
		if *s.Instances < 0 || *s.Instances > MaxInstances {
			return nil, fault.Invalid(fmt.Sprintf("Instances must be greater than or equal to 0 and at most %d", MaxInstances))
		}
		process.Instances = *s.Instances
		request["instances"] = *s.Instances
	}
	if s.MemoryMB != nil {
		if *s.MemoryMB <= 0 || *s.MemoryMB > maxMegabytes {
			return nil, fault.Invalid("Memory in mb must be greater than 0")
		}
		process.MemoryMB = *s.MemoryMB
		request["memory_in_mb"] = *s.MemoryMB
	}
	if s.DiskMB != nil {
		if *s.DiskMB <= 0 || *s.DiskMB > maxMegabytes {
			return nil, fault.Invalid("Disk in mb must be greater than 0")
		}
		process.DiskMB = *s.DiskMB
		request["disk_in_mb"] = *s.DiskMB
	}
	if s.LogRate != nil {
		if problem := checkLogRate(*s.LogRate); problem != "" {
			return nil, fault.Invalid(problem)
		}
		process.LogRate = *s.LogRate
		request["log_rate_limit_in_bytes_per_second"] = *s.LogRate
	}
	return request, nil
}
