package platform

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/fault"
	"ingot/internal/base/pattern"
)

// maxName is how many characters most names may have.
const maxName = 255

// nameProblem returns what is wrong with a name that a user chose, "" if nothing
// is. What counts as blank differs.
func nameProblem(name string, blank bool) string {
	switch {
	case blank:
		return "Name can't be blank"
	case utf8.RuneCountInString(name) > maxName:
		return "Name is too long (maximum is 255 characters)"
	case strings.ContainsFunc(name, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return "Name must not contain control characters"
	}
	return ""
}

// CheckAppName returns an error if an app cannot have the name.
func CheckAppName(name string) error {
	if problem := nameProblem(name, strings.TrimSpace(name) == ""); problem != "" {
		return fault.Invalid(problem)
	}
	return nil
}

// CheckTenantName returns an error if an organization or space cannot have the
// name.
func CheckTenantName(name string) error {
	switch {
	case name == "":
		return fault.Invalid("Name is too short (minimum is 1 character)")
	case utf8.RuneCountInString(name) > maxName:
		return fault.Invalid("Name is too long (maximum is 255 characters)")
	case strings.ContainsFunc(name, unicode.IsControl):
		return fault.Invalid("Name must not contain escaped characters")
	}
	return nil
}

// CheckPackageUpload refuses a second upload to a package.
func CheckPackageUpload(pkg *Package) error {
	if pkg.Type != PackageBits {
		return fault.Invalid("Package type must be bits.")
	}
	if pkg.State != PackageAwaitingUpload {
		return fault.New(fault.BadRequest, "Bits may be uploaded only once. Create a new package to upload different bits.")
	}
	return nil
}

var buildpackName = pattern.OnUse(`^[\w-]{1,250}$`)

// CheckBuildpackName returns an error if a buildpack cannot have the name.
func CheckBuildpackName(name string) error {
	if !buildpackName().MatchString(name) {
		return fault.Invalid("Name can only contain alphanumeric characters, underscores, and dashes, and must be 1 to 250 " +
			"long")
	}
	return nil
}

// CheckBuildpackUpload refuses uploads to a locked buildpack.
func CheckBuildpackUpload(bp *Buildpack) error {
	if bp.Locked {
		return fault.New(fault.Unprocessable, "The buildpack is locked")
	}
	return nil
}

var envName = pattern.OnUse(`^[^=\x00]+$`)

// CheckEnv returns an error if a user cannot set these environment variables.
func CheckEnv(env map[string]string) error {
	var problems []string
	for name := range env {
		switch {
		case name == "" || !envName().MatchString(name):
			problems = append(problems, fmt.Sprintf("Environment variable name %q must not be empty or contain '='", name))
		case strings.HasPrefix(name, "VCAP_"):
			problems = append(problems, "Env cannot start with VCAP_: "+name)
		case strings.HasPrefix(name, "VMC"):
			problems = append(problems, "Env cannot start with VMC_: "+name)
		case name == "PORT":
			problems = append(problems, "Env cannot set PORT")
		}
	}
	slices.Sort(problems)
	return fault.Invalid(problems...)
}

// CheckSidecar returns an error if a sidecar is wrong by itself, whatever else the
// app has.
func CheckSidecar(s *Sidecar) error {
	var problems []string
	if problem := nameProblem(s.Name, s.Name == ""); problem != "" {
		problems = append(problems, problem)
	}
	switch {
	case s.Command == "":
		problems = append(problems, "Command can't be blank")
	case len([]rune(s.Command)) > 4096:
		problems = append(problems, "Command is too long (maximum is 4096 characters)")
	}
	if len(s.ProcessTypes) == 0 && len(s.Options.RunIn) == 0 {
		problems = append(problems, "Process types must have at least 1 process_type")
	}
	for i, t := range s.ProcessTypes {
		switch {
		case t == "" || len([]rune(t)) > 255:
			problems = append(problems, "Process types must be 1 to 255 characters long")
		case slices.Contains(s.ProcessTypes[:i], t):
			problems = append(problems, "Process types must not contain duplicates: "+t)
		}
	}
	if s.MemoryMB < 0 {
		problems = append(problems, "Memory in mb must be greater than 0")
	}
	problems = append(problems, s.Options.check()...)
	return fault.Invalid(problems...)
}

// ValidEndpoint reports whether an http check can request the path.
func ValidEndpoint(path string) bool {
	return strings.HasPrefix(path, "/") && !strings.ContainsFunc(path, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

// CheckHealth returns an error if a health or readiness check is invalid. What
// names the check in messages.
func CheckHealth(h HealthCheck, what string) error {
	var problems []string
	if !slices.Contains([]CheckType{CheckPort, CheckProcess, CheckHTTP}, h.Type) {
		problems = append(problems, what+` type must be "port", "process", or "http"`)
	}
	if h.Type == CheckHTTP && !ValidEndpoint(h.Endpoint) {
		problems = append(problems, what+" endpoint must be a valid URI path")
	}
	for name, n := range map[string]int{"timeout": h.Timeout, "invocation timeout": h.InvocationTimeout,
		"interval": h.Interval} {
		if n < 0 {
			problems = append(problems, what+" "+name+" must be greater than or equal to 1")
		}
	}
	slices.Sort(problems)
	return fault.Invalid(problems...)
}

const (
	// maxTaskName is how many bytes the name of a task may have. With a prefix it
	// is the source of log lines, whose length the log limits.
	maxTaskName = 255
	// maxCommand is how long the command of a task may be.
	maxCommand = 4096
)

// CheckTask returns an error if a task is invalid, whatever the app has.
func CheckTask(t *Task) error {
	var problems []string
	add := func(wrong bool, format string, args ...any) {
		if wrong {
			problems = append(problems, fmt.Sprintf(format, args...))
		}
	}
	add(strings.TrimSpace(t.Name) == "", "Name can't be blank")
	add(len(t.Name) > maxTaskName, "Name is too long (maximum is %d bytes)", maxTaskName)
	add(!utf8.ValidString(t.Name), "Name must be valid UTF-8")
	add(strings.ContainsFunc(t.Name, unicode.IsControl), "Name must not contain control characters")
	add(strings.TrimSpace(t.Command) == "", "Command can't be blank")
	add(len([]rune(t.Command)) > maxCommand, "Command must be shorter than %d characters", maxCommand+1)
	add(strings.ContainsRune(t.Command, 0), "Command must not contain NUL characters")
	add(t.MemoryMB <= 0 || t.MemoryMB > maxMegabytes, "Memory in mb must be greater than 0")
	add(t.DiskMB <= 0 || t.DiskMB > maxMegabytes, "Disk in mb must be greater than 0")
	if problem := checkLogRate(t.LogRate); problem != "" {
		problems = append(problems, problem)
	}
	return fault.Invalid(problems...)
}

// CheckQuota returns an error if the name or the limits of a quota are invalid.
func CheckQuota(name string, l Limits) error {
	var problems []string
	add := func(wrong bool, problem string) {
		if wrong {
			problems = append(problems, problem)
		}
	}
	add(strings.TrimSpace(name) == "", "Name is too short (minimum is 1 character)")
	add(len([]rune(name)) > 250, "Name is too long (maximum is 250 characters)")
	for _, limit := range []struct {
		value *int
		name  string
	}{
		{l.MemoryMB, "Apps Total memory in mb"}, {l.ProcessMemoryMB, "Apps Per process memory in mb"},
		{l.Instances, "Apps Total instances"}, {l.Tasks, "Apps Per app tasks"},
		{l.ServiceInstances, "Services Total service instances"}, {l.ServiceKeys, "Services Total service keys"},
		{l.Routes, "Routes Total routes"}, {l.ReservedPorts, "Routes Total reserved ports"},
		{l.Domains, "Domains Total domains"},
	} {
		add(limit.value != nil && *limit.value < 0, limit.name+" must be greater than or equal to 0")
		add(limit.value != nil && *limit.value > maxMegabytes, fmt.Sprintf("%s must be less than or equal to %d", limit.name,
			maxMegabytes))
	}
	add(l.LogRate != nil && *l.LogRate < 0, "Apps Log rate limit in bytes per second must be greater than or equal to 0")
	add(l.Routes != nil && l.ReservedPorts != nil && *l.ReservedPorts > *l.Routes,
		"Routes Total reserved ports must be less than or equal to total routes")
	return fault.Invalid(problems...)
}
