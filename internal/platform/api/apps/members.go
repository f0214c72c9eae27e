package apps

import "time"

// memberBody is one member of an instance in the statistics of its process.
type memberBody struct {
	Name        string      `json:"name"`
	Type        string      `json:"type"` // process, sidecar
	State       string      `json:"state"`
	Since       *string     `json:"since"` // when its current life began
	CPU         float64     `json:"cpu"`
	Memory      int64       `json:"mem"`
	MemoryQuota *int64      `json:"mem_quota"` // of its own, enforced
	Restarts    int         `json:"restarts"`
	LastExit    *MemberExit `json:"last_exit"`
}

func presentMembers(members []MemberUsage) []memberBody {
	list := make([]memberBody, 0, len(members))
	for _, m := range members {
		b := memberBody{Name: m.Name, Type: "process", State: m.State, CPU: m.CPU, Memory: m.Memory, Restarts: m.Restarts,
			LastExit: m.LastExit}
		if m.Sidecar {
			b.Type = "sidecar"
		}
		if !m.Since.IsZero() {
			since := m.Since.UTC().Format(time.RFC3339)
			b.Since = &since
		}
		if m.MemoryLimit > 0 {
			b.MemoryQuota = &m.MemoryLimit
		}
		list = append(list, b)
	}
	return list
}
