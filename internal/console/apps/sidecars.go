package apps

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/console/page"
)

type sidecar cfapi.Sidecar

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
	add("Starts", s.starts())
	add("After its exit", s.afterExit())
	if o.Optional {
		add("Needed", "no: the instance is ready without it")
	} else {
		add("Needed", "yes: the instance is not ready without it")
	}
	add("Ports", joined(o.Ports))
	add("Health check", checkText(o.Health))
	add("Readiness check", checkText(o.Readiness))
	add("Variables", strings.Join(slices.Sorted(maps.Keys(o.Env)), ", "))
	add("Stops", s.stops())
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

func (s sidecar) starts() string {
	o := s.Options
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

func (s sidecar) afterExit() string {
	o := s.Options
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

func (s sidecar) stops() string {
	o := s.Options
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

// checkText describes a health check; "" if there is none.
func checkText(c *cfapi.SidecarCheck) string {
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

// newestCrash returns the crash to show: the instance's if it crashed together with its sidecar,
// otherwise the newest.
func newestCrash(newest []cfapi.Event) cfapi.Event {
	for _, e := range newest {
		if e.Type == page.EventCrash && newest[0].CreatedAt.Sub(e.CreatedAt).Abs() < crashTogether {
			return e
		}
	}
	return newest[0]
}
