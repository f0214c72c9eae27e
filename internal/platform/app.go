package platform

import "time"

// AppState is the state that the user wants an app to be in.
type AppState string

// The states of an app.
const (
	AppStarted AppState = "STARTED"
	AppStopped AppState = "STOPPED"
)

// Lifecycle is how an app is staged.
type Lifecycle struct {
	Type       string   `json:"type"` // buildpack, docker
	Buildpacks []string `json:"buildpacks,omitempty"`
	Stack      string   `json:"stack,omitempty"`
}

// App is an application that a user pushed.
type App struct {
	Resource
	Metadata
	Name        string
	SpaceGUID   string
	State       AppState
	Lifecycle   Lifecycle
	DropletGUID string
	// Env is the user's environment; it may hold secrets and is encrypted.
	Env map[string]string
	// Features are switches that differ from their defaults.
	Features map[string]bool
}

// The features of an app that the platform acts on. The last two provide its
// services in files.
const (
	FeatureSSH               = "ssh"
	FeatureRevisions         = "revisions"
	FeatureServiceBindingK8s = "service-binding-k8s"
	FeatureFileBasedVCAP     = "file-based-vcap-services"
)

// HasFeature reports whether a feature is enabled. By default only ssh and revisions
// are.
func (a *App) HasFeature(name string) bool {
	enabled, set := a.Features[name]
	return enabled || !set && (name == FeatureSSH || name == FeatureRevisions)
}

// FileBased returns the enabled feature that provides services in files, "" if
// none is.
func (a *App) FileBased() string {
	for _, f := range []string{FeatureServiceBindingK8s, FeatureFileBasedVCAP} {
		if a.HasFeature(f) {
			return f
		}
	}
	return ""
}

// CheckType is a kind of health or readiness check.
type CheckType string

// The kinds of check.
const (
	CheckPort    CheckType = "port"
	CheckProcess CheckType = "process"
	CheckHTTP    CheckType = "http"
)

// HealthCheck decides whether an instance is healthy. Durations are in seconds;
// zero means the default.
type HealthCheck struct {
	Type              CheckType `json:"type"`
	Endpoint          string    `json:"endpoint,omitempty"`
	Timeout           int       `json:"timeout,omitempty"` // to become healthy after the start
	InvocationTimeout int       `json:"invocation_timeout,omitempty"`
	Interval          int       `json:"interval,omitempty"`
}

// Process is a process type of an app. The first web process of an app has the
// guid of the app; every deployment creates another one, which replaces it. While it
// does, both exist.
type Process struct {
	Resource
	Metadata
	AppGUID string
	Type    string
	ProcessSettings
	Instances int
	// MinHealthy is how many seconds a new instance has to be ready before a deployment
	// counts it; nil means the default.
	MinHealthy *int
	// Version changes whenever instances have to be replaced.
	Version string
	// DropletGUID is the droplet that its instances run. It becomes the app's
	// current droplet at a start or restart.
	DropletGUID string
	// RevisionGUID is the revision that its instances run; empty if the app has no
	// revisions.
	RevisionGUID string
}

// ProcessSettings are the settings of a process that belong to a version of the app: a
// revision has them, and a rollback restores them. The number of instances does not: it follows
// the load.
type ProcessSettings struct {
	// Command is what the user set; empty means the command of the droplet.
	Command   string      `json:"command,omitempty"`
	User      string      `json:"user,omitempty"`
	MemoryMB  int         `json:"memory_mb"`
	DiskMB    int         `json:"disk_mb"`
	LogRate   int64       `json:"log_rate"` // bytes a second; -1 means no limit
	Health    HealthCheck `json:"health"`
	Readiness HealthCheck `json:"readiness"`
	// OnCredentials is what instances need when credentials in their service files change:
	// OnCredentialsNone, OnCredentialsRestart (also if it is empty) or the name of a signal.
	OnCredentials string `json:"on_credentials,omitempty"`
}

// Defaults of a new process.
const (
	DefaultMemoryMB = 1024
	DefaultDiskMB   = 1024
	DefaultLogRate  = -1
	DefaultPort     = 8080
	WebProcess      = "web"
)

// MaxMinHealthy is the largest minimum healthy time of a process or deployment, in seconds.
const MaxMinHealthy = 3600

// Sidecar is an extra process in the instances of some process types.
type Sidecar struct {
	Resource
	AppGUID      string
	Name         string
	Command      string
	ProcessTypes []string
	MemoryMB     int    // 0 means not set
	Origin       string // user, buildpack
	Options      SidecarOptions
}

// PackageState is how far the source of an app has been uploaded.
//
//	AWAITING_UPLOAD ◀──▶ PROCESSING_UPLOAD ──▶ READY ◀── COPYING
//	                             └──────────▶ FAILED    └──▶ EXPIRED
type PackageState string

