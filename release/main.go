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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1) //nolint:gocritic // the handler of signals is not needed any more
	}
}

// architectures are the supported ones, by Go's names, which are Debian's as well.
var architectures = []string{"amd64", "arm64"}

// clients are the systems that have the client only.
var clients = []target{{"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

// outputs are the kinds of files to write.
var outputs = []string{"tar", "deb", "rpm", "sbom"}

type options struct {
	version  string
	epoch    time.Time // of everything in the archives
	source   string    // the root of the source tree
	programs string    // built programs of one architecture; empty to build them
	work     string    // directory for built programs, one per architecture
	out      string
	targets  []target
	only     []string
	key      *signer // nil to sign nothing

	publish                         bool
	url, sourceURL, commit, builder string
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.publish {
		p, err := o.publication()
		if err != nil {
			return err
		}
		return p.publish(out)
	}
	if o.work == "" {
		if o.work, err = os.MkdirTemp("", "ingot-release-"); err != nil {
			return err
		}
		defer os.RemoveAll(o.work)
	}
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	native, err := o.programsFor(ctx, target{"linux", runtime.GOARCH})
	if err != nil {
		return err
	}
	docs, err := generated(ctx, native)
	if err != nil {
		return err
	}
	for _, t := range o.targets {
		if err := o.release(ctx, t, docs, out); err != nil {
			return fmt.Errorf("%s: %w", t, err)
		}
	}
	return nil
}

func parse(args []string) (options, error) {
	var o options
	var arches, systems, only, key string
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.version, "version", "", "`version` of the programs; required")
	flags.StringVar(&o.source, "source", "..", "`directory` of the source tree")
	flags.StringVar(&o.programs, "programs", "",
		"`directory` of programs that are built already, for one --arch; the default builds them")
	flags.StringVar(&o.work, "work", "", "keep the built programs in this `directory`, in one folder per architecture")
	flags.StringVar(&o.out, "out", "../dist", "`directory` to write to")
	flags.StringVar(&arches, "arch", strings.Join(architectures, ","), "architectures, as a `list` with commas")
	flags.StringVar(&systems, "clients", "all", "systems of the client, as a `list` with commas, all or none; "+
		"with none, --publish writes nothing for Homebrew and Scoop")
	flags.StringVar(&only, "only", strings.Join(outputs, ","), "what to write, as a `list` with commas")
	flags.StringVar(&key, "signing-key", "",
		"`file` with the OpenPGP secret key that signs; its passphrase is in SIGNING_PASSPHRASE")
	flags.BoolVar(&o.publish, "publish", false,
		"build nothing: write repositories, install.sh, the page and checksums for the files in --out")
	flags.StringVar(&o.url, "url", "", "`URL` at which the files will be, for --publish")
	flags.StringVar(&o.sourceURL, "source-url", "", "`URL` of the source repository, for --publish")
	flags.StringVar(&o.commit, "commit", "", "`commit` of the source, for --publish")
	flags.StringVar(&o.builder, "builder", "", "`URI` that names who builds, in the provenance, for --publish")
	seconds := flags.Int64("epoch", 0, "time of all files, in `seconds` since 1970")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.only, o.epoch = strings.Split(only, ","), time.Unix(*seconds, 0).UTC()
	switch {
	case flags.NArg() > 0:
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.version == "":
		return o, errors.New("--version is required: scripts/version prints it")
	case o.programs != "" && arches != runtime.GOARCH:
		return o, fmt.Errorf("--programs has programs of this machine: use it with --arch %s", runtime.GOARCH)
	}
	var err error
	if key != "" {
		if o.key, err = readKey(key, os.Getenv("SIGNING_PASSPHRASE"), o.epoch); err != nil {
			return o, err
		}
	}
	for _, kind := range o.only {
		if !slices.Contains(outputs, kind) {
			return o, fmt.Errorf("--only: %q is not one of %s", kind, strings.Join(outputs, ", "))
		}
	}
	for arch := range strings.SplitSeq(arches, ",") {
		if !slices.Contains(architectures, arch) {
			return o, fmt.Errorf("--arch: %q is not one of %s", arch, strings.Join(architectures, ", "))
		}
		o.targets = append(o.targets, target{"linux", arch})
	}
	err = o.addClients(systems)
	return o, err
}

// addClients adds systems of the client to the targets: those of a list, all or none.
func (o *options) addClients(list string) error {
	switch list {
	case "none":
		return nil
	case "all":
		o.targets = append(o.targets, clients...)
		return nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(clients, func(t target) bool { return t.String() == name })
		if i < 0 {
			return fmt.Errorf("--clients: %q is not one of %v, all, none", name, clients)
		}
		o.targets = append(o.targets, clients[i])
	}
	return nil
}

// release writes the files of one system, and prints their names.
func (o options) release(ctx context.Context, t target, docs []file, out io.Writer) error {
	kinds := o.only
	if t.os != "linux" {
		kinds = slices.DeleteFunc(slices.Clone(kinds), func(kind string) bool {
			return kind == "deb" || kind == "rpm"
		})
	}
	if len(kinds) == 0 {
		return nil
	}
	dir, err := o.programsFor(ctx, t)
	if err != nil {
		return err
	}
	bom, err := o.sbom(ctx, dir, t)
	if err != nil {
		return fmt.Errorf("SBOM: %w", err)
	}
	built, err := builtPrograms(dir, t.programs())
	if err != nil {
		return err
	}
	source, err := o.sourceFiles()
	if err != nil {
		return err
	}
	all := slices.Concat(built, docs, source, []file{{name: "sbom.cdx.json", mode: 0o644, data: bom}})
	all = slices.DeleteFunc(all, func(f file) bool { return !f.isFor(t) })
	stem := fmt.Sprintf("ingot_%s_%s_%s", o.version, t.os, t.arch)
	for _, kind := range kinds {
		var name string
		var data []byte
		switch kind {
		case "tar":
			// Programs are at the top, where they find each other; the rest is as in the
			// source tree, so that links between documents work.
			folder := fmt.Sprintf("ingot-%s-%s-%s/", o.version, t.os, t.arch)
			if t.os == "windows" {
				name = stem + ".zip"
				data, err = zipped(folder, all, o.epoch)
			} else {
				name = stem + ".tar.gz"
				data, err = tarGz(folder, all, o.epoch)
			}
		case "deb":
			version := debVersion(o.version, o.epoch)
			name = fmt.Sprintf("ingot_%s_%s.deb", version, t.arch)
			data, err = deb(version, t.arch, all, o.epoch)
		case "rpm":
			version := debVersion(o.version, o.epoch) // rpm sorts ~ as dpkg does
			name = rpmName(version, t.arch)
			data, err = rpm(version, t.arch, all, o.epoch, o.key)
		case "sbom":
			name, data = stem+".cdx.json", bom
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		path := filepath.Join(o.out, name)
		if err := writeFile(path, data); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s (%s MB)\n", path, strconv.FormatFloat(float64(len(data))/1e6, 'f', 1, 64))
	}
	return nil
}

// writeFile replaces a file, so that an interrupted release leaves no half of one.
func writeFile(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o644); err != nil { //nolint:gosec // published
		return err
	}
	return os.Rename(path+".new", path)
}
