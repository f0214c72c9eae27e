package manifest

import (
	"ingot/internal/platform"
)

// Manifest is a validated manifest.
type Manifest struct {
	Apps []*App
}

// App is an entry of applications. Nil pointers and maps are keys that are absent,
// so that nothing is changed.
type App struct {
	Name         string
	Buildpacks   *[]string
	Stack        *string
	Lifecycle    *string
	Env          map[string]string
	Features     map[string]bool
	Metadata     Metadata
	Processes    []*Process // web first; from the app's own keys if it is not listed
	Sidecars     []*Sidecar
	Routes       []*Route
	NoRoute      bool
	RandomRoute  bool
	DefaultRoute bool
	Services     []Service
	// Warnings are about keys without effect, each with the name of the app.
	Warnings []string
	// raw is the entry as written, for Diff.
	raw map[string]any
}

// Metadata has labels and annotations; a nil value removes the key.
type Metadata struct {
	Labels, Annotations map[string]*string
}

// Process is a process type.
type Process struct {
	Type string
	// edits are the settings that the manifest has.
	edits []edit
}

// Set sets what the manifest says of a process; other settings stay.
func (p *Process) Set(to *platform.Process) {
	for _, change := range p.edits {
		change(to)
	}
}

// Sidecar is a sidecar.
type Sidecar struct {
	Name         string
	Command      string
	ProcessTypes []string
	MemoryMB     *int
	Options      platform.SidecarOptions
}

// Route is a route of the app.
type Route struct {
	URL      string
	Protocol string
	Options  map[string]any // a nil value removes the option
}

// Service is a service instance to bind.
type Service struct {
	Name        string
	BindingName string
	Parameters  map[string]any
}
