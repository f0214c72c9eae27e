package platform

import "ingot/internal/cf"

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

// Running returns what started apps and tasks take below a place: field is
// "space_guid" or "organization_guid", or empty for the whole platform.
func Running(tx cf.Tx, field, guid string) (u Usage, err error) {
	q := below(field, guid)
	apps, _, err := tx.Apps().List(withoutSecrets(q.And(cf.In("state", string(cf.AppStarted)))))
	if err != nil {
		return u, err
	}
	guids := make([]string, 0, len(apps))
	for _, app := range apps {
		guids = append(guids, app.GUID)
	}
	processes, _, err := tx.Processes().List(cf.Query{Where: []cf.Cond{cf.InStrings("app_guid", guids)}})
	if err != nil {
		return u, err
	}
	for _, p := range processes {
		u.Instances += p.Instances
		u.take(p.Instances, p.MemoryMB, p.LogRate)
	}
	tasks, _, err := tx.Tasks().List(withoutSecrets(q.And(cf.ActiveTasks())))
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
		u.LogRate += int64(instances) * logRate
	}
}

// UsageOf returns all that is taken below a place, as Running has it.
func UsageOf(tx cf.Tx, field, guid string) (Usage, error) {
	u, err := Running(tx, field, guid)
	if err != nil {
		return u, err
	}
	q := below(field, guid)
	if u.Routes, err = tx.Routes().Count(q); err != nil {
		return u, err
	}
	if u.ReservedPorts, err = tx.Routes().Count(q.And(cf.Cond{Field: "port", Op: cf.OpGreater, Values: []any{0}})); err != nil {
		return u, err
	}
	if u.ServiceInstances, err = tx.ServiceInstances().Count(q.And(cf.In("type", cf.ServiceManaged))); err != nil {
		return u, err
	}
	if u.ServiceKeys, err = tx.ServiceBindings().Count(q.And(cf.In("type", cf.BindingKey))); err != nil || field == "space_guid" {
		return u, err
	}
	if field == "" {
		q = q.And(cf.Cond{Field: "organization_guid", Op: cf.OpNotNull})
	}
	u.Domains, err = tx.Domains().Count(q)
	return u, err
}

func below(field, guid string) cf.Query {
	if field == "" {
		return cf.Query{}
	}
	return cf.Where(field, guid)
}

func withoutSecrets(q cf.Query) cf.Query {
	q.WithoutSecrets = true
	return q
}
