package platform

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"ingot/internal/base/fault"
)

// refuses fails the test unless err is fault.Unprocessable with want in its
// message, or nil for "".
func refuses(t *testing.T, what string, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v, want none", what, err)
	case want != "" && (!fault.Is(err, fault.Unprocessable) || !strings.Contains(err.Error(), want)):
		t.Errorf("%s: %v, want %q", what, err, want)
	}
}

func TestCheckAppName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"app": "", "my app.v2": "", strings.Repeat("é", 255): "",
		"": "can't be blank", " \t": "can't be blank", strings.Repeat("a", 256): "too long", "a\nb": "control characters",
		"a\x7f": "control characters",
	} {
		refuses(t, name, CheckAppName(name), want)
	}
}

func TestCheckTenantName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"org": "", " ": "", strings.Repeat("é", 255): "",
		"": "Name is too short", strings.Repeat("a", 256): "Name is too long", "a\x00b": "escaped characters",
		"a\u0085": "escaped characters",
	} {
		refuses(t, name, CheckTenantName(name), want)
	}
}

func TestCheckUploads(t *testing.T) {
	t.Parallel()
	for _, state := range []PackageState{PackageAwaitingUpload, PackageProcessingUpload, PackageCopying, PackageReady,
		PackageFailed, PackageExpired} {
		err := CheckPackageUpload(&Package{Type: PackageBits, State: state})
		if got, want := fault.Is(err, fault.BadRequest), state != PackageAwaitingUpload; got != want {
			t.Errorf("upload to a package that is %s: got %v, want refused %v", state, err, want)
		}
	}
	refuses(t, "locked", CheckBuildpackUpload(&Buildpack{Locked: true}), "The buildpack is locked")
	refuses(t, "unlocked", CheckBuildpackUpload(&Buildpack{State: BuildpackReady}), "")
}

func TestCheckBuildpackName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"go_buildpack": "", "my-pack": "", strings.Repeat("b", 250): "",
		"": "Name can only contain", strings.Repeat("b", 251): "Name can only contain", "a b": "Name can only contain",
		"https://x": "Name can only contain", "a\n": "Name can only contain",
	} {
		refuses(t, name, CheckBuildpackName(name), want)
	}
}

func TestCheckEnv(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"A": "", "path": "", "VCAP": "", "PORTS": "", "a b": "",
		"": "must not be empty", "A=B": "must not be empty or contain '='", "VCAP_SERVICES": "cannot start with VCAP_",
		"VMC_X": "cannot start with VMC_", "PORT": "cannot set PORT",
	} {
		refuses(t, name, CheckEnv(map[string]string{name: "x", "OTHER": "y"}), want)
	}
	err := CheckEnv(map[string]string{"PORT": "1", "VCAP_X": "2"})
	refuses(t, "two", err, "Env cannot set PORT")
	refuses(t, "two", err, "Env cannot start with VCAP_: VCAP_X")
}

func TestCheckSidecar(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(s *Sidecar){
		"":                                    func(*Sidecar) {},
		"Name can't be blank":                 func(s *Sidecar) { s.Name = "" },
		"Name is too long":                    func(s *Sidecar) { s.Name = strings.Repeat("n", 256) },
		"Name must not contain control":       func(s *Sidecar) { s.Name = "a\tb" },
		"Command can't be blank":              func(s *Sidecar) { s.Command = "" },
		"Command is too long":                 func(s *Sidecar) { s.Command = strings.Repeat("c", 4097) },
		"at least 1 process_type":             func(s *Sidecar) { s.ProcessTypes = nil },
		"1 to 255 characters":                 func(s *Sidecar) { s.ProcessTypes = []string{""} },
		"must not contain duplicates: web":    func(s *Sidecar) { s.ProcessTypes = []string{"web", "a", "web"} },
		"Memory in mb must be greater than 0": func(s *Sidecar) { s.MemoryMB = -1 },
	} {
		s := &Sidecar{Name: "proxy", Command: "./proxy", ProcessTypes: []string{"web", "worker"}, MemoryMB: 64}
		change(s)
		refuses(t, want, CheckSidecar(s), want)
	}
}

