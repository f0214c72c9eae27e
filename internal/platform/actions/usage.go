package actions

import "ingot/internal/platform"

// Usage is what apps, services and routes take, of a space, an organization or
// the whole platform. Quotas limit it.
type Usage struct {
	Instances        int // of started apps
	MemoryMB         int // of these and of tasks that are not over
	LogRate          int64
	UnlimitedLogs    bool // some of these have no limit of their log rate
	Tasks            int
	Routes           int
	ReservedPorts    int
	Domains          int // private ones
	ServiceInstances int // managed ones
	ServiceKeys      int
}

// Running returns what started apps and tasks use. Field is "space_guid" or
// "organization_guid", or empty for the whole platform.
func Running(tx platform.Tx, field, guid string) (u Usage, err error) {
	q := below(field, guid)
	apps, _, err := tx.Apps().List(withoutSecrets(q.And(platform.In("state", string(platform.AppStarted)))))
	if err != nil {
		return u, err
	}
	guids := make([]string, 0, len(apps))
	for _, app := range apps {
		guids = append(guids, app.GUID)
	}
	processes, _, err := tx.Processes().List(platform.Query{Where: []platform.Cond{platform.InStrings("app_guid", guids)}})
	if err != nil {
		return u, err
	}
	for _, p := range processes {
		u.Instances += p.Instances
		u.take(p.Instances, p.MemoryMB, p.LogRate)
	}
	tasks, _, err := tx.Tasks().List(withoutSecrets(q.And(platform.ActiveTasks())))
	for _, t := range tasks {
		u.Tasks++
		u.take(1, t.MemoryMB, t.LogRate)
	}
	return u, err
}

func (u *Usage) take(instances, memoryMB int, logRate int64) {
	u.MemoryMB += instances * memoryMB
	switch {
	case instances == 0:
	case logRate < 0:
		u.UnlimitedLogs = true
	default:
		u.LogRate += int64(instances) * min(logRate, platform.MaxLogRate)
	}
}

// UsageOf is like Running, and counts routes, services and domains as well.
func UsageOf(tx platform.Tx, field, guid string) (Usage, error) {
	u, err := Running(tx, field, guid)
	if err != nil {
		return u, err
	}
	q := below(field, guid)
	if u.Routes, err = tx.Routes().Count(q); err != nil {
		return u, err
	}
	if u.ReservedPorts, err = tx.Routes().Count(q.And(platform.Cond{Field: "port", Op: platform.OpGreater, Values: []any{0}})); err != nil {
		return u, err
	}
	if u.ServiceInstances, err = tx.ServiceInstances().Count(q.And(platform.In("type", platform.ServiceManaged))); err != nil {
		return u, err
	}
	if u.ServiceKeys, err = tx.ServiceBindings().Count(q.And(platform.In("type", platform.BindingKey))); err != nil || field == "space_guid" {
		return u, err
	}
	if field == "" {
		q = q.And(platform.Cond{Field: "organization_guid", Op: platform.OpNotNull})
	}
	u.Domains, err = tx.Domains().Count(q)
	return u, err
}

func below(field, guid string) platform.Query {
	if field == "" {
		return platform.Query{}
	}
	return platform.Where(field, guid)
}

func withoutSecrets(q platform.Query) platform.Query {
	q.WithoutSecrets = true
	return q
}
