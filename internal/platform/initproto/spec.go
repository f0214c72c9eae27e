package initproto

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Spec describes the instance that ingot-init runs.
type Spec struct {
	// Instance is the instance's id.
	Instance string `json:"instance"`
	// OneOff instances (staging, tasks) end with their main process, whatever its status;
	// for others any exit is a crash.
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
}

// Member is one process of an instance.
type Member struct {
	// Name is unique in the instance: the process type, or the sidecar's name.
	Name string `json:"name"`
	// Source is the source of its log lines: APP/PROC/WEB, APP/PROC/WEB/SIDECAR/NAME,
	// APP/TASK/NAME, STG.
	Source string `json:"source"`
	// Args is the program and its arguments.
	Args []string `json:"args"`
	// Env is the whole environment, as KEY=value.
	Env []string `json:"env"`
	// Dir is the working directory.
	Dir string `json:"dir"`
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
	if err := s.Health.validate(); err != nil {
		return fmt.Errorf("health check: %w", err)
	}
	if err := s.Readiness.validate(); err != nil {
		return fmt.Errorf("readiness check: %w", err)
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
