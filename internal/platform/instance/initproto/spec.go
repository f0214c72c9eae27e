package initproto

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Version is the version of the protocol: the files and their meaning. It is incremented
// when one side must not ignore what the other writes; a field that may be ignored does not
// count. Instances outlive servers, so a server understands the states and records of every
// earlier version. ingot-init refuses a spec of a later one.
const Version = 3

// HoldArg makes ingot-init keep the files open that it inherits, and do nothing else. The
// argument after it is a name for the list of processes.
const HoldArg = "--hold"

// Lang is the locale of processes whose user sets none. Every C library has it, while
// Cloud Foundry's en_US.UTF-8 has to be installed: without it Java and Perl know ASCII only.
const Lang = "C.UTF-8"

// Needs returns the version that an ingot-init must know to run the spec: older ones, which
// an image may contain, can run what does not need more.
func (s Spec) Needs() int {
	if slices.ContainsFunc(s.Members, func(m Member) bool { return m.Group != nil || m.Memory > 0 || m.CPUWeight > 0 }) {
		return 3
	}
	if s.OneOff && len(s.Members) > 1 {
		return 2 // earlier ones report the status of the main process when a sidecar failed
	}
	if slices.ContainsFunc(s.Members, func(m Member) bool { return !m.plain() }) {
		return 2
	}
	return 1
}

// Spec describes the instance that ingot-init runs.
type Spec struct {
	// Protocol is what the spec Needs; 0 means 1.
	Protocol int `json:"protocol,omitempty"`
	// Instance is the instance's id.
	Instance string `json:"instance"`
	// OneOff instances (staging, tasks) end with their main process, whatever its status;
	// for others any exit is a crash. The exit of a sidecar that ends one makes it fail.
	OneOff bool `json:"one_off,omitempty"`
	// Members are started together. The first is the main process.
	Members []Member `json:"members"`
	// User and Group are the ids members run as; 0 means those of ingot-init.
	User  int `json:"user,omitempty"`
	Group int `json:"group,omitempty"`
	// Health decides when the instance is up, Readiness when it accepts requests.
	Health    Check `json:"health"`
	Readiness Check `json:"readiness"`
	// Grace is the time between SIGTERM and SIGKILL. 0 means the default, a negative value
	// that members are killed at once.
	Grace time.Duration `json:"grace"`
	// Timeout stops a one-off instance that takes longer; 0 means never.
	Timeout time.Duration `json:"timeout,omitempty"`
	// LogRate limits the output of each member in bytes per second; a negative value means
	// no limit, 0 no output at all. Dropped output is counted and reported in the stream.
	LogRate int64 `json:"log_rate"`
	// TLS, if set, is a port of the instance where ingot-init terminates TLS.
	TLS *TLS `json:"tls,omitempty"`
}

// TLS is a port of the instance where ingot-init terminates TLS and passes connections on to
// a port of the app. The files may be replaced at any time.
type TLS struct {
	Port int `json:"port"`
	To   int `json:"to"`
	// Certificate and Key are paths of PEM files that the members' user can read.
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
}

