package platform

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"ingot/internal/base/fault"
)

// CheckSidecars refuses sidecars without memory beside processes that use all the
// memory of their instance: those of the Java buildpack and, with needed set, of
// any other. The buildpacks are those of the droplet.
func CheckSidecars(buildpacks []DropletBuildpack, needed bool, sidecars []Sidecar) error {
	name := ""
	if needed {
		name = "this buildpack"
		if len(buildpacks) > 0 {
			name = buildpacks[len(buildpacks)-1].Name
		}
	}
	for _, b := range buildpacks {
		if IsJava(b.Name) || strings.EqualFold(b.BuildpackName, "java") {
			name = b.Name
		}
	}
	if name == "" {
		return nil
	}
	var problems []string
	for _, s := range sidecars {
		if s.MemoryMB > 0 {
			continue
		}
		problems = append(problems, "The sidecar \""+s.Name+"\" of "+
			strings.Join(slices.Concat(s.ProcessTypes, s.Options.RunIn), ", ")+" has no memory: "+
			"apps of "+name+" take all the memory they are told of, so nothing would be left for it. "+
			"Set `memory` of the sidecar (memory: 64MB in the manifest, memory_in_mb in the API) and stage again")
	}
	return fault.Invalid(problems...)
}

// MergeSidecars returns the user's sidecars and those of the droplet. Of two with
// the same name it takes the user's.
func MergeSidecars(users []Sidecar, droplets []DropletSidecar) []Sidecar {
	all := slices.Clone(users)
	for _, d := range droplets {
		if !slices.ContainsFunc(all, func(s Sidecar) bool { return s.Name == d.Name }) {
			all = append(all, *d.Sidecar())
		}
	}
	return all
}

// The origins of sidecars.
const (
	SidecarOfUser      = "user"
	SidecarOfBuildpack = "buildpack"
)

// Sidecar returns the sidecar of an app that has the droplet.
func (d DropletSidecar) Sidecar() *Sidecar {
	s := &Sidecar{Name: d.Name, Command: d.Command, ProcessTypes: d.ProcessTypes, MemoryMB: d.MemoryMB,
		Origin: SidecarOfBuildpack}
	if d.Options != nil {
		s.Options = *d.Options
	}
	return s
}

// RunsInTasks reports whether the sidecar accompanies tasks.
func (s *Sidecar) RunsInTasks() bool { return slices.Contains(s.Options.RunIn, RunInTasks) }

// SidecarOptions are what a sidecar may ask for beyond Cloud Foundry. Without any it starts
// and stops with the main process, and its exit ends the instance.
type SidecarOptions struct {
	// RunIn is what it runs beside in addition to its process types: RunInTasks.
	RunIn []string `json:"run_in,omitempty"`
	// DependsOn are the sidecars, or MainMember, that must be up before it starts; BeforeMain
	// means that the main process waits for it.
	DependsOn  []string `json:"depends_on,omitempty"`
	BeforeMain bool     `json:"before_main,omitempty"`
	// Restart is what follows its exit: one of RestartPolicies, or empty.
	Restart string `json:"restart,omitempty"`
	// Optional means that the instance lives and is ready without it.
	Optional  bool         `json:"optional,omitempty"`
	Health    *HealthCheck `json:"health_check,omitempty"`
	Readiness *HealthCheck `json:"readiness_health_check,omitempty"`
	// Ports are those it listens on. Checks use the first.
	Ports []int             `json:"ports,omitempty"`
	Env   map[string]string `json:"env,omitempty"`
	// StopSignal is the name of a signal. StopGrace is in seconds.
	StopSignal string   `json:"stop_signal,omitempty"`
	StopGrace  int      `json:"stop_grace,omitempty"`
	StopAfter  []string `json:"stop_after,omitempty"`
	PreStop    string   `json:"pre_stop,omitempty"`
	// OnCredentials is what it needs when credentials in its service files change: the name of
	// a signal, or OnCredentialsRestart.
	OnCredentials string `json:"on_credentials,omitempty"`
	// MemoryEnforced means that the sidecar is killed when it uses more than its memory, and
	// that the main process gets the rest. CPUWeight is its share of the processor among the
	// members of an instance, of which each has 100 by default; 0 means the default.
	MemoryEnforced bool `json:"memory_enforced,omitempty"`
	CPUWeight      int  `json:"cpu_weight,omitempty"`
}

