package actions

import (
	"fmt"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// Quotas are checked in the transaction that would exceed them, after it has
// written: what is counted includes what is asked for, and when two race, one
// is retried. Only what grows is refused, so that usage can
// be reduced step by step after a quota was lowered.

// limited is a space or organization with the limits of its quota.
type limited struct {
	field, guid string // "space_guid" or "organization_guid"
	kind, name  string // "space" or "organization"
	platform.Limits
}

// limitsOf returns the quotas that hold in a space: that of the space, if it has
// one, and that of its organization.
func limitsOf(tx platform.Tx, spaceGUID string) ([]limited, error) {
	space, err := tx.Spaces().Get(spaceGUID)
	if err != nil {
		return nil, err
	}
	var out []limited
	if space.QuotaGUID != "" {
		q, err := tx.SpaceQuotas().Get(space.QuotaGUID)
		if err != nil {
			return nil, err
		}
		out = append(out, limited{"space_guid", space.GUID, "space", space.Name, q.Limits})
	}
	more, err := orgLimits(tx, space.OrgGUID)
	return append(out, more...), err
}

func orgLimits(tx platform.Tx, guid string) ([]limited, error) {
	org, err := tx.Organizations().Get(guid)
	if err != nil || org.QuotaGUID == "" {
		return nil, err
	}
	q, err := tx.OrganizationQuotas().Get(org.QuotaGUID)
	if err != nil {
		return nil, err
	}
	return []limited{{"organization_guid", org.GUID, "organization", org.Name, q.Limits}}, nil
}

// demand is what something takes when it runs.
type demand struct {
	instances, memoryMB int
	logRate             int64 // -1 is unlimited
}

// demandOf is what a process of a started app takes.
func demandOf(app *platform.App, process *platform.Process) demand {
	if app.State != platform.AppStarted || process.Instances == 0 {
		return demand{}
	}
	d := demand{process.Instances, process.Instances * process.MemoryMB, -1}
	if process.LogRate >= 0 {
		d.logRate = int64(process.Instances) * min(process.LogRate, platform.MaxLogRate)
	}
	return d
}

func (d demand) plus(more demand) demand {
	sum := demand{d.instances + more.instances, d.memoryMB + more.memoryMB, d.logRate + more.logRate}
	if d.logRate < 0 || more.logRate < 0 {
		sum.logRate = -1
	}
	return sum
}

// moreLogs reports whether d may log more than before.
func (d demand) moreLogs(before demand) bool {
	return before.logRate >= 0 && (d.logRate < 0 || d.logRate > before.logRate)
}

// processTerms are Cloud Foundry's names of what a process exceeds, with those of
// a space second.
var processTerms = map[string][2]string{
	"memory":  {"memory quota_exceeded", "memory space_quota_exceeded"},
	"process": {"memory instance_memory_limit_exceeded", "memory space_instance_memory_limit_exceeded"},
	"instances": {"app_instance_limit app_instance_limit_exceeded",
		"app_instance_limit space_app_instance_limit_exceeded"},
	"logs": {"log_rate_limit exceeds organization log rate quota", "log_rate_limit exceeds space log rate quota"},
}

// taskTerms are those of a task.
var taskTerms = map[string][2]string{
	"memory": {"The task request is invalid: memory_in_mb exceeds organization memory quota",
		"The task request is invalid: memory_in_mb exceeds space memory quota"},
	"process": {"The task request is invalid: memory_in_mb exceeds organization instance memory quota",
		"The task request is invalid: memory_in_mb exceeds space instance memory quota"},
	"tasks": {"The task request is invalid: app_task_limit quota exceeded",
		"The task request is invalid: app_task_limit space quota exceeded"},
	"logs": {"The task request is invalid: log_rate_limit exceeds organization log rate quota",
		"The task request is invalid: log_rate_limit exceeds space log rate quota"},
}

// exceeded is the refusal of what a quota does not allow. It begins with Cloud
// Foundry's words and continues with what would help.
func (l limited) exceeded(terms map[string][2]string, what, format string, args ...any) error {
	term := terms[what][0]
	if l.kind == "space" {
		term = terms[what][1]
	}
	return fault.New(fault.Unprocessable, "%s: the quota of the %s '%s' allows %s.", term, l.kind, l.name,
		fmt.Sprintf(format, args...))
}

// oneFits refuses more memory for one instance than quotas allow.
func oneFits(limits []limited, memoryMB int, terms map[string][2]string) error {
	for _, l := range limits {
		if l.ProcessMemoryMB != nil && memoryMB > *l.ProcessMemoryMB {
			return l.exceeded(terms, "process", "%d MB for one instance, not %d MB", *l.ProcessMemoryMB, memoryMB)
		}
	}
	return nil
}

// allFit refuses what runs now, of which before is what did, if quotas do not
// allow it.
func allFit(tx platform.Tx, limits []limited, before, now demand, terms map[string][2]string) error {
	for _, l := range limits {
		memory := l.MemoryMB != nil && now.memoryMB > before.memoryMB
		instances := l.Instances != nil && now.instances > before.instances
		logs := l.LogRate != nil && now.moreLogs(before)
		if !memory && !instances && !logs {
			continue
		}
		used, err := Running(tx, l.field, l.guid)
		switch {
		case err != nil:
			return err
		case memory && used.MemoryMB > *l.MemoryMB:
			return l.exceeded(terms, "memory", "%d MB for all that runs, and with this it would be %d MB", *l.MemoryMB,
				used.MemoryMB)
		case instances && used.Instances > *l.Instances:
			return l.exceeded(terms, "instances", "%d instances, and with this there would be %d", *l.Instances, used.Instances)
		case logs && now.logRate < 0:
			return fault.New(fault.Unprocessable,
				"log_rate_limit cannot be unlimited in %s '%s'. Set a log rate limit, as its quota allows %d bytes per second.",
				l.kind, l.name, *l.LogRate)
		case logs && used.LogRate > *l.LogRate:
			return l.exceeded(terms, "logs", "%d bytes per second for all that runs, and with this it would be %d", *l.LogRate,
				used.LogRate)
		}
	}
	return nil
}

// processFits refuses a process, which is stored already and took before, if
// quotas do not allow what it takes now. Its memory is looked at when sized is set.
func processFits(tx platform.Tx, app *platform.App, process *platform.Process, before demand, sized bool) error {
	limits, err := limitsOf(tx, app.SpaceGUID)
	if err != nil {
		return err
	}
	if sized {
		if err := oneFits(limits, process.MemoryMB, processTerms); err != nil {
			return err
		}
	}
	return allFit(tx, limits, before, demandOf(app, process), processTerms)
}

// appFits refuses an app that was just started.
func appFits(tx platform.Tx, app *platform.App, processes []*platform.Process) error {
	limits, err := limitsOf(tx, app.SpaceGUID)
	if err != nil {
		return err
	}
	var sum demand
	for _, process := range processes {
		if process.Instances > 0 {
			if err := oneFits(limits, process.MemoryMB, processTerms); err != nil {
				return err
			}
		}
		sum = sum.plus(demandOf(app, process))
	}
	return allFit(tx, limits, demand{}, sum, processTerms)
}

// DefaultMemory is the memory, in MB, of a process or task of an app if
// the user gives none: the platform's default, or less if quotas allow
// one instance less.
func (p *Platform) DefaultMemory(tx platform.Tx, app *platform.App) (int, error) {
	memoryMB := p.MemoryMB
	limits, err := limitsOf(tx, app.SpaceGUID)
	for _, l := range limits {
		if l.ProcessMemoryMB != nil && *l.ProcessMemoryMB > 0 {
			memoryMB = min(memoryMB, *l.ProcessMemoryMB)
		}
	}
	return memoryMB, err
}

// taskFits refuses a task that was just stored.
func taskFits(tx platform.Tx, app *platform.App, t *platform.Task) error {
	limits, err := limitsOf(tx, app.SpaceGUID)
	if err != nil {
		return err
	}
	if err := oneFits(limits, t.MemoryMB, taskTerms); err != nil {
		return err
	}
	for _, l := range limits {
		if l.Tasks == nil {
			continue
		}
		n, err := tx.Tasks().Count(platform.Where("app_guid", app.GUID).And(platform.ActiveTasks()))
		if err != nil {
			return err
		}
		if n > *l.Tasks {
			return l.exceeded(taskTerms, "tasks", "%d tasks of an app at a time", *l.Tasks)
		}
	}
	return allFit(tx, limits, demand{}, demand{memoryMB: t.MemoryMB, logRate: max(-1, t.LogRate)}, taskTerms)
}

// counted refuses one more of something that quotas limit by number.
func counted(limits []limited, of func(platform.Limits) *int, count func(platform.Query) (int, error),
	refuse func(l limited) error) error {
	for _, l := range limits {
		most := of(l.Limits)
		if most == nil {
			continue
		}
		n, err := count(platform.Where(l.field, l.guid))
		if err != nil {
			return err
		}
		if n > *most {
			return refuse(l)
		}
	}
	return nil
}

// routeFits refuses a route that was just stored.
func (p *Platform) routeFits(tx platform.Tx, r *platform.Route) error {
	limits, err := limitsOf(tx, r.SpaceGUID)
	if err != nil {
		return err
	}
	err = counted(limits, func(l platform.Limits) *int { return l.Routes }, tx.Routes().Count, func(l limited) error {
		return fault.New(fault.Unprocessable, "Routes quota exceeded for %s '%s'.", l.kind, l.name)
	})
	if err != nil || r.Port == 0 {
		return err
	}
	reserved := func(q platform.Query) (int, error) {
		return tx.Routes().Count(q.And(platform.Cond{Field: "port", Op: platform.OpGreater, Values: []any{0}}))
	}
	if limits, err = p.defaultPorts(tx, r.SpaceGUID, limits); err != nil {
		return err
	}
	return counted(limits, func(l platform.Limits) *int { return l.ReservedPorts }, reserved, func(l limited) error {
		return fault.New(fault.Unprocessable, "Reserved route ports quota exceeded for %s '%s'.", l.kind, l.name)
	})
}

// fewPorts is the number of ports that a space can always have.
const fewPorts = 5

// defaultPorts adds limits of reserved ports where no quota has one, because all spaces share
// the ports: a tenth of them for a space, a quarter for an organization.
func (p *Platform) defaultPorts(tx platform.Tx, spaceGUID string, limits []limited) ([]limited, error) {
	if slices.ContainsFunc(limits, func(l limited) bool { return l.ReservedPorts != nil }) {
		return limits, nil
	}
	space, err := tx.Spaces().Get(spaceGUID)
	if err != nil {
		return nil, err
	}
	org, err := tx.Organizations().Get(space.OrgGUID)
	if err != nil {
		return nil, err
	}
	n := p.TCP.Ports.Count()
	ofSpace, ofOrg := max(n/10, fewPorts), max(n/4, fewPorts)
	return []limited{
		{"space_guid", space.GUID, "space", space.Name, platform.Limits{ReservedPorts: &ofSpace}},
		{"organization_guid", org.GUID, "organization", org.Name, platform.Limits{ReservedPorts: &ofOrg}},
	}, nil
}

// domainFits refuses a private domain that was just stored.
func domainFits(tx platform.Tx, orgGUID string) error {
	limits, err := orgLimits(tx, orgGUID)
	if err != nil {
		return err
	}
	return counted(limits, func(l platform.Limits) *int { return l.Domains }, tx.Domains().Count, func(l limited) error {
		return fault.New(fault.Unprocessable, "The number of private domains exceeds the quota for organization \"%s\"",
			l.name)
	})
}

// InstanceFits refuses a managed service instance that was just stored.
func InstanceFits(tx platform.Tx, spaceGUID string) error {
	limits, err := limitsOf(tx, spaceGUID)
	if err != nil {
		return err
	}
	count := func(q platform.Query) (int, error) {
		return tx.ServiceInstances().Count(q.And(platform.In("type", platform.ServiceManaged)))
	}
	return counted(limits, func(l platform.Limits) *int { return l.ServiceInstances }, count, func(l limited) error {
		return fault.New(fault.Unprocessable, "You have exceeded your %s's services limit.", l.kind)
	})
}

// PlanAllowed refuses a plan that costs money where a quota does not allow it.
func PlanAllowed(tx platform.Tx, spaceGUID string, plan *platform.ServicePlan) error {
	if plan.Free {
		return nil
	}
	limits, err := limitsOf(tx, spaceGUID)
	for _, l := range limits {
		if !l.PaidServices {
			return fault.New(fault.Unprocessable,
				"The service instance cannot be created because paid service plans are not allowed for your %s.", l.kind)
		}
	}
	return err
}

// KeyFits refuses a service key that was just stored.
func KeyFits(tx platform.Tx, spaceGUID string) error {
	limits, err := limitsOf(tx, spaceGUID)
	if err != nil {
		return err
	}
	count := func(q platform.Query) (int, error) {
		return tx.ServiceBindings().Count(q.And(platform.In("type", platform.BindingKey)))
	}
	return counted(limits, func(l platform.Limits) *int { return l.ServiceKeys }, count, func(l limited) error {
		return fault.New(fault.Unprocessable, "You have exceeded your %s's limit for service binding of type key.", l.kind)
	})
}
