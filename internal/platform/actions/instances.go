package actions

import (
	"maps"
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

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
	found, _, err := tx.Instances().List(platform.Query{Where: []platform.Cond{platform.InStrings("process_guid", slices.Collect(maps.Keys(out)))}})
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
		if gone := one.State == platform.InstanceCrashed || one.State == platform.InstanceDown; !gone && rows[one.Index] == nil {
			going := *one
			going.State = platform.InstanceStopping
			rows[one.Index] = &going
		}
	}
	return out, nil
}

// RestartInstance asks the server that works on the app to replace an instance gracefully.
// That does not count as a crash, and resets the crash count.
func (p *Platform) RestartInstance(tx platform.Tx, by Actor, app *platform.App, process *platform.Process, index int) error {
	if index < 0 || index >= process.Instances {
		return fault.New(fault.NotFound, "Instance not found")
	}
	asked, err := tx.InstanceRestarts().Count(platform.Where("process_guid", process.GUID).And(platform.In("index", index)))
	if err != nil {
		return err
	}
	if asked == 0 {
		if err := tx.InstanceRestarts().Insert(&platform.InstanceRestart{AppGUID: app.GUID, ProcessGUID: process.GUID, Index: index}); err != nil {
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