func TestCheckHealth(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		check HealthCheck
		want  string
	}{
		{HealthCheck{Type: CheckPort}, ""}, {HealthCheck{Type: CheckProcess, Timeout: 60}, ""},
		{HealthCheck{Type: CheckHTTP, Endpoint: "/health?x=1"}, ""},
		{HealthCheck{}, `Health check type must be "port"`}, {HealthCheck{Type: "tcp"}, `Health check type must be "port"`},
		{HealthCheck{Type: CheckHTTP}, "endpoint must be a valid URI path"},
		{HealthCheck{Type: CheckHTTP, Endpoint: "health"}, "endpoint"}, {HealthCheck{Type: CheckHTTP, Endpoint: "/a b"},
			"endpoint"},
		{HealthCheck{Type: CheckPort, Timeout: -1}, "Health check timeout"}, {HealthCheck{Type: CheckPort, Interval: -1},
			"interval"}, {HealthCheck{Type: CheckPort, InvocationTimeout: -1}, "invocation timeout"},
	} {
		refuses(t, string(x.check.Type)+x.check.Endpoint, CheckHealth(x.check, "Health check"), x.want)
	}
}

func TestCheckQuota(t *testing.T) {
	t.Parallel()
	n := func(n int) *int { return &n }
	rate := int64(-1)
	for _, x := range []struct {
		name   string
		limits Limits
		want   string
	}{
		{"q", Limits{}, ""}, {"q", Limits{MemoryMB: n(0), Routes: n(5), ReservedPorts: n(5)}, ""},
		{" ", Limits{}, "too short"}, {strings.Repeat("q", 251), Limits{}, "too long"},
		{"q", Limits{MemoryMB: n(-1)}, "Apps Total memory in mb must be greater"},
		{"q", Limits{Domains: n(-1)}, "Domains Total domains must be greater"},
		{"q", Limits{Instances: n(maxMegabytes + 1)}, "Apps Total instances must be less"},
		{"q", Limits{LogRate: &rate}, "Log rate limit"},
		{"q", Limits{Routes: n(1), ReservedPorts: n(2)}, "less than or equal to total routes"},
	} {
		refuses(t, x.want, CheckQuota(x.name, x.limits), x.want)
	}
}

func TestCheckMetadata(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"a": "", "a-b_c.D9": "", "example.org/team": "", strings.Repeat("k", 63): "",
		"": "label key error", strings.Repeat("k", 64): "label key error", "-a": "label key error", "a b": "label key error",
		"local/a": "label key error",
		"a..b/c":  "label key error", "CloudFoundry.org/x": "reserved",
	} {
		value := "v"
		refuses(t, key, CheckMetadata(map[string]*string{key: &value}, nil), want)
		refuses(t, key+" of an annotation", CheckMetadata(nil, map[string]*string{key: &value}),
			strings.Replace(want, "label", "annotation", 1))
		refuses(t, key+" removed", CheckMetadata(map[string]*string{key: nil}, map[string]*string{key: nil}), "")
	}
	for value, want := range map[string]string{"": "", "blue.2": "", "a b": "label value error", "x-": "label value error",
		strings.Repeat("v", 64): "label value error"} {
		refuses(t, value, CheckMetadata(map[string]*string{"k": &value}, nil), want)
	}
	long := strings.Repeat("é", maxAnnotation)
	refuses(t, "a long annotation", CheckMetadata(nil, map[string]*string{"k": &long}), "")
	long += "x"
	refuses(t, "a longer annotation", CheckMetadata(nil, map[string]*string{"k": &long}), "greater than 5000")
}

