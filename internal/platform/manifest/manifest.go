package manifest

import (
	"ingot/internal/platform"
)

// Manifest is a checked manifest.
type Manifest struct {
	Apps []*App
}

// App is one entry of applications. Pointers and nil maps tell what was not
// said, and so is left alone.
type App struct {
	Name         string
	Buildpacks   *[]string
	Stack        *string
	Lifecycle    *string
	Env          map[string]string
	Features     map[string]bool
	Metadata     Metadata
	Processes    []*Process // web first, made of the app's own keys when not listed
	Sidecars     []*Sidecar
	Routes       []*Route
	NoRoute      bool
	RandomRoute  bool
	DefaultRoute bool
	Services     []Service
	// Warnings are about keys that do nothing, each with the name of the app.
	Warnings []string
	// raw is the entry as it was written, for Diff.
	raw map[string]any
}

// Metadata is labels and annotations; nil values remove a key.
type Metadata struct {
	Labels, Annotations map[string]*string
}

// Process is one process type.
type Process struct {
	Type      string
	Command   *string // "" means that of the droplet
	User      *string
	Instances *int
	MemoryMB  *int
	DiskMB    *int
	LogRate   *int64
	Health    Check
	Readiness Check
}

// Check is a health or readiness check.
type Check struct {
	Type              *platform.CheckType
	Endpoint          *string
	Timeout           *int
	InvocationTimeout *int
	Interval          *int
}

// Sidecar is one sidecar.
type Sidecar struct {
	Name         string
	Command      string
	ProcessTypes []string
	MemoryMB     *int
}

// Route is an address of the app.
type Route struct {
	URL      string
	Protocol string
	Options  map[string]any // nil removes one
}

// Service is a service instance to bind.
type Service struct {
	Name        string
	BindingName string
	Parameters  map[string]any
}
