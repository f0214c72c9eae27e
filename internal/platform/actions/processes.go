package actions

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// ScaleProcess changes how many instances there are and what each may use. The
// number takes effect at once, the rest with the next start.
func (p *Platform) ScaleProcess(tx platform.Tx, by Actor, app *platform.App, process *platform.Process,
	s platform.Scale, manifest bool) error {
	announceApp(tx, app.GUID)
	if err := whileDeploying(tx, process, fault.DeployingScale,
		"Cannot scale this process while a deployment is in flight."); err != nil {
		return err
	}
	before, instances := demandOf(app, process), process.Instances
	request, err := s.Apply(process)
	if err != nil {
		return err
	}
	if s.MemoryMB != nil {
		if err := leavesMemory(tx, process); err != nil {
			return err
		}
	}
	if err := tx.Processes().Update(process); err != nil {
		return err
	}
	if err := processFits(tx, app, process, before, s.MemoryMB != nil || process.Instances > instances); err != nil {
		return err
	}
	data := map[string]any{"process_guid": process.GUID, "process_type": process.Type, "request": request}
	if manifest {
		data[ManifestTriggered] = true
	}
	return p.RecordApp(tx, "audit.app.process.scale", by, app, data)
}

// ProcessOf returns the process of a type: the newest one if a deployment replaces
// it.
func ProcessOf(tx platform.Tx, appGUID, kind string) (*platform.Process, error) {
	q := platform.Where("app_guid", appGUID).And(platform.In("type", kind))
	q.Desc = true
	return tx.Processes().First(q)
}

// webProcesses returns all web processes of an app, the oldest first.
func webProcesses(tx platform.Tx, appGUID string) ([]*platform.Process, error) {
	all, _, err := tx.Processes().List(platform.Where("app_guid", appGUID).And(platform.In("type", platform.WebProcess)))
	return all, err
}

// SidecarsOf returns the sidecars that run beside a process.
func SidecarsOf(tx platform.Tx, process *platform.Process) ([]*platform.Sidecar, error) {
	all, _, err := tx.Sidecars().List(platform.Where("app_guid", process.AppGUID))
	return slices.DeleteFunc(all, func(s *platform.Sidecar) bool {
		return !slices.Contains(s.ProcessTypes,
			process.Type)
	}), err
}

// CreateProcess stores a new process of an app. Its sidecars may be there
// before it.
func (p *Platform) CreateProcess(tx platform.Tx, by Actor, app *platform.App, process *platform.Process) error {
	if err := leavesMemory(tx, process); err != nil {
		return err
	}
	if err := tx.Processes().Insert(process); err != nil {
		return err
	}
	tx.Announce(platform.Changes{Names: true})
	if err := processFits(tx, app, process, demand{}, true); err != nil {
		return err
	}
	return p.RecordApp(tx, "audit.app.process.create", by, app, map[string]any{"process_guid": process.GUID,
		"process_type": process.Type})
}

// leavesMemory refuses a process whose sidecars would leave it nothing.
func leavesMemory(tx platform.Tx, process *platform.Process) error {
	sidecars, err := SidecarsOf(tx, process)
	if err != nil {
		return err
	}
	if used := sidecarMemory(sidecars); used > 0 && used >= process.MemoryMB {
		return fault.Invalid("The requested memory allocation is not large enough to run all of your sidecar processes." +
			figures(process, sidecars))
	}
	return nil
}

func sidecarMemory(sidecars []*platform.Sidecar) int {
	sum := 0
	for _, s := range sidecars {
		sum += s.MemoryMB
	}
	return sum
}

// UpdateProcess stores a process whose command or checks changed.
func (p *Platform) UpdateProcess(tx platform.Tx, by Actor, app *platform.App, process *platform.Process,
	request map[string]any) error {
	if err := whileDeploying(tx, process, fault.DeployingUpdate,
		"Cannot update this process while a deployment is in flight."); err != nil {
		return err
	}
	if len([]rune(process.Command)) > 4096 {
		return fault.Invalid("Command must be between 1 and 4096 characters")
	}
	if err := platform.CheckHealth(process.Health, "Health check"); err != nil {
		return err
	}
	if err := platform.CheckHealth(process.Readiness, "Readiness health check"); err != nil {
		return err
	}
	if least := process.MinHealthy; least != nil && (*least < 0 || *least > platform.MaxMinHealthy) {
		return fault.Invalid(fmt.Sprintf("Min healthy time must be between 0 and %d seconds", platform.MaxMinHealthy))
	}
	if err := platform.CheckOnCredentials(process.OnCredentials); err != nil {
		return err
	}
	if err := tx.Processes().Update(process); err != nil {
		return err
	}
	data := requestData(request)
	data["process_guid"], data["process_type"] = process.GUID, process.Type
	return p.RecordApp(tx, "audit.app.process.update", by, app, data)
}