func TestScale(t *testing.T) {
	t.Parallel()
	n := func(n int) *int { return &n }
	rate := func(n int64) *int64 { return &n }
	for _, x := range []struct {
		scale Scale
		want  string
	}{
		{Scale{}, ""}, {Scale{Instances: n(0), MemoryMB: n(1), DiskMB: n(1), LogRate: rate(-1)}, ""},
		{Scale{Instances: n(MaxInstances)}, ""},
		{Scale{Instances: n(-1)}, "Instances must be"}, {Scale{Instances: n(MaxInstances + 1)}, "Instances must be"},
		{Scale{MemoryMB: n(0)}, "Memory in mb"},
		{Scale{MemoryMB: n(maxMegabytes + 1)}, "Memory in mb"}, {Scale{DiskMB: n(0)}, "Disk in mb"},
		{Scale{LogRate: rate(-2)}, "Log rate limit"},
	} {
		_, err := x.scale.Apply(&Process{Instances: 1, ProcessSettings: ProcessSettings{MemoryMB: 2, DiskMB: 3}})
		refuses(t, x.want, err, x.want)
	}
	process := &Process{Instances: 1, ProcessSettings: ProcessSettings{MemoryMB: 2, DiskMB: 3, LogRate: 4}}
	request, err := Scale{MemoryMB: n(64)}.Apply(process)
	if err != nil || process.Instances != 1 || process.MemoryMB != 64 || process.DiskMB != 3 || process.LogRate != 4 {
		t.Errorf("the process is %+v (%v), want only its memory changed", process, err)
	}
	if got := slices.Collect(maps.Keys(request)); !slices.Equal(got, []string{"memory_in_mb"}) {
		t.Errorf("the request is %v, want memory_in_mb alone", got)
	}
}

func TestHasFeature(t *testing.T) {
	t.Parallel()
	for name, byDefault := range map[string]bool{FeatureSSH: true, FeatureFileBasedVCAP: false,
		FeatureServiceBindingK8s: false, "other": false} {
		if got := new(App).HasFeature(name); got != byDefault {
			t.Errorf("by default %s is %v, want %v", name, got, byDefault)
		}
		for _, set := range []bool{true, false} {
			if got := (&App{Features: map[string]bool{name: set}}).HasFeature(name); got != set {
				t.Errorf("%s is %v, want %v as set", name, got, set)
			}
		}
	}
}

// A name becomes part of the source of log lines, so it has what those can have.
func TestTaskNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"migrate":                        "",
		"größe 7":                        "",
		strings.Repeat("n", 255):         "",
		strings.Repeat("é", 127):         "",
		strings.Repeat("n", 256):         "Name is too long (maximum is 255 bytes)",
		strings.Repeat("\U0001f600", 64): "Name is too long (maximum is 255 bytes)",
		"a\xffb":                         "Name must be valid UTF-8",
		"a\x00b":                         "Name must not contain control characters",
		"a\x7fb":                         "Name must not contain control characters",
		"a\u0085b":                       "Name must not contain control characters",
		"a\u009bb":                       "Name must not contain control characters",
		" ":                              "Name can't be blank",
	} {
		err := CheckTask(&Task{Name: name, Command: "x", MemoryMB: 1, DiskMB: 1, LogRate: -1})
		switch {
		case want == "" && err != nil:
			t.Errorf("%q: %v", name, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

// Sizes whose sums would overflow, and so fit into every quota, are refused.
func TestSizesAreBounded(t *testing.T) {
	t.Parallel()
	rate := func(n int64) Scale { return Scale{LogRate: &n} }
	size := func(n int) *int { return &n }
	for name, tc := range map[string]struct {
		scale Scale
		ok    bool
	}{
		"unlimited logs": {rate(-1), true}, "no logs": {rate(0), true}, "most logs": {rate(MaxLogRate), true},
		"negative logs": {rate(-2), false},
		"one more":      {rate(MaxLogRate + 1), false}, "a quarter of all numbers": {rate(1 << 62), false},
		"the largest number": {rate(math.MaxInt64), false},
		"memory":             {Scale{MemoryMB: size(math.MaxInt64)}, false},
		"disk":               {Scale{DiskMB: size(math.MaxInt64)}, false},
		"instances":          {Scale{Instances: size(math.MaxInt64)}, false},
	} {
		if _, err := tc.scale.Apply(new(Process)); (err == nil) != tc.ok {
			t.Errorf("%s: %v, want success: %t", name, err, tc.ok)
		}
		task := &Task{Name: "t", Command: "c", MemoryMB: 1, DiskMB: 1}
		if tc.scale.LogRate != nil {
			task.LogRate = *tc.scale.LogRate
			if err := CheckTask(task); (err == nil) != tc.ok {
				t.Errorf("a task, %s: %v, want success: %t", name, err, tc.ok)
			}
		}
	}
}