// RunInTasks is the value of SidecarOptions.RunIn for sidecars of tasks.
const RunInTasks = "tasks"

// MaxCPUWeight is the largest weight, as of control groups.
const MaxCPUWeight = 10000

// LimitsMember reports whether the sidecar asks for what only some engines can enforce.
func (o SidecarOptions) LimitsMember() bool { return o.MemoryEnforced || o.CPUWeight > 0 }

// MainMember is the main process in the options of sidecars.
const MainMember = "main"

// RestartPolicies are the values of SidecarOptions.Restart.
var RestartPolicies = []string{"never", "on-failure", "always"}

// StopSignals are the values of SidecarOptions.StopSignal, with their numbers.
var StopSignals = map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGKILL": 9, "SIGUSR1": 10, "SIGUSR2": 12,
	"SIGTERM": 15, "SIGWINCH": 28}

// MaxStopGrace is how many seconds a sidecar may take to stop: the rest of the time that an
// instance has is for the main process.
const MaxStopGrace = 8

// IsZero reports whether the sidecar asks for nothing.
func (o SidecarOptions) IsZero() bool { return reflect.DeepEqual(o, SidecarOptions{}) }

// Equal reports whether both ask for the same.
func (o SidecarOptions) Equal(other SidecarOptions) bool { return reflect.DeepEqual(o, other) }

// check returns what is wrong with the options by themselves.
func (o SidecarOptions) check() (problems []string) {
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for i, where := range o.RunIn {
		if where != RunInTasks || i > 0 {
			bad("Run in must be [%s]", RunInTasks)
			break
		}
	}
	if o.Restart != "" && !slices.Contains(RestartPolicies, o.Restart) {
		bad("Restart must be one of %s", strings.Join(RestartPolicies, ", "))
	}
	if _, known := StopSignals[o.StopSignal]; o.StopSignal != "" && !known {
		bad("Stop signal must be one of %s", strings.Join(slices.Sorted(maps.Keys(StopSignals)), ", "))
	}
	if o.StopGrace < 0 || o.StopGrace > MaxStopGrace {
		bad("Stop grace must be between 1 and %d seconds", MaxStopGrace)
	}
	if o.OnCredentials == OnCredentialsNone || CheckOnCredentials(o.OnCredentials) != nil {
		bad("On credentials of a sidecar must be restart or one of %s; leave it out if the sidecar needs nothing",
			strings.Join(CredentialSignals, ", "))
	}
	if o.OnCredentials == OnCredentialsRestart && o.Restart != "always" {
		bad("On credentials can be restart only for a sidecar with `restart: always`: otherwise its exit ends the instance")
	}
	if len([]rune(o.PreStop)) > maxCommand {
		bad("Pre stop is too long (maximum is %d characters)", maxCommand)
	}
	if o.CPUWeight < 0 || o.CPUWeight > MaxCPUWeight {
		bad("Cpu weight must be between 1 and %d", MaxCPUWeight)
	}
	for i, port := range o.Ports {
		if port < 1 || port > 65535 || slices.Contains(o.Ports[:i], port) {
			bad("Ports must be different numbers between 1 and 65535")
			break
		}
	}
	for what, h := range map[string]*HealthCheck{"Health check": o.Health, "Readiness health check": o.Readiness} {
		if h == nil {
			continue
		}
		problems = append(problems, messagesOf(CheckHealth(*h, what))...)
		if h.Type != CheckProcess && len(o.Ports) == 0 {
			bad("%s of type %q needs the ports of the sidecar: set `ports`", what, h.Type)
		}
	}
	problems = append(problems, messagesOf(CheckEnv(o.Env))...)
	slices.Sort(problems)
	return problems
}

func messagesOf(err error) []string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Messages()
	}
	return nil
}

// CheckSidecarOrder refuses sidecars of one app that wait for each other, or for one that
// does not exist.
func CheckSidecarOrder(all []*Sidecar) error {
	names := map[string]bool{MainMember: true}
	for _, s := range all {
		names[s.Name] = true
	}
	for _, s := range all {
		for _, other := range slices.Concat(s.Options.DependsOn, s.Options.StopAfter) {
			switch {
			case other == s.Name:
				return fault.Invalid(fmt.Sprintf("The sidecar %q waits for itself", s.Name))
			case !names[other]:
				return fault.Invalid(fmt.Sprintf("The sidecar %q waits for %q, which is neither a sidecar of the app nor %q",
					s.Name, other, MainMember))
			}
		}
	}
	return CheckSidecarCycles(all)
}