// Member is one process of an instance.
type Member struct {
	// Name is unique in the instance: the process type, or the sidecar's name.
	Name string `json:"name"`
	// Source is the source of its log lines: APP/PROC/WEB, APP/PROC/WEB/SIDECAR/NAME,
	// APP/TASK/NAME, APP/TASK/NAME/SIDECAR/NAME, STG.
	Source string `json:"source"`
	// Args is the program and its arguments.
	Args []string `json:"args"`
	// Env is the whole environment, as KEY=value.
	Env []string `json:"env"`
	// Dir is the working directory.
	Dir string `json:"dir"`

	// What a sidecar asks for beyond Cloud Foundry. Without it all members start and stop
	// together, and the exit of one ends the instance.

	// After are the members that must be up before it starts: healthy, or for those that
	// run once (RestartNever without a health check), successful.
	After []string `json:"after,omitempty"`
	// Restart decides what follows its exit.
	Restart Restart `json:"restart,omitempty"`
	// Optional members never end the instance, and it is ready without them.
	Optional bool `json:"optional,omitempty"`
	// Health and Readiness are its own checks; those of the main process are the Spec's.
	Health    *Check `json:"health,omitempty"`
	Readiness *Check `json:"readiness,omitempty"`
	// StopAfter are the members that must be gone before it is told to stop.
	StopAfter []string `json:"stop_after,omitempty"`
	// StopSignal is sent to stop it; 0 means SIGTERM.
	StopSignal int `json:"stop_signal,omitempty"`
	// Grace is the time between the stop signal and SIGKILL; 0 means that of the instance.
	Grace time.Duration `json:"grace,omitempty"`
	// Ports are those it declares. They explain failed checks, and ask for nothing.
	Ports []int `json:"ports,omitempty"`
	// PreStop is a program with arguments that runs before it is told to stop, within Grace.
	PreStop []string `json:"pre_stop,omitempty"`

	// Memory limits what it may use, in bytes; when it exceeds that, all of it is killed. 0
	// means the limit of the instance. CPUWeight is its share of the processor among the
	// members, from 1 to 10000; 0 means DefaultCPUWeight. Only engines without
	// engine.Description.NoMemberLimits run members with either.
	Memory    int64 `json:"memory,omitempty"`
	CPUWeight int   `json:"cpu_weight,omitempty"`
	// Group is set by the engine.
	Group *Group `json:"group,omitempty"`
}

// DefaultCPUWeight is the weight of a member that asks for none, the kernel's own default.
const DefaultCPUWeight = 100

// Group is the control group of one member, below that of its instance.
type Group struct {
	// Name is its path from the root of the instance's cgroup namespace.
	Name string `json:"name"`
	// Files are open descriptors that ingot-init inherits: a process that writes 0 to all of
	// them moves itself into the group.
	Files []int `json:"files"`
}

// Restart is what follows the exit of a member.
type Restart string

// The policies. With the default every exit ends the instance. The others start the member
// again after a pause that grows, or let the instance go on without it: RestartNever ends the
// instance if the member failed, unless it is optional.
const (
	RestartDefault   Restart = ""
	RestartNever     Restart = "never"
	RestartOnFailure Restart = "on-failure"
	RestartAlways    Restart = "always"
)

// plain reports whether a member asks for nothing beyond Cloud Foundry.
func (m Member) plain() bool {
	return len(m.After) == 0 && m.Restart == "" && !m.Optional && m.Health == nil && m.Readiness == nil &&
		len(m.StopAfter) == 0 && m.StopSignal == 0 && m.Grace == 0 && len(m.PreStop) == 0
}

// CheckKind is the kind of a check.
type CheckKind string

// The kinds of checks. None, for readiness, means ready as soon as healthy.
const (
	CheckNone    CheckKind = ""
	CheckProcess CheckKind = "process"
	CheckPort    CheckKind = "port"
	CheckHTTP    CheckKind = "http"
)

// Check is a health or readiness check. Zero durations mean the defaults below.
//
// A port check passes when all ports accept a connection, an http check when the response
// to a GET is 200. Both try 127.0.0.1, and if that refuses, the other addresses of the
// instance.
//
// Until it passes for the first time a health check probes often, and the instance fails if
// it has not passed after Startup. Then it probes every Interval; after a failed probe it
// probes again after Invocation (or Interval, if that is shorter), and the third failure in
// a row stops the instance.
//
// A readiness check begins when the instance is healthy. While not ready it probes often at
// first and then every Interval, but at least every ReadinessRetry; while ready every
// Interval. Each probe decides alone.
type Check struct {
	Kind CheckKind `json:"kind"`
	// Ports are all checked by a port check; http uses the first.
	Ports []int `json:"ports,omitempty"`
	// Endpoint is the path of an http check.
	Endpoint string `json:"endpoint,omitempty"`
	// Startup is how long the instance may take to become healthy.
	Startup time.Duration `json:"startup,omitempty"`
	// Invocation limits one probe; Interval is the time between probes once healthy.
	Invocation time.Duration `json:"invocation,omitempty"`
	Interval   time.Duration `json:"interval,omitempty"`
}