// PortsOf returns the ports a process has to listen on: those its routes lead
// to, the first being its PORT. Routes without a port lead to fallback.
func PortsOf(tx platform.Tx, process *platform.Process, fallback int) ([]int, error) {
	mapped, _, err := tx.Destinations().List(platform.Where("app_guid", process.AppGUID).
		And(platform.In("process_type", process.Type)))
	if err != nil {
		return nil, err
	}
	var ports []int
	for _, d := range mapped {
		port := cmp.Or(d.Port, fallback)
		if !slices.Contains(ports, port) {
			ports = append(ports, port)
		}
	}
	if len(ports) == 0 {
		return []int{fallback}, nil
	}
	slices.SortStableFunc(ports, func(a, b int) int {
		// The default comes first: it is what PORT is as long as a route
		// leads there.
		switch {
		case a == fallback:
			return -1
		case b == fallback:
			return 1
		}
		return 0
	})
	return ports, nil
}

// InstancesOf returns the instances of processes by guid and index; nil stands for one
// that is wanted and not there. Those of a stopped app are wanted as soon as it
// starts, and are down until then, as clients expect.
func InstancesOf(tx platform.Tx, items []*platform.Process) (map[string][]*platform.Instance, error) {
	out := map[string][]*platform.Instance{}
	version := map[string]string{}
	for _, process := range items {
		out[process.GUID] = make([]*platform.Instance, process.Instances)
		version[process.GUID] = process.Version
	}
	found, _, err := tx.Instances().
		List(platform.Query{Where: []platform.Cond{platform.InStrings("process_guid", slices.Collect(maps.Keys(out)))}})
	if err != nil {
		return nil, err
	}
	for _, one := range found {
		rows := out[one.ProcessGUID]
		if one.Index >= len(rows) {
			continue
		}
		if one.Version == version[one.ProcessGUID] {
			rows[one.Index] = one
			continue
		}
		// An instance of an older version is about to be stopped. Shown as RUNNING
		// or CRASHED, a client would take its restart for finished.
		if gone := one.State == platform.InstanceCrashed || one.State == platform.InstanceDown; !gone &&
			rows[one.Index] == nil {
			going := *one
			going.State = platform.InstanceStopping
			rows[one.Index] = &going
		}
	}
	return out, nil
}

// RestartInstance asks the server that works on the app to replace an instance gracefully.
// That does not count as a crash, and resets the crash count.
func (p *Platform) RestartInstance(tx platform.Tx, by Actor, app *platform.App, process *platform.Process,
	index int) error {
	announceApp(tx, app.GUID)
	if index < 0 || index >= process.Instances {
		return fault.New(fault.NotFound, "Instance not found")
	}
	asked, err := tx.InstanceRestarts().Count(platform.Where("process_guid", process.GUID).
		And(platform.In("index", index)))
	if err != nil {
		return err
	}
	if asked == 0 {
		if err := tx.InstanceRestarts().Insert(&platform.InstanceRestart{AppGUID: app.GUID, ProcessGUID: process.GUID,
			Index: index}); err != nil {
			return err
		}
	}
	return p.RecordApp(tx, "audit.app.process.terminate_instance", by, app, map[string]any{
		"process_guid": process.GUID, "process_type": process.Type, "process_index": index,
	})
}

// InstanceAt returns the instance that counts at an index of a process, as in
// its stats; nil if there is none.
func InstanceAt(tx platform.Tx, process *platform.Process, index int) (*platform.Instance, error) {
	rows, err := InstancesOf(tx, []*platform.Process{process})
	if all := rows[process.GUID]; err == nil && index >= 0 && index < len(all) {
		return all[index], nil
	}
	return nil, err
}
