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
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
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
	flags.StringVar(&o.programs, "programs", "../bin", "`directory` of the built programs")
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
	img, err := build(ctx, o)
	if err != nil {
		return err
	}
	return deliver(ctx, o, ref, img, out)
}

// build returns the image that the options describe.
func build(ctx context.Context, o options) (v1.Image, error) {
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
	base, err := debianLayer(ctx, o, packages, when)
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{base}
	for _, programs := range k.layers {
		layer, err := programLayer(o.programs, programs, when)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return assemble(layers, k.entrypoint, when)
}

// deliver writes and pushes an image, and prints its reference.
func deliver(ctx context.Context, o options, ref name.Reference, img v1.Image, out io.Writer) error {
	digest, err := img.Digest()
	if err != nil {
		return err
	}
	if o.push {
		if err := remote.Write(ref, img, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("push %s: %w", ref, err)
		}
	}
	byDigest := ref.Context().Digest(digest.String())
	if o.out != "" {
		if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
			return err
		}
		if err := writeArchive(o.out, img, ref.Name(), byDigest.Name()); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintln(out, byDigest)
	return err
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
