package staging

import (
	"context"
	"errors"
	"strings"
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/engine"
	"ingot/internal/platform/storage/archive"
)

// Images reads container images from registries. Package registry implements it.
type Images interface {
	// Resolve finds an image. The errors that users can understand are faults.
	Resolve(ctx context.Context, src platform.ImageSource) (*platform.Image, error)
	// Layers returns the layers of an image, to be read with the credentials of src.
	Layers(i *platform.Image, src platform.ImageSource) []engine.Layer
}

// imageOf returns the image of a build's package; none if it is built from files.
func imageOf(tx platform.Tx, b *platform.Build) (platform.ImageSource, error) {
	if b.Lifecycle.Type != platform.LifecycleDocker {
		return platform.ImageSource{}, nil
	}
	pkg, err := tx.Packages().Get(b.PackageGUID)
	if fault.Is(err, fault.NotFound) {
		return platform.ImageSource{}, failure(StagingError, "The package of this build was deleted: push the app again")
	}
	if err != nil {
		return platform.ImageSource{}, err
	}
	return platform.ImageSource{Reference: pkg.Image, Username: pkg.Username, Password: pkg.Password}, nil
}

// image stages a container image: it resolves the reference to a digest, and lets
// the engine download the layers, so that the app starts at once and problems of
// the image are those of the build.
func (b *build) image(ctx context.Context) (Result, error) {
	give, err := b.slot(ctx, b.req.Log)
	if err != nil {
		return Result{}, err
	}
	defer give()
	ctx, cancel := context.WithTimeoutCause(ctx, b.config.Timeout, errExpired)
	defer cancel()
	var result Result
	err = phase(ctx, "read image", func(ctx context.Context) (err error) { result, err = b.resolve(ctx); return err })
	if err != nil && ctx.Err() != nil {
		return Result{}, ended(ctx, b.config.Timeout)
	}
	if err != nil {
		return Result{}, explain(err, "Reading the image")
	}
	return result, nil
}

func (b *build) resolve(ctx context.Context) (Result, error) {
	src := b.req.Image
	if why := b.config.Engine.Describe().NoImages; why != "" {
		return Result{}, engine.NoImages(why)
	}
	say(b.req.Log, "Staging the image %s...", src.Reference)
	found, err := b.config.Images.Resolve(ctx, src)
	if err != nil {
		return Result{}, err
	}
	result := Result{
		Image: imageName(src.Reference, found.Digest), Container: found, Source: src,
		ExecutionMetadata: executionOf(found), ProcessTypes: map[string]string{},
	}
	if command := strings.Join(found.Args(), " "); command != "" {
		result.ProcessTypes[platform.WebProcess] = command
	}
	if err := b.startableImage(ctx, result); err != nil {
		return Result{}, err
	}
	result.Size = found.Size()
	if b.config.Engine.Describe().Remote {
		say(b.req.Log, "Found %s: %d layers, %s, which the cluster downloads when the app starts", found.Digest,
			len(found.Layers), sizeText(found.Size()))
	} else {
		say(b.req.Log, "Downloading %s: %d layers, %s", found.Digest, len(found.Layers), sizeText(found.Size()))
	}
	began := time.Now()
	image := engine.Image{Layers: b.config.Images.Layers(found, src), User: found.User, Dir: found.Dir}
	fetched, err := engine.Fetch(ctx, b.config.Engine, image, int64(b.req.DiskMB)<<20)
	if errors.Is(err, archive.ErrTooLarge) {
		// The disk limit of the app may be larger than that of the build.
		say(b.req.Log, "The image is larger than the disk of a build, %d MB, so that its layers are downloaded when the "+
			"app starts", b.req.DiskMB)
		return result, nil
	}
	if err != nil {
		return Result{}, err
	}
	found.Account = fetched.Account
	if fetched.Size > 0 {
		say(b.req.Log, "Downloaded the image (%s on the disk, %s)", sizeText(fetched.Size),
			time.Since(began).Round(time.Millisecond))
	}
	return result, nil
}

// imageName returns the reference with its digest.
func imageName(reference, digest string) string {
	name, _, _ := strings.Cut(reference, "@")
	return name + "@" + digest
}

// startableImage returns an error if neither the image nor the app has a start
// command.
func (b *build) startableImage(ctx context.Context, result Result) error {
	if len(result.ProcessTypes) > 0 || b.req.HasCommand == nil {
		return nil
	}
	has, err := b.req.HasCommand(ctx)
	if err != nil || has {
		return err
	}
	return failure(StagingError, "Start command not specified. The image has neither ENTRYPOINT nor CMD: "+
		"add one to the image, or give the command with cf push -c COMMAND or as command in the manifest")
}

// executionOf returns the execution metadata of an image as Cloud Foundry has it.
func executionOf(i *platform.Image) string {
	type port struct {
		Port     int
		Protocol string
	}
	meta := struct {
		Cmd        []string `json:"cmd,omitempty"`
		Entrypoint []string `json:"entrypoint,omitempty"`
		Workdir    string   `json:"workdir,omitempty"`
		User       string   `json:"user,omitempty"`
		Ports      []port   `json:"ports,omitempty"`
	}{Cmd: i.Command, Entrypoint: i.Entrypoint, Workdir: i.Dir, User: i.User}
	for _, n := range i.Ports {
		meta.Ports = append(meta.Ports, port{n, "tcp"})
	}
	return jsonText(meta)
}
