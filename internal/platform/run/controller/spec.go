package controller

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/instance/initproto"
)

// LabelApp is the instance label that names the app.
const LabelApp = "app"

// Labels of instances. The controller ignores instances without them.
const (
	labelKind    = "kind"
	kindApp      = "app"
	labelProcess = "process"
	labelType    = "type"
	labelIndex   = "index"
	labelVersion = "version"
	labelSources = "sources" // of the members, a line each
	labelPort    = "port"    // of routes without one, if it is not platform.DefaultPort
)

// errOutdated means that the desired state changed meanwhile.
var errOutdated = errors.New("the process has changed")

// plan is the content of an instance according to the store.
type plan struct {
	app      *platform.App
	process  *platform.Process
	droplet  *platform.Droplet
	sidecars []*platform.Sidecar
	ports    []int
	own      int // how many of ports, from the first, are those of the main process
	env      map[string]string
	mainMB   int
	memory   map[string]int // of sidecars, by name
	where    *actions.AppInfo
	// files are the service binding files of the app, if it has them in files.
	files map[string][]byte
}

func (c *Controller) planOf(ctx context.Context, at slotKey, version string) (*plan, error) {
	var p *plan
	err := c.Store.View(ctx, func(tx platform.Tx) error {
		p = &plan{}
		var err error
		if p.process, err = tx.Processes().Get(at.process); fault.Is(err, fault.NotFound) {
			return errOutdated
		} else if err != nil {
			return err
		}
		if p.process.Version != version {
			return errOutdated
		}
		if p.app, err = tx.Apps().Get(p.process.AppGUID); err != nil {
			return err
		}
		p.droplet, err = tx.Droplets().Get(p.process.DropletGUID)
		if fault.Is(err, fault.NotFound) {
			return fault.Wrap(err, fault.Unprocessable, "the droplet of this app no longer exists: push or restage it")
		}
		if err != nil {
			return err
		}
		if err := p.ofRevision(tx); err != nil {
			return err
		}
		if p.ports, err = actions.PortsOf(tx, p.process, p.droplet.Container.Port()); err != nil {
			return err
		}
		p.ports, p.own = divide(p.ports, p.process.Type, p.sidecars, p.droplet.Container.Port())
		p.mainMB, p.memory = actions.Memory(p.process.MemoryMB, p.sidecars)
		if p.where, err = actions.AppInfoOf(tx, p.app); err != nil {
			return err
		}
		if p.files, err = actions.ServiceFiles(tx, p.app); err != nil {
			return err
		}
		p.env, err = c.Platform.RunEnvironment(tx, p.where, p.process, c.API, p.mainMB)
		return err
	})
	return p, err
}

// ofRevision sets the environment, command and sidecars of the plan: those of the
// process's revision, because an app may have been changed since it was started.
func (p *plan) ofRevision(tx platform.Tx) error {
	r, err := actions.RevisionOf(tx, p.process)
	if err != nil {
		return err
	}
	if r == nil {
		p.sidecars, err = actions.SidecarsOf(tx, p.process)
		return err
	}
	p.app.Env, p.process.Command, p.sidecars = r.Env, r.Processes[p.process.Type].Command, r.SidecarsOf(p.process.Type)
	return nil
}

// specOf returns the engine's spec for an instance.
func (c *Controller) specOf(ctx context.Context, at slotKey, id, version string) (engine.Spec, error) {
	p, err := c.planOf(ctx, at, version)
	if err != nil {
		return engine.Spec{}, err
	}
	members, err := c.members(p, at, id)
	if err != nil {
		return engine.Spec{}, err
	}
	ln := initproto.Spec{
		Instance: id, Members: members, User: c.User, Group: c.Group, Grace: c.Grace, LogRate: p.process.LogRate,
		Health: check(p.process.Health, p.ports[:p.own]), Readiness: check(p.process.Readiness, p.ports[:p.own]),
		TLS: c.tls(p.ports[0]),
	}
	if ln.Readiness.Kind == initproto.CheckProcess {
		ln.Readiness = initproto.Check{} // ready as soon as healthy
	}
	if err := ln.Validate(); err != nil {
		return engine.Spec{}, fault.Wrap(err, fault.Unprocessable, "the instance cannot be started: %v", err)
	}
	reach, err := c.reach(ctx, p.app.GUID)
	if err != nil {
		return engine.Spec{}, err
	}
	labels := map[string]string{
		labelKind: kindApp, LabelApp: p.app.GUID, labelProcess: p.process.GUID, labelType: p.process.Type,
		labelIndex: strconv.Itoa(at.index), labelVersion: version, labelSources: strings.Join(sourcesOf(ln), "\n"),
	}
	if p.droplet.Container != nil {
		labels[labelPort] = strconv.Itoa(p.droplet.Container.Port())
	}
	return engine.Spec{
		ID: id, Reach: reach, Segment: p.where.Segment, Zone: engine.Zone{Space: p.app.SpaceGUID}, App: p.app.GUID,
		FilesAt: c.credentials(id, p.where), Labels: labels,
		Files:  c.filesOf(ctx, p.droplet, p.files),
		Image:  c.imageOf(p.droplet),
		Launch: ln,
		Limits: engine.Limits{
			Memory: int64(p.process.MemoryMB) << 20, Disk: int64(p.process.DiskMB) << 20,
			CPU: cpuShares(p.process.MemoryMB), PIDs: c.PIDs, Files: actions.DefaultFiles,
		},
		Ports: p.ports,
	}, nil
}