// The defaults.
const (
	DefaultGrace      = 10 * time.Second
	DefaultStartup    = time.Minute
	DefaultInvocation = time.Second
	DefaultInterval   = 30 * time.Second
	ReadinessRetry    = 2 * time.Second
)

// WithDefaults replaces zero durations by the defaults.
func (c Check) WithDefaults() Check {
	or := func(d *time.Duration, otherwise time.Duration) {
		if *d <= 0 {
			*d = otherwise
		}
	}
	or(&c.Startup, DefaultStartup)
	or(&c.Invocation, DefaultInvocation)
	or(&c.Interval, DefaultInterval)
	return c
}

// Validate reports why a Spec cannot be run.
func (s Spec) Validate() error {
	if s.Protocol > Version {
		return fmt.Errorf(
			"the server launches with version %d of the protocol, and this ingot-init knows versions up to %d: "+
				"it is older than the server; install both from one release, or set --programs", s.Protocol, Version)
	}
	if len(s.Members) == 0 {
		return errors.New("no members")
	}
	names := map[string]bool{}
	for _, m := range s.Members {
		switch {
		case names[m.Name]:
			return fmt.Errorf("two members are named %q", m.Name)
		case len(m.Args) == 0 || m.Args[0] == "":
			return fmt.Errorf("member %q has no program", m.Name)
		}
		names[m.Name] = true
	}
	if err := s.validateMembers(names); err != nil {
		return err
	}
	if err := s.Health.validate(); err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	if err := s.Readiness.validate(); err != nil {
		return fmt.Errorf("readiness check: %w", err)
	}
	return nil
}

// validateMembers checks what members ask for. That they do not wait for each other is the
// caller's to know.
func (s Spec) validateMembers(names map[string]bool) error {
	for i, m := range s.Members {
		for _, other := range slices.Concat(m.After, m.StopAfter) {
			if !names[other] {
				return fmt.Errorf("member %q waits for %q, which does not exist", m.Name, other)
			}
		}
		for _, c := range []*Check{m.Health, m.Readiness} {
			if c == nil {
				continue
			}
			if err := c.validate(); err != nil {
				return fmt.Errorf("check of member %q: %w", m.Name, err)
			}
		}
		switch {
		case !slices.Contains([]Restart{RestartDefault, RestartNever, RestartOnFailure, RestartAlways}, m.Restart):
			return fmt.Errorf("member %q: unknown restart policy %q", m.Name, m.Restart)
		case i == 0 && (m.Restart != "" || m.Optional || m.Health != nil || m.Readiness != nil):
			return fmt.Errorf("member %q is the main process: its exit ends the instance, and its checks are those of the "+
				"instance", m.Name)
		case m.Memory < 0 || m.CPUWeight < 0 || m.CPUWeight > 10000:
			return fmt.Errorf("member %q: memory %d, cpu weight %d", m.Name, m.Memory, m.CPUWeight)
		case m.Group != nil && len(m.Group.Files) == 0:
			return fmt.Errorf("member %q has a control group that it cannot be moved to", m.Name)
		case m.StopSignal < 0 || m.StopSignal > 64:
			return fmt.Errorf("member %q: stop signal %d", m.Name, m.StopSignal)
		}
	}
	return nil
}

func (c Check) validate() error {
	for _, port := range c.Ports {
		if port < 1 || port > 65535 {
			return fmt.Errorf("port %d", port)
		}
	}
	switch c.Kind {
	case CheckNone, CheckProcess, CheckPort:
		return nil
	case CheckHTTP:
		if len(c.Ports) == 0 {
			return errors.New("http without a port")
		}
		if strings.ContainsFunc(c.Endpoint, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
			return fmt.Errorf("endpoint %q", c.Endpoint)
		}
		return nil
	default:
		return fmt.Errorf("unknown kind %q", c.Kind)
	}
}

// Files in an instance's control directory.
const (
	SpecFile    = "spec.json"
	StateFile   = "state.json"
	RecordsDir  = "records"
	MaxLineSize = 64 << 10 // longer lines are cut into several records
)
