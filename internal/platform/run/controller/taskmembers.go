package controller

import (
	"context"
	"maps"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/instance/initproto"
)

// taskPlan is the content of the instance of a task according to the store.
type taskPlan struct {
	task     *platform.Task
	app      *platform.App
	droplet  *platform.Droplet
	sidecars []*platform.Sidecar
	memory   map[string]int // of sidecars, by name
	mainMB   int
	env      map[string]string // of the command
	envs     map[string]map[string]string
	files    map[string][]byte
	where    *actions.AppInfo
}

func (j *job) planOf(ctx context.Context, task *platform.Task) (*taskPlan, error) {
	var p *taskPlan
	err := j.Store.View(ctx, func(tx platform.Tx) error {
		p = &taskPlan{task: task, envs: map[string]map[string]string{}}
		var err error
		if p.app, err = tx.Apps().Get(task.AppGUID); err != nil {
			return err
		}
		p.droplet, err = tx.Droplets().Get(task.DropletGUID)
		if fault.Is(err, fault.NotFound) {
			return fault.Wrap(err, fault.Unprocessable,
				"the droplet of this task no longer exists: push or restage the app and run the task again")
		}
		if err != nil {
			return err
		}
		// They may have been changed since the task was created.
		if p.sidecars, err = actions.TaskSidecars(tx, p.app, task); err != nil {
			return err
		}
		p.mainMB, p.memory = actions.Memory(task.MemoryMB, p.sidecars)
		if p.where, err = actions.AppInfoOf(tx, p.app); err != nil {
			return err
		}
		if p.files, err = actions.ServiceFiles(tx, p.app); err != nil {
			return err
		}
		if p.env, err = j.Platform.TaskEnvironment(tx, p.where, task, p.mainMB, j.API); err != nil {
			return err
		}
		for name, mb := range p.memory {
			if p.envs[name], err = j.Platform.TaskEnvironment(tx, p.where, task, mb, j.API); err != nil {
				return err
			}
		}
		return nil
	})
	return p, err
}

// members returns the members of a task: its command, and the sidecars that accompany it.
func (j *job) members(p *taskPlan) ([]initproto.Member, error) {
	add := func(name, source, command string, env map[string]string, memoryMB int) initproto.Member {
		m := memberOf(p.droplet, name, source, command)
		variables := j.runVariables(p.app, p.droplet, env, p.task.GUID, memoryMB)
		maps.Copy(variables, noPorts())
		m.Env = listed(variables)
		return m
	}
	all := []initproto.Member{add(kindTask, p.task.Source(), p.task.Command, p.env, p.mainMB)}
	names := memberNames(kindTask, p.sidecars)
	for _, s := range p.sidecars {
		all = append(all, add(names[s.Name], p.task.Source()+sidecarSource(s.Name), s.Command, p.envs[s.Name],
			p.memory[s.Name]))
	}
	if err := limitMembers(all, p.sidecars, p.task.MemoryMB); err != nil {
		return nil, err
	}
	return all, applyOptions(p.droplet, all, p.sidecars, j.Grace)
}

// sidecarSource returns what the source of a sidecar's lines has after that of the main
// process.
func sidecarSource(name string) string { return "/SIDECAR/" + strings.ToUpper(name) }

// sources returns the sources of the members of a task. An instance of an earlier server has
// no label, and only the command.
func (j *job) sources(ctx context.Context, task *platform.Task) []string {
	in, err := j.Engine.Get(ctx, j.guid)
	if text := in.Labels[labelSources]; err == nil && text != "" {
		return strings.Split(text, "\n")
	}
	return []string{task.Source()}
}
