package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "stack:", err)
		os.Exit(1) //nolint:gocritic // the handler of signals is not needed any more
	}
}

type options struct {
	image    string
	arches   []string
	programs string
	packages string
	mirror   string
	cache    string
	name     string
	out      string
	push     bool
	refresh  bool
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("stack", flag.ContinueOnError)
	flags.StringVar(&o.image, "image", "stack", "which image: stack, small or server")
	arches := flags.String("arch", runtime.GOARCH,
		"architectures, as a `list` with commas; several result in an index of images")
	flags.StringVar(&o.programs, "programs", "../bin",
		"`directory` of the built programs; with several architectures, of one folder for each")
	flags.StringVar(&o.packages, "packages", "", "more Debian packages, as a `list` with commas")
	flags.StringVar(&o.mirror, "mirror", "http://deb.debian.org/debian", "`URL` of the Debian mirror")
	flags.StringVar(&o.cache, "cache", "../.tools/stack", "`directory` of the cached Debian layers")
	flags.StringVar(&o.name, "name", "", "`reference` of the image (default: localhost/ingot/IMAGE:latest)")
	flags.StringVar(&o.out, "out", "", "write the image to this `file`")
	flags.BoolVar(&o.push, "push", false, "push the image to the registry of --name")
	flags.BoolVar(&o.refresh, "refresh", false, "build the Debian layer with today's packages, even if it is cached")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	o.arches = strings.Split(*arches, ",")
	if o.out == "" && !o.push {
		return errors.New("--out or --push is required")
	}
	if o.name == "" {
		o.name = "localhost/ingot/" + o.image + ":latest"
	}
	ref, err := name.ParseReference(o.name)
	if err != nil {
		return err
	}
	made, err := build(ctx, o)
	if err != nil {
		return err
	}
	return deliver(ctx, o, ref, made, out)
}

// artifact is an image, or an index with an image for each architecture.
type artifact interface{ Digest() (v1.Hash, error) }

// build returns the image or the index that the options describe.
func build(ctx context.Context, o options) (artifact, error) {
	if len(o.arches) == 1 {
		return buildFor(ctx, o, o.arches[0], o.programs)
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, arch := range o.arches {
		img, err := buildFor(ctx, o, arch, filepath.Join(o.programs, arch))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}
	return index, nil
}

// buildFor returns the image for one architecture.
func buildFor(ctx context.Context, o options, arch, programs string) (v1.Image, error) {
	k, ok := kinds[o.image]
	if !ok {
		return nil, fmt.Errorf("--image: %q is not one of stack, small, server", o.image)
	}
	when, err := epoch()
	if err != nil {
		return nil, err
	}
	packages := k.packages
	if o.packages != "" {
		packages = append(packages, strings.Split(o.packages, ",")...)
	}
	base, err := debianLayer(ctx, o, arch, packages, when)
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{base}
	for _, names := range k.layers {
		layer, err := programLayer(programs, names, when)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return assemble(layers, arch, k.entrypoint, when)
}

// deliver writes and pushes an image or an index, and prints its reference.
func deliver(ctx context.Context, o options, ref name.Reference, made artifact, out io.Writer) error {
	digest, err := made.Digest()
	if err != nil {
		return err
	}
	if o.push {
		if err := push(ctx, ref, made); err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
	}
	byDigest := ref.Context().Digest(digest.String())
	if o.out != "" {
		if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
			return err
		}
		if err := writeArchive(o.out, made, ref.Name(), byDigest.Name()); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, byDigest)
	return err
}

func push(ctx context.Context, ref name.Reference, made artifact) error {
	options := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	switch made := made.(type) {
	case v1.Image:
		return remote.Write(ref, made, options...)
	case v1.ImageIndex:
		return remote.WriteIndex(ref, made, options...)
	}
	return fmt.Errorf("%T is no image", made)
}

// epoch returns the time of everything in an image.
func epoch() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		return time.Unix(0, 0).UTC(), nil
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}
