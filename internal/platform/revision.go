package platform

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Revision is a version of an app that was started: its droplet, environment,
// commands and sidecars, which never change, and the settings with which its
// processes last ran.
type Revision struct {
	Resource
	Metadata
	AppGUID string
	// Version counts the revisions of an app, from 1.
	Version     int
	DropletGUID string
	// Description is why it was created.
	Description string
	// Env is the user's environment; it may hold secrets and is encrypted.
	Env       map[string]string
	Processes map[string]ProcessSettings // by type
	Sidecars  []RevisionSidecar
	// Options are those of the sidecars that have any, by name.
	Options map[string]SidecarOptions
}

// RevisionSidecar is a sidecar of a revision.
type RevisionSidecar struct {
	Name         string   `json:"name"`
	Command      string   `json:"command"`
	ProcessTypes []string `json:"process_types"`
	MemoryMB     int      `json:"memory_mb,omitempty"`
	Origin       string   `json:"origin"`
}

// RevisionOf returns what an app would run if it were started now. Of processes
// with the same type, the last one counts.
func RevisionOf(app *App, processes []*Process, sidecars []*Sidecar) *Revision {
	r := &Revision{AppGUID: app.GUID, DropletGUID: app.DropletGUID, Env: maps.Clone(app.Env),
		Processes: map[string]ProcessSettings{}}
	for _, p := range processes {
		r.Processes[p.Type] = p.ProcessSettings
	}
	for _, s := range sidecars {
		r.Sidecars = append(r.Sidecars, RevisionSidecar{s.Name, s.Command, slices.Sorted(slices.Values(s.ProcessTypes)),
			s.MemoryMB, s.Origin})
		if !s.Options.IsZero() {
			if r.Options == nil {
				r.Options = map[string]SidecarOptions{}
			}
			r.Options[s.Name] = s.Options
		}
	}
	slices.SortFunc(r.Sidecars, func(x, y RevisionSidecar) int { return cmp.Compare(x.Name, y.Name) })
	return r
}

// Apply sets the command and the settings of a process. A process that the revision
// does not have keeps its own.
func (r *Revision) Apply(p *Process) {
	if s, ok := r.Processes[p.Type]; ok {
		p.ProcessSettings = s
	}
}

// SidecarsOf returns the sidecars that run beside processes of a type.
func (r *Revision) SidecarsOf(processType string) []*Sidecar {
	var out []*Sidecar
	for _, s := range r.Sidecars {
		if slices.Contains(s.ProcessTypes, processType) {
			out = append(out, r.sidecar(s))
		}
	}
	return out
}

// AllSidecars returns the sidecars of the revision.
func (r *Revision) AllSidecars() []*Sidecar {
	all := make([]*Sidecar, 0, len(r.Sidecars))
	for _, s := range r.Sidecars {
		all = append(all, r.sidecar(s))
	}
	return all
}

func (r *Revision) sidecar(s RevisionSidecar) *Sidecar {
	return &Sidecar{AppGUID: r.AppGUID, Name: s.Name, Command: s.Command, ProcessTypes: s.ProcessTypes,
		MemoryMB: s.MemoryMB, Origin: s.Origin, Options: r.Options[s.Name]}
}

// SameSettings reports whether the processes of both have the same settings.
func (r *Revision) SameSettings(other *Revision) bool {
	return maps.Equal(r.Processes, other.Processes)
}

// ChangesTo returns why next is another revision than r, in the words of Cloud
// Foundry; nothing if it is none. Settings of processes make none.
func (r *Revision) ChangesTo(next *Revision) []string {
	var changes []string
	if r.DropletGUID != next.DropletGUID {
		changes = append(changes, "New droplet deployed.")
	}
	if !maps.Equal(r.Env, next.Env) {
		changes = append(changes, "New environment variables deployed.")
	}
	for kind, now := range next.Processes {
		was, known := r.Processes[kind]
		var what string
		switch {
		case !known:
			changes = append(changes, fmt.Sprintf("New process type '%s' added.", kind))
			continue
		case was.Command == now.Command:
			continue
		case was.Command == "":
			what = "added"
		case now.Command == "":
			what = "removed"
		default:
			what = "updated"
		}
		changes = append(changes, fmt.Sprintf("Custom start command %s for '%s' process.", what, kind))
	}
	for kind := range r.Processes {
		if _, kept := next.Processes[kind]; !kept {
			changes = append(changes, fmt.Sprintf("Process type '%s' removed.", kind))
		}
	}
	if !slices.EqualFunc(r.Sidecars, next.Sidecars, sameSidecar) || !maps.EqualFunc(r.Options, next.Options,
		SidecarOptions.Equal) {
		changes = append(changes, "Sidecars updated.")
	}
	slices.Sort(changes)
	return changes
}

// sameSidecar compares what runs; who defined it does not matter.
func sameSidecar(x, y RevisionSidecar) bool {
	return x.Name == y.Name && x.Command == y.Command && x.MemoryMB == y.MemoryMB &&
		slices.Equal(x.ProcessTypes, y.ProcessTypes)
}

// InitialRevision is the description of the first revision of an app.
const InitialRevision = "Initial revision."

// DescribeRevision returns the description of a revision from its changes. One that
// is a rollback says to which version.
func DescribeRevision(changes []string, rolledBackTo int) string {
	if rolledBackTo > 0 {
		changes = append(slices.Clone(changes), fmt.Sprintf("Rolled back to revision %d.", rolledBackTo))
	}
	return strings.Join(changes, " ")
}
