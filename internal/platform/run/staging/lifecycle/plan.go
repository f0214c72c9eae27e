package lifecycle

import "fmt"

// The places in the home directory.
const (
	AppDir        = "app"
	BuildpacksDir = "buildpacks"
	CacheDir      = "cache"
	StageDir      = "stage"
	BuilderDir    = "builder"
	DropletDir    = "out/droplet"
	MetaDir       = "out/meta"
	PlanFile      = "plan.json"
	ResultFile    = "result.json"
	InfoFile      = "staging_info.yml"
)

// The exit statuses of the builder: those of Cloud Foundry, and one more.
const (
	ExitOK       = 0
	ExitFailure  = 1   // not a buildpack's doing
	ExitDetect   = 222 // no buildpack wants it
	ExitCompile  = 223
	ExitRelease  = 224
	ExitSupply   = 225
	ExitFinalize = 226
	ExitDiskFull = 227
)

// Plan is what the builder is to do.
type Plan struct {
	// Buildpacks are those asked for, in order, or without SkipDetect all there
	// are, of which the first that detects the application is used.
	Buildpacks []Buildpack `json:"buildpacks"`
	SkipDetect bool        `json:"skip_detect"`
	Stack      string      `json:"stack"`
	// Env is added to the environment of the buildpacks and wins over the
	// builder's own.
	Env map[string]string `json:"env,omitempty"`
}

// Buildpack is one of a plan. It lies in BuildpacksDir, by its position.
type Buildpack struct {
	// Name is what the user calls it: a name, or a URL without credentials.
	Name string `json:"name"`
	// Key names its content.
	Key     string `json:"key"`
	Bundled bool   `json:"bundled,omitempty"`
	Custom  bool   `json:"custom,omitempty"` // from a URL
}

// Result is what came of it. The names are those of Cloud Foundry's lifecycle.
type Result struct {
	Lifecycle    LifecycleMetadata `json:"lifecycle_metadata"`
	ProcessTypes map[string]string `json:"process_types"`
	Processes    []Process         `json:"processes"`
	Sidecars     []Sidecar         `json:"sidecars"`
	// ExecutionMetadata is ours to fill: JSON as text, see Execution.
	ExecutionMetadata string `json:"execution_metadata"`
	LifecycleType     string `json:"lifecycle_type"`
}

// LifecycleMetadata lists the buildpacks that built the app.
type LifecycleMetadata struct {
	BuildpackKey      string          `json:"buildpack_key"`
	DetectedBuildpack string          `json:"detected_buildpack"`
	Buildpacks        []UsedBuildpack `json:"buildpacks"`
}

// UsedBuildpack is a buildpack that built the app. Name is the one of the plan,
// BuildpackName and Version what it says of itself in deps/N/config.yml or its
// manifest.yml.
type UsedBuildpack struct {
	Key           string `json:"key"`
	Name          string `json:"name"`
	BuildpackName string `json:"buildpack_name"`
	Version       string `json:"version"`
	DetectOutput  string `json:"detect_output"`
}

// Process is a process type and its command.
type Process struct {
	Type    string `json:"type"`
	Command string `json:"command"`
}

// Sidecar is an extra process that a buildpack asks for. Memory is in MB, 0 when
// it says none.
type Sidecar struct {
	Name         string   `json:"name"`
	ProcessTypes []string `json:"process_types"`
	Command      string   `json:"command"`
	Memory       int      `json:"memory,omitempty"`
	// Options are the keys of platforms.ingot, as YAML: what it asks for beyond
	// Cloud Foundry, in the words of a manifest. The server reads them.
	Options string `json:"options,omitempty"`
}

// Execution is the JSON in Result.ExecutionMetadata; empty when there is
// nothing to say.
type Execution struct {
	// NeedsSidecarMemory means that the processes take all the memory they are
	// told of, so that every sidecar has to say how much is its own.
	NeedsSidecarMemory bool `json:"needs_sidecar_memory,omitempty"`
	// Sync says which changes to the app need no build; nil means none.
	Sync *Sync `json:"sync,omitempty"`
}

// Sync are the files of the app that a build depends on. All others are in the
// droplet as they are in the package. Buildpacks declare it; a pattern is one of
// path.Match, or a folder if it ends in a slash.
type Sync struct {
	// Restage are files whose content matters.
	Restage []string `json:"restage" yaml:"restage"`
	// RestagePresence are files of which only matters whether they exist.
	RestagePresence []string `json:"restage_presence,omitempty" yaml:"restage_presence"`
}

// Info is staging_info.yml. The first three fields are Cloud Foundry's; the
// others let a droplet that is taken elsewhere say what it is.
type Info struct {
	DetectedBuildpack string            `json:"detected_buildpack"`
	StartCommand      string            `json:"start_command"`
	Config            *InfoConfig       `json:"config,omitempty"`
	ProcessTypes      map[string]string `json:"process_types,omitempty"`
	Sidecars          []Sidecar         `json:"sidecars,omitempty"`
	Buildpacks        []UsedBuildpack   `json:"buildpacks,omitempty"`
	ExecutionMetadata string            `json:"execution_metadata,omitempty"`
}

// InfoConfig is what a release script says about how to start.
type InfoConfig struct {
	EntrypointPrefix string `json:"entrypoint_prefix,omitempty"`
}

// Failure is a step that failed: the message for the log, the status to exit
// with.
type Failure struct {
	Status  int
	Message string
}

func (f *Failure) Error() string { return f.Message }

func fail(status int, format string, args ...any) error {
	return &Failure{Status: status, Message: fmt.Sprintf(format, args...)}
}
