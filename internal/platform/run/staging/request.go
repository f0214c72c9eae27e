package staging

import (
	"context"
	"errors"
	"io"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/storage/blob"
)

// LogFunc receives a line of the staging log. The line is valid until it returns.
type LogFunc func(source string, stderr bool, t time.Time, line []byte)

// Request is a build.
type Request struct {
	BuildGUID string
	// DropletGUID is the key that the droplet is stored under.
	DropletGUID string
	// PackageGUID is the key of the package: a zip, as `cf push` uploads it.
	PackageGUID string
	// Image is the image to stage instead, if the lifecycle is docker.
	Image platform.ImageSource
	App   App
	// Lifecycle has the stack and the buildpacks; without buildpacks, those that
	// detect the app are used.
	Lifecycle platform.Lifecycle
	// MemoryMB and DiskMB limit the build; 0 means the defaults of Config.
	MemoryMB int
	DiskMB   int
	LogRate  int64 // bytes per second; 0 or less means no limit
	// Env is the staging environment group.
	Env map[string]string
	// VCAPApplication and VCAPServices are JSON texts.
	VCAPApplication string
	VCAPServices    string
	// Segment is the isolation segment of the app; empty means the shared one.
	Segment string
	// Sidecars are the user's.
	Sidecars []platform.Sidecar
	// HasCommand reports whether the app has its own start command, so that
	// its droplet needs none. It is called when the build has finished. Nil means
	// that this is not checked.
	HasCommand func(ctx context.Context) (bool, error)

	// Done, if set, is called with the result as soon as it is stored.
	Done func(ctx context.Context, r Result) error

	Log LogFunc
	// After is the last record of the instance that an earlier call passed on, so that
	// no line is repeated; Seen, if set, is called for each record.
	After engine.Position
	Seen  func(engine.Position)
}

// App describes the app of a build.
type App struct {
	GUID      string
	SpaceGUID string
	Name      string
	Env       map[string]string
}

// Result describes a droplet that was built or inspected.
type Result struct {
	Checksum          string // SHA-256
	Size              int64
	Stack             string
	DetectedBuildpack string
	Buildpacks        []platform.DropletBuildpack
	ProcessTypes      map[string]string
	Sidecars          []platform.DropletSidecar
	ExecutionMetadata string
	// Container is set if the droplet is a container image, and then Image is its
	// reference with the digest, and Source where it comes from.
	Container *platform.Image
	Image     string
	Source    platform.ImageSource
}

// Apply writes the result to a droplet.
func (r Result) Apply(d *platform.Droplet) {
	d.State, d.Error = platform.DropletStaged, ""
	d.Lifecycle = platform.LifecycleBuildpack
	if r.Container != nil {
		d.Lifecycle = platform.LifecycleDocker
	}
	d.Container, d.Image, d.ImageUsername, d.ImagePassword = r.Container, r.Image, r.Source.Username, r.Source.Password
	d.Checksum, d.Size, d.Stack = r.Checksum, r.Size, r.Stack
	d.Buildpacks, d.ProcessTypes, d.Sidecars = r.Buildpacks, r.ProcessTypes, r.Sidecars
	d.ExecutionMetadata = r.ExecutionMetadata
}

// ErrInterrupted means that the build continues in its instance: call Stage again,
// also after a restart.
var ErrInterrupted = errors.New("staging was interrupted and continues in its instance")

// Blobs is the part of blob.Store that is used.
type Blobs interface {
	Open(ctx context.Context, kind blob.Kind, key string) (*blob.Blob, error)
	Put(ctx context.Context, kind blob.Kind, key string, r io.Reader, o blob.PutOptions) (blob.Info, error)
	Stat(ctx context.Context, kind blob.Kind, key string) (blob.Info, error)
	Delete(ctx context.Context, kind blob.Kind, key string) error
}

// Catalog lists the installed buildpacks.
type Catalog interface {
	// Buildpacks returns the buildpacks of a stack and those without a stack, in the
	// order of detection, including disabled ones. The content of a buildpack with
	// Bundled set comes with Ingot, by its name; that of others is the blob with
	// their guid.
	Buildpacks(ctx context.Context, stack string) ([]platform.Buildpack, error)
}
