package builds

import (
	"context"
	"io"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/rest"
)

// API serves packages, builds, droplets, buildpacks and stacks.
type API struct {
	*rest.Server
	Blobs Blobs
	Links Links
	// InspectDroplet reads the metadata of an uploaded droplet; nil means that it is not
	// read. A *fault.Error means that the droplet could not run.
	InspectDroplet func(ctx context.Context, r io.Reader) (*platform.Droplet, error)
	Scratch        string // the directory for uploads
	MaxUpload      int64  // in bytes

	turns turns
}

// Routes registers the routes with their authorization decisions.
func (a *API) Routes(g *web.Group) {
	a.packageRoutes(g)
	a.changeRoutes(g)
	a.buildRoutes(g)
	a.buildCacheRoutes(g)
	a.dropletRoutes(g)
	a.stackRoutes(g)
	a.buildpackRoutes(g)
	a.linkRoutes(g)
}