// The states of a package. A copy of another package is copying until its files
// are stored. The files of an expired one are removed.
const (
	PackageAwaitingUpload   PackageState = "AWAITING_UPLOAD"
	PackageProcessingUpload PackageState = "PROCESSING_UPLOAD"
	PackageCopying          PackageState = "COPYING"
	PackageReady            PackageState = "READY"
	PackageFailed           PackageState = "FAILED"
	PackageExpired          PackageState = "EXPIRED"
)

// Package is the source of an app.
type Package struct {
	Resource
	Metadata
	AppGUID  string
	Type     string // bits, docker
	State    PackageState
	Error    string
	Checksum string // SHA-256
	Image    string
	Username string
	Password string // encrypted
}

// BuildState is how far a build is.
type BuildState string

// The states of a build.
const (
	BuildStaging BuildState = "STAGING"
	BuildStaged  BuildState = "STAGED"
	BuildFailed  BuildState = "FAILED"
)

// Build makes a droplet from a package.
type Build struct {
	Resource
	Metadata
	AppGUID     string
	PackageGUID string
	DropletGUID string
	State       BuildState
	Error       string
	Lifecycle   Lifecycle
	MemoryMB    int
	DiskMB      int
	LogRate     int64
	CreatorGUID string
	CreatorName string
	CreatorMail string
}

// DropletState reports whether a droplet can be run.
type DropletState string

// The states of a droplet. Those that a build makes are staged from the start;
// those that users upload or copy become so once their file is stored. The file of an
// expired one is removed.
const (
	DropletAwaitingUpload DropletState = "AWAITING_UPLOAD"
	DropletCopying        DropletState = "COPYING"
	DropletStaged         DropletState = "STAGED"
	DropletFailed         DropletState = "FAILED"
	DropletExpired        DropletState = "EXPIRED"
)

// Droplet is a runnable app.
type Droplet struct {
	Resource
	Metadata
	AppGUID     string
	PackageGUID string
	BuildGUID   string
	State       DropletState
	Error       string
	Lifecycle   string
	Checksum    string // SHA-256
	Size        int64
	Stack       string
	// Image is the reference of a container image, with its digest. Container is what
	// the registry says about it; nil if the droplet is not one.
	Image         string
	Container     *Image
	ImageUsername string
	ImagePassword string // encrypted

	Buildpacks        []DropletBuildpack
	ProcessTypes      map[string]string
	Sidecars          []DropletSidecar
	ExecutionMetadata string
}

// DropletBuildpack is a buildpack that took part in staging.
type DropletBuildpack struct {
	Name          string `json:"name"`
	DetectOutput  string `json:"detect_output"`
	Version       string `json:"version"`
	BuildpackName string `json:"buildpack_name"`
}

// DropletSidecar is a sidecar that a buildpack defines.
type DropletSidecar struct {
	Name         string   `json:"name"`
	Command      string   `json:"command"`
	ProcessTypes []string `json:"process_types"`
	MemoryMB     int      `json:"memory,omitempty"`
	// Options are nil if it asks for nothing beyond Cloud Foundry.
	Options *SidecarOptions `json:"options,omitempty"`
}

// InstanceState is the state of one instance, as users see it.
type InstanceState string

// The states of an instance.
const (
	InstanceStarting InstanceState = "STARTING"
	InstanceRunning  InstanceState = "RUNNING"
	InstanceStopping InstanceState = "STOPPING"
	InstanceCrashed  InstanceState = "CRASHED"
	InstanceDown     InstanceState = "DOWN"
)

// Instance is one instance of a process, in its actual state. The controller
// writes it.
type Instance struct {
	Resource     // the guid is the engine's id
	AppGUID      string
	ProcessGUID  string
	Index        int
	Version      string // of the process when it was started
	State        InstanceState
	Ready        bool
	Since        time.Time
	Crashes      int
	CrashedAt    time.Time
	RestartAt    time.Time // when it is restarted after a crash
	Details      string    // for the user: why it is not running
	Host         string
	InternalIP   string
	Ports        []InstancePort
	RecordsAfter uint64 // the last record whose line was stored
}

// InstanceRestart is a user's request to restart an instance.
type InstanceRestart struct {
	Resource
	AppGUID     string
	ProcessGUID string
	Index       int
}

// InstancePort is the address at which a port of an instance is reached.
type InstancePort struct {
	Inside  int    `json:"inside"`
	Listens int    `json:"listens"`
	Address string `json:"address"`
	// Default is set if routes without a port lead here. Without it that is
	// DefaultPort.
	Default bool `json:"default,omitempty"`
}