// CheckSidecarCycles refuses sidecars of one app that wait for each other. One that waits for
// a sidecar that does not exist does not wait.
func CheckSidecarCycles(all []*Sidecar) error {
	starts, stops := map[string][]string{}, map[string][]string{}
	for _, s := range all {
		starts[s.Name] = s.Options.DependsOn
		stops[s.Name] = append(stops[s.Name], s.Options.StopAfter...)
		if s.Options.BeforeMain {
			starts[MainMember] = append(starts[MainMember], s.Name)
		}
	}
	// What others wait for at the start stops after them.
	for name, waits := range starts {
		for _, other := range waits {
			stops[other] = append(stops[other], name)
		}
	}
	if cycle := WaitCycle(starts); cycle != nil {
		return fault.Invalid("Sidecars wait for each other to start: " + strings.Join(cycle, " → "))
	}
	if cycle := WaitCycle(stops); cycle != nil {
		return fault.Invalid("Sidecars wait for each other to stop: " + strings.Join(cycle, " → "))
	}
	return nil
}

// WaitCycle returns names that wait for each other, the first again at the end, or nil.
func WaitCycle(waits map[string][]string) []string {
	done := map[string]bool{}
	var visit func(name string, path []string) []string
	visit = func(name string, path []string) []string {
		if i := slices.Index(path, name); i >= 0 {
			return append(slices.Clone(path[i:]), name)
		}
		if done[name] {
			return nil
		}
		for _, other := range waits[name] {
			if cycle := visit(other, append(path, name)); cycle != nil {
				return cycle
			}
		}
		done[name] = true
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(waits)) {
		if cycle := visit(name, nil); cycle != nil {
			return cycle
		}
	}
	return nil
}

// CheckSidecarPorts refuses two members of one process, or of a task, that declare the same
// port. The main process of web declares the port that routes without one lead to, unless it
// is an image, which has ports of its own.
func CheckSidecarPorts(all []*Sidecar, l Lifecycle) error {
	groups := map[string][]*Sidecar{}
	for _, s := range all {
		for _, kind := range s.ProcessTypes {
			groups["process "+kind] = append(groups["process "+kind], s)
		}
		if s.RunsInTasks() {
			groups["tasks"] = append(groups["tasks"], s)
		}
	}
	for _, group := range slices.Sorted(maps.Keys(groups)) {
		owners := map[int]string{}
		if group == "process "+WebProcess && l.Type != LifecycleDocker {
			owners[DefaultPort] = MainMember
		}
		for _, s := range groups[group] {
			for _, port := range s.Options.Ports {
				switch owner := owners[port]; owner {
				case "":
					owners[port] = s.Name
				case MainMember:
					return fault.Invalid(fmt.Sprintf(
						"The sidecar %q declares port %d, which is that of the main process of %s (PORT): use another port", s.Name, port,
						WebProcess))
				default:
					return fault.Invalid(fmt.Sprintf(
						"The sidecars %q and %q of the %s declare the same port %d: use another port for one of them", owner, s.Name,
						group, port))
				}
			}
		}
	}
	return nil
}

// PortOwner returns the sidecar of a process type that declares a port, or nil.
func PortOwner(all []*Sidecar, processType string, port int) *Sidecar {
	i := slices.IndexFunc(all, func(s *Sidecar) bool {
		return slices.Contains(s.ProcessTypes, processType) && slices.Contains(s.Options.Ports, port)
	})
	if i < 0 {
		return nil
	}
	return all[i]
}

// DeclaredPorts says which sidecars of a process type declare which ports; it is empty if none
// does.
func DeclaredPorts(all []*Sidecar, processType string) string {
	var words []string
	for _, s := range all {
		if !slices.Contains(s.ProcessTypes, processType) || len(s.Options.Ports) == 0 {
			continue
		}
		ports := make([]string, 0, len(s.Options.Ports))
		for _, n := range s.Options.Ports {
			ports = append(ports, strconv.Itoa(n))
		}
		words = append(words, "sidecar "+s.Name+" declares "+strings.Join(ports, ", "))
	}
	return strings.Join(words, "; ")
}