// cpuShares returns processor shares in proportion to memory.
func cpuShares(memoryMB int) int { return min(max(memoryMB, 128), 8192) }

// DropletKey is the prefix of the cache key of a droplet's archive; its checksum follows.
const DropletKey = "droplet-"

func (c *Config) archive(ctx context.Context, d *platform.Droplet) engine.Archive {
	a := engine.Archive{Open: func() (io.ReadCloser, error) {
		r, err := c.Droplets.Open(ctx, d.GUID)
		if errors.Is(err, fs.ErrNotExist) || fault.Is(err, fault.NotFound) {
			return nil, fault.Wrap(err, fault.Unprocessable, "the files of the droplet no longer exist: push or restage the app")
		}
		return r, err
	}}
	if d.Checksum != "" {
		a.Key = DropletKey + d.Checksum
	}
	return a
}

func sourcesOf(s initproto.Spec) []string {
	all := make([]string, 0, len(s.Members))
	for _, m := range s.Members {
		all = append(all, m.Source)
	}
	return all
}

// check translates a health check. A port check probes all ports, an http check the first.
// Durations that the user has not set are left to ingot-init, which waits for others in full.
func check(h platform.HealthCheck, ports []int) initproto.Check {
	seconds := func(n int) time.Duration { return time.Duration(n) * time.Second }
	k := initproto.Check{Startup: seconds(h.Timeout), Invocation: seconds(h.InvocationTimeout),
		Interval: seconds(h.Interval)}
	switch h.Type {
	case platform.CheckPort:
		k.Kind, k.Ports = initproto.CheckPort, ports
	case platform.CheckHTTP:
		k.Kind, k.Ports, k.Endpoint = initproto.CheckHTTP, ports[:1], h.Endpoint
		k.Endpoint = cmp.Or(k.Endpoint, "/")
	default:
		k.Kind = initproto.CheckProcess
	}
	return k
}

