package manifest

import (
	"slices"
	"testing"

	"ingot/internal/base/manifestkeys"
	"ingot/internal/platform"
)

// The reference lists the keys of processes that manifests can have, and no others.
func TestProcessFieldsAreListed(t *testing.T) {
	t.Parallel()
	var fields, listed []string
	for _, f := range processFields {
		fields = append(fields, f.key)
	}
	for _, k := range manifestkeys.Of(manifestkeys.Process) {
		if k.Name != "type" && k.Ignored == "" {
			listed = append(listed, k.Name)
		}
	}
	slices.Sort(fields)
	slices.Sort(listed)
	if !slices.Equal(fields, listed) {
		t.Errorf("manifests read %v, and internal/base/manifestkeys lists %v", fields, listed)
	}
}

// What is shown of a process is read as the same process, and is in canonical form.
func TestProcessFieldsReadWhatTheyShow(t *testing.T) {
	t.Parallel()
	least := 7
	check := platform.HealthCheck{Type: platform.CheckHTTP, Endpoint: "/health", InvocationTimeout: 3, Interval: 4}
	startup := check
	startup.Timeout = 90
	process := platform.Process{Type: "web", Instances: 3, MinHealthy: &least, ProcessSettings: platform.ProcessSettings{
		Command: "./shop", User: "vcap", MemoryMB: 64, DiskMB: 128, LogRate: 2048, Health: startup, Readiness: check,
		OnCredentials: "SIGHUP"}}
	shown := map[string]any{}
	for _, f := range processFields {
		v := f.show(&process)
		if v == nil {
			t.Errorf("%s is left out: the process of this test lacks it", f.key)
			continue
		}
		if canonical := f.canonical(v); canonical != v {
			t.Errorf("%s is shown as %v, not as %v", f.key, v, canonical)
		}
		shown[f.key] = v
	}
	p := &parser{}
	var read platform.Process
	p.processKeys("web", shown).Set(&read)
	read.Type = process.Type
	if len(p.problems) > 0 || *read.MinHealthy != least {
		t.Errorf("read with %v: %+v", p.problems, read)
	}
	read.MinHealthy = process.MinHealthy
	if want, got := describeProcess(&process), describeProcess(&read); !slices.Equal(want, got) ||
		read.ProcessSettings != process.ProcessSettings {
		t.Errorf("read as %+v, want %+v", read, process)
	}
}
