package apps

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/console/page"
)

type sidecar struct {
	Name     string         `json:"name"`
	Command  string         `json:"command"`
	Types    []string       `json:"process_types"`
	MemoryMB int64          `json:"memory_in_mb"`
	Origin   string         `json:"origin"`
	Options  sidecarOptions `json:"options"`
}

// sidecarOptions are what Cloud Foundry's sidecars do not have, see docs/sidecars.md.
type sidecarOptions struct {
	DependsOn  []string          `json:"depends_on"`
	BeforeMain bool              `json:"before_main"`
	Restart    string            `json:"restart"`
	Optional   bool              `json:"optional"`
	Health     *sidecarCheck     `json:"health_check"`
	Readiness  *sidecarCheck     `json:"readiness_health_check"`
	Ports      []int             `json:"ports"`
	Env        map[string]string `json:"env"` // the values are hidden
	StopSignal string            `json:"stop_signal"`
	StopGrace  int               `json:"stop_grace"`
	StopAfter  []string          `json:"stop_after"`
	PreStop    string            `json:"pre_stop"`
}

type sidecarCheck struct {
	Type     string `json:"type"`
	Endpoint string `json:"endpoint"`
	Timeout  int    `json:"timeout"`
	Interval int    `json:"interval"`
}

// fact is a line about a resource.
type fact struct {
	Name, Value string
	Code        bool // the value is code
}

// facts describes the sidecar in words.
func (s sidecar) facts() []fact {
	o := s.Options
	all := []fact{{"Command", s.Command, true}}
	add := func(name, value string) {
		if value != "" {
			all = append(all, fact{Name: name, Value: value})
		}
	}
	if s.MemoryMB > 0 {
		add("Memory", strconv.FormatInt(s.MemoryMB, 10)+" MB")
	}
	add("Starts", o.starts())
	add("After its exit", o.afterExit())
	if o.Optional {
		add("Needed", "no: the instance is ready without it")
	} else {
		add("Needed", "yes: the instance is not ready without it")
	}
	add("Ports", joined(o.Ports))
	add("Health check", o.Health.text())
	add("Readiness check", o.Readiness.text())
	add("Variables", strings.Join(slices.Sorted(maps.Keys(o.Env)), ", "))
	add("Stops", o.stops())
	if o.PreStop != "" {
		all = append(all, fact{"Before it stops", o.PreStop, true})
	}
	return all
}

// members returns names of members of an instance as a text.
func members(names []string) string {
	text := slices.Clone(names)
	for i, name := range text {
		if name == "main" {
			text[i] = "the main process"
		}
	}
	return strings.Join(text, ", ")
}

func joined(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ", ")
}

func (o sidecarOptions) starts() string {
	var parts []string
	if len(o.DependsOn) > 0 {
		parts = append(parts, "after "+members(o.DependsOn))
	}
	if o.BeforeMain {
		parts = append(parts, "before the main process")
	}
	if len(parts) == 0 {
		return "together with the main process"
	}
	return strings.Join(parts, ", ")
}

func (o sidecarOptions) afterExit() string {
	switch {
	case o.Restart == "always":
		return "it is started again"
	case o.Restart == "on-failure":
		return "it is started again, unless its status is 0"
	case o.Restart == "never" && o.BeforeMain && o.Health == nil:
		return "the others start if its status is 0: it runs once"
	case o.Restart == "never" || o.Optional:
		return "it stays down until the app is restarted"
	}
	return "the instance is stopped and restarted"
}

func (o sidecarOptions) stops() string {
	var parts []string
	if len(o.StopAfter) > 0 {
		parts = append(parts, "after "+members(o.StopAfter))
	}
	if o.StopSignal != "" {
		parts = append(parts, "with "+o.StopSignal)
	}
	if o.StopGrace > 0 {
		parts = append(parts, "within "+strconv.Itoa(o.StopGrace)+" s")
	}
	return strings.Join(parts, ", ")
}

func (c *sidecarCheck) text() string {
	if c == nil || c.Type == "" {
		return ""
	}
	text := c.Type
	if c.Endpoint != "" {
		text += " " + c.Endpoint
	}
	if c.Timeout > 0 {
		text += ", healthy within " + strconv.Itoa(c.Timeout) + " s"
	}
	if c.Interval > 0 {
		text += ", every " + strconv.Itoa(c.Interval) + " s"
	}
	return text
}

// newestCrash returns the crash to show, of the newest ones: that of the instance if it ended
// with its sidecar.
func newestCrash(newest []auditEvent) auditEvent {
	for _, e := range newest {
		if e.Type == page.EventCrash && newest[0].CreatedAt.Sub(e.CreatedAt).Abs() < crashTogether {
			return e
		}
	}
	return newest[0]
}
