package staging

import (
	"context"
	"io"
	"slices"
	"strings"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/run/staging/buildpacks"
	"ingot/internal/platform/run/staging/lifecycle"
	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/blob"
)

// chosen is a buildpack with its content.
type chosen struct {
	lifecycle.Buildpack
	files engine.Archive // without a target yet
}

// buildpackLimits limits the unpacked content of a buildpack.
var buildpackLimits = archive.Limits{Size: 4 << 30}

// choose returns the buildpacks of a request. The second result reports whether they
// were named in the request, so that none has to detect the app.
func (s *Stager) choose(ctx context.Context, req Request, c *converter, scratch string) ([]chosen, bool, error) {
	installed, err := s.installed(ctx, req.Lifecycle.Stack)
	if err != nil {
		return nil, false, err
	}
	if len(req.Lifecycle.Buildpacks) == 0 {
		var all []chosen
		for _, p := range installed {
			if !p.Enabled || p.State != platform.BuildpackReady {
				continue
			}
			one, err := s.content(ctx, p, c)
			if err != nil {
				return nil, false, err
			}
			all = append(all, one)
		}
		if len(all) == 0 {
			return nil, false, failure(NoBuildpacks, "There are no buildpacks available for the stack %q", req.Lifecycle.Stack)
		}
		return all, false, nil
	}
	var all []chosen
	for _, name := range req.Lifecycle.Buildpacks {
		one, err := s.named(ctx, name, installed, req, c, scratch)
		if err != nil {
			return nil, false, err
		}
		all = append(all, one)
	}
	return all, true, nil
}

func (s *Stager) named(ctx context.Context, name string, installed []platform.Buildpack, req Request, c *converter,
	scratch string) (chosen, error) {
	if platform.IsURL(name) {
		return s.custom(ctx, name, req.Log, c, scratch)
	}
	i := slices.IndexFunc(installed, func(p platform.Buildpack) bool { return p.Name == name })
	switch {
	case i < 0:
		names := make([]string, len(installed))
		for i, p := range installed {
			names[i] = p.Name
		}
		return chosen{}, failure(StagingError,
			"There is no buildpack %q for the stack %q: use a name of %s, or the URL of a git repository or zip file",
			name, req.Lifecycle.Stack, strings.Join(names, ", "))
	case !installed[i].Enabled:
		return chosen{}, failure(StagingError, "The buildpack %q is disabled", name)
	case installed[i].State != platform.BuildpackReady:
		return chosen{}, failure(StagingError, "The buildpack %q has no content yet", name)
	}
	return s.content(ctx, installed[i], c)
}

// installed returns the buildpacks of the catalog; without a catalog, the bundled
// ones.
func (s *Stager) installed(ctx context.Context, stack string) ([]platform.Buildpack, error) {
	if s.config.Catalog != nil {
		return s.config.Catalog.Buildpacks(ctx, stack)
	}
	var list []platform.Buildpack
	for i, b := range buildpacks.Bundled() {
		list = append(list, platform.Buildpack{Name: b.Name, Position: i + 1, Enabled: true, State: platform.BuildpackReady,
			Bundled: true})
	}
	return list, nil
}

// content returns the files of an installed buildpack.
func (s *Stager) content(ctx context.Context, p platform.Buildpack, c *converter) (chosen, error) {
	if p.Bundled {
		for _, b := range buildpacks.Bundled() {
			if b.Name == p.Name {
				return chosen{
					lifecycle.Buildpack{Name: p.Name, Key: b.Key, Bundled: true},
					engine.Archive{Key: b.Key, Open: b.Open, ReadOnly: true},
				}, nil
			}
		}
		return chosen{}, failure(StagingError, "The buildpack %q does not come with this version", p.Name)
	}
	key := "buildpack-" + p.Checksum
	if p.Checksum == "" {
		info, err := s.config.Blobs.Open(ctx, blob.Buildpacks, p.GUID)
		if err != nil {
			return chosen{}, err
		}
		key = "buildpack-" + info.SHA256
		if err := info.Close(); err != nil {
			return chosen{}, err
		}
	}
	zip := blobZip(ctx, s.config.Blobs, blob.Buildpacks, p.GUID)
	files := engine.Archive{Key: key, ReadOnly: true,
		Open: func() (io.ReadCloser, error) { return c.openBuildpack(ctx, zip) }}
	return chosen{lifecycle.Buildpack{Name: p.Name, Key: key}, files}, nil
}

// openBuildpack converts the zip of a buildpack.
func (c *converter) openBuildpack(ctx context.Context, zip zipFile) (io.ReadCloser, error) {
	r, size, closer, err := zip()
	if err != nil {
		c.failed(err)
		return nil, err
	}
	rename, err := buildpackRename(r, size, buildpackLimits)
	closer.Close() //nolint:errcheck // only read from
	if err != nil {
		c.failed(err)
		return nil, err
	}
	return c.open(ctx, zip, buildpackLimits, rename)()
}