// members returns the main process and the sidecars.
func (c *Controller) members(p *plan, at slotKey, id string) ([]initproto.Member, error) {
	command := cmp.Or(p.process.Command, p.droplet.ProcessTypes[p.process.Type])
	if command == "" {
		return nil, fault.New(fault.Unprocessable,
			"there is no start command for the process %q: the droplet names none; give one in the manifest, a Procfile, or "+
				"with 'cf push -c'", p.process.Type)
	}
	source := "APP/PROC/" + strings.ToUpper(p.process.Type)
	add := func(name, source, command string, memoryMB int) (initproto.Member, error) {
		m := memberOf(p.droplet, name, source, command)
		var err error
		m.Env, err = c.environment(p, at, id, memoryMB)
		return m, err
	}
	if p.droplet.Container != nil && p.process.Command == "" {
		command = "" // the program of the image, and not its name in a shell
	}
	first, err := add(p.process.Type, source, command, p.mainMB)
	if err != nil {
		return nil, err
	}
	all := []initproto.Member{first}
	names := memberNames(p.process.Type, p.sidecars)
	for _, s := range p.sidecars {
		m, err := add(names[s.Name], source+sidecarSource(s.Name), s.Command, p.memory[s.Name])
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if err := limitMembers(all, p.sidecars, p.process.MemoryMB); err != nil {
		return nil, err
	}
	return all, applyOptions(p.droplet, all, p.sidecars, c.Grace)
}

// environment returns the variables of one member: those of all instances, and those of
// this one.
func (c *Controller) environment(p *plan, at slotKey, id string, memoryMB int) ([]string, error) {
	env := c.runVariables(p.app, p.droplet, p.env, id, memoryMB)
	index := strconv.Itoa(at.index)
	port := portWord(p.ports[0])
	// Only PORT may differ from the requested port, because apps read it from the
	// environment: the other ports are fixed in their code.
	pairs := []string{`{"external":` + port + `,"internal":` + port + `}`}
	for _, n := range p.ports[1:] {
		pairs = append(pairs, fmt.Sprintf(`{"external":%d,"internal":%d}`, n, n))
	}
	application, err := vcapApplication(p.env["VCAP_APPLICATION"], id, at.index, memoryMB, port)
	if err != nil {
		return nil, err
	}
	maps.Copy(env, map[string]string{
		"PORT": port, "VCAP_APP_PORT": port, "VCAP_APP_HOST": "0.0.0.0",
		"CF_INSTANCE_INDEX": index, "INSTANCE_INDEX": index, "CF_INSTANCE_PORT": port,
		"CF_INSTANCE_ADDR":  "{{host}}:" + port,
		"CF_INSTANCE_PORTS": "[" + strings.Join(pairs, ",") + "]",
		"VCAP_APPLICATION":  application,
	})
	if p.droplet.Container != nil {
		delete(env, "VCAP_APP_PORT")
		delete(env, "VCAP_APP_HOST")
	}
	return listed(env), nil
}

// reach returns the addresses of the services of an app.
func (c *Config) reach(ctx context.Context, app string) ([]netip.AddrPort, error) {
	if c.Reach == nil {
		return nil, nil
	}
	list, err := c.Reach(ctx, app)
	if err != nil {
		return nil, fmt.Errorf("addresses of the app's services: %w", err)
	}
	return list, nil
}

// variables returns the variables of everything that runs for an app; given are those in
// the store.
func (c *Config) variables(app *platform.App, given map[string]string, id string, memoryMB int) map[string]string {
	env := map[string]string{"PATH": c.Path}
	maps.Copy(env, c.Variables) // a user may override them
	for name, value := range given {
		env[name] = engine.Escape(value) // a user's value: the engine must not expand it
	}
	maps.Copy(env, map[string]string{
		"HOME": "{{home}}/app", "TMPDIR": "{{home}}/tmp", "DEPS_DIR": "{{home}}/deps", "USER": "vcap",
		"CF_INSTANCE_GUID": id, "INSTANCE_GUID": id, "CF_INSTANCE_IP": "{{host}}", "CF_INSTANCE_INTERNAL_IP": "{{ip}}",
		"MEMORY_LIMIT": strconv.Itoa(memoryMB) + "m",
	})
	maps.Copy(env, c.serviceVariables(app))
	maps.Copy(env, c.identityVariables())
	return env
}

// noPorts returns the port variables of an instance without ports, as Diego sets them for
// tasks.
func noPorts() map[string]string {
	return map[string]string{"CF_INSTANCE_ADDR": "", "CF_INSTANCE_PORT": "", "CF_INSTANCE_PORTS": "[]"}
}

// listed returns variables in the form NAME=value.
func listed(env map[string]string) []string {
	list := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		list = append(list, name+"="+env[name])
	}
	return list
}

// portWord is replaced by the engine.
func portWord(n int) string { return "{{port:" + strconv.Itoa(n) + "}}" }

// vcapApplication adds the fields that differ by instance. The port is a number that the
// engine fills in, so it cannot pass through the encoder.
func vcapApplication(common, id string, index, memoryMB int, port string) (string, error) {
	var all map[string]any
	if err := json.Unmarshal([]byte(common), &all); err != nil {
		return "", fmt.Errorf("VCAP_APPLICATION: %w", err)
	}
	if limits, ok := all["limits"].(map[string]any); ok {
		limits["mem"] = memoryMB
	}
	all["host"], all["instance_id"], all["instance_index"] = "0.0.0.0", id, index
	text, err := json.Marshal(all)
	if err != nil {
		return "", err
	}
	return `{"port":` + port + "," + engine.Escape(string(text[1:])), nil
}

// reasonOf returns machine failures that a user can understand.
func reasonOf(err error) string {
	switch {
	case fault.IsDiskFull(err):
		return "the disk of the platform is full"
	case errors.Is(err, context.DeadlineExceeded):
		return "it took too long"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), errors.Is(err, syscall.EAGAIN),
		errors.Is(err, syscall.ENOMEM):
		return "the platform has no more room"
	}
	return "the platform's log says why"
}
