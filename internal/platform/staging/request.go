package staging

import (
	"context"
	"errors"
	"io"
	"time"

	"ingot/internal/platform"
	"ingot/internal/platform/blob"
	"ingot/internal/platform/engine"
)

// LogFunc takes a line of the staging log. The line's memory is valid until it
// returns.
type LogFunc func(source string, stderr bool, t time.Time, line []byte)

// Request is a build.
type Request struct {
	BuildGUID string
	// DropletGUID is the key that the droplet is stored under.
	DropletGUID string
	// PackageGUID is the key of the package: a zip, as `cf push` uploads it.
	PackageGUID string
	App         App
	// Lifecycle says which buildpacks, none meaning that they are asked, and
	// the stack.
	Lifecycle platform.Lifecycle
	// MemoryMB and DiskMB bound the build; 0 means the defaults of Config.
	MemoryMB int
	DiskMB   int
	LogRate  int64 // bytes a second; 0 and less mean no limit
	// Env is the staging environment group.
	Env map[string]string
	// VCAPApplication and VCAPServices are JSON texts.
	VCAPApplication string
	VCAPServices    string
	// Sidecars are the user's.
	Sidecars []platform.Sidecar
	// HasCommand reports whether the app has a start command of its own, so that
	// its droplet needs none. It is asked when the build is done. Nil means that
	// it does not matter.
	HasCommand func(ctx context.Context) (bool, error)

	Log LogFunc
	// After is the last record of the instance that an earlier call passed on,
	// so that no line comes twice; Seen, if set, is told of each.
	After engine.Position
	Seen  func(engine.Position)
}

// App is what a build has to know of its app.
type App struct {
	GUID string
	Name string
	Env  map[string]string
}

// Result is a droplet that was made, or looked into.
type Result struct {
	Checksum          string // SHA-256
	Size              int64
	Stack             string
	DetectedBuildpack string
	Buildpacks        []platform.DropletBuildpack
	ProcessTypes      map[string]string
	Sidecars          []platform.DropletSidecar
	ExecutionMetadata string
}

// Apply writes the result to a droplet.
func (r Result) Apply(d *platform.Droplet) {
	d.State, d.Error = platform.DropletStaged, ""
	d.Lifecycle = "buildpack"
	d.Checksum, d.Size, d.Stack = r.Checksum, r.Size, r.Stack
	d.Buildpacks, d.ProcessTypes, d.Sidecars = r.Buildpacks, r.ProcessTypes, r.Sidecars
	d.ExecutionMetadata = r.ExecutionMetadata
}

// ErrInterrupted means that the build goes on without us: call Stage again,
// after a restart too.
var ErrInterrupted = errors.New("staging was interrupted and goes on by itself")

// Blobs is the part of blob.Store that is used.
type Blobs interface {
	Open(ctx context.Context, kind blob.Kind, key string) (*blob.Blob, error)
	Put(ctx context.Context, kind blob.Kind, key string, r io.Reader, o blob.PutOptions) (blob.Info, error)
	Stat(ctx context.Context, kind blob.Kind, key string) (blob.Info, error)
	Delete(ctx context.Context, kind blob.Kind, key string) error
}

// Catalog knows the installed buildpacks.
type Catalog interface {
	// Buildpacks returns those of a stack (and those for any), in the order in
	// which they are asked, disabled ones too. One with Bundled set is found
	// among those that come with Ingot by its name; of the others the content is
	// the blob with their guid.
	Buildpacks(ctx context.Context, stack string) ([]platform.Buildpack, error)
}
