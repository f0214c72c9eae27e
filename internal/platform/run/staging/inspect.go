package staging

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/manifest"
	"ingot/internal/platform/run/staging/lifecycle"
	"ingot/internal/platform/storage/archive"
)

// maxMeta limits the size of metadata files such as staging_info.yml and result.json.
const maxMeta = 1 << 20

// Inspect reads an uploaded droplet: a gzip-compressed tar with app/,
// staging_info.yml and the rest of the home directory, as in Cloud Foundry. It does
// not set Checksum and Size. The error for a droplet that could not run is a
// fault.Unprocessable.
func Inspect(ctx context.Context, r io.Reader, limits archive.Limits) (Result, error) {
	limits.OutsideLinks = true // they are valid inside the container
	var info, procfile []byte
	app := false
	_, err := archive.WalkTar(r, limits, func(e archive.Entry, body io.Reader) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		top, rest, _ := strings.Cut(e.Path, "/")
		switch {
		case e.Path == ".":
		case top == "app":
			if app = true; rest == "" && e.Kind != archive.Dir {
				return bad("app is not a directory")
			}
			if rest == "Procfile" && e.Kind == archive.File {
				var err error
				procfile, err = small(body, "app/Procfile")
				return err
			}
		case top == lifecycle.InfoFile:
			if e.Kind != archive.File {
				return bad("%s is not a file", lifecycle.InfoFile)
			}
			var err error
			info, err = small(body, lifecycle.InfoFile)
			return err
		}
		return nil
	})
	switch {
	case err != nil:
		return Result{}, err
	case !app:
		return Result{}, bad("it has no folder app")
	case info == nil:
		info = []byte("{}") // the app has to name its start command
	}
	return readInfo(info, procfile)
}

func bad(format string, args ...any) *fault.Error {
	return fault.New(fault.Unprocessable, "The file is not a droplet: "+format, args...)
}

func small(r io.Reader, name string) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, maxMeta+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxMeta {
		return nil, bad("%s is larger than 1 MiB", name)
	}
	return b, nil
}

// readInfo parses a staging_info.yml: JSON, as Ingot and Cloud Foundry write it, or
// YAML, as its name says.
func readInfo(text, procfile []byte) (Result, error) {
	var info lifecycle.Info
	if json.Unmarshal(text, &info) != nil {
		var old struct {
			DetectedBuildpack string `yaml:"detected_buildpack"`
			StartCommand      string `yaml:"start_command"`
		}
		if yaml.Unmarshal(text, &old) != nil {
			return Result{}, bad("%s is neither JSON nor YAML", lifecycle.InfoFile)
		}
		info = lifecycle.Info{DetectedBuildpack: old.DetectedBuildpack, StartCommand: old.StartCommand}
	}
	types := info.ProcessTypes
	if types == nil {
		types = map[string]string{}
		if info.StartCommand != "" {
			types[platform.WebProcess] = info.StartCommand
		}
		// A droplet of another platform has only the start command.
		more, err := lifecycle.ParseProcfile(procfile)
		if err == nil {
			maps.Copy(types, more)
		}
	}
	r := lifecycle.Result{
		Lifecycle: lifecycle.LifecycleMetadata{
			DetectedBuildpack: info.DetectedBuildpack, Buildpacks: info.Buildpacks,
		},
		ProcessTypes: types, Sidecars: info.Sidecars, ExecutionMetadata: info.ExecutionMetadata,
	}
	if err := lifecycle.Check(r); err != nil {
		return Result{}, bad("%s: %s", lifecycle.InfoFile, err)
	}
	result, err := fromBuilder(r)
	if err != nil {
		return Result{}, bad("%s: %s", lifecycle.InfoFile, err)
	}
	return result, nil
}

// fromBuilder converts the result of the builder to a Result. Its error is a message for
// users.
func fromBuilder(r lifecycle.Result) (Result, error) {
	out := Result{
		DetectedBuildpack: r.Lifecycle.DetectedBuildpack,
		ProcessTypes:      r.ProcessTypes,
		ExecutionMetadata: r.ExecutionMetadata,
		Buildpacks:        []platform.DropletBuildpack{},
		Sidecars:          []platform.DropletSidecar{},
	}
	if out.ProcessTypes == nil {
		out.ProcessTypes = map[string]string{}
	}
	for _, b := range r.Lifecycle.Buildpacks {
		out.Buildpacks = append(out.Buildpacks, platform.DropletBuildpack{
			Name: b.Name, DetectOutput: b.DetectOutput, Version: b.Version, BuildpackName: b.BuildpackName,
		})
	}
	for _, s := range r.Sidecars {
		one := platform.DropletSidecar{Name: s.Name, Command: s.Command, ProcessTypes: s.ProcessTypes, MemoryMB: s.Memory}
		if s.Options != "" {
			options, err := manifest.ParseSidecarOptions([]byte(s.Options))
			if err != nil {
				return Result{}, fmt.Errorf("the sidecar %q of the buildpack, platforms.ingot in launch.yml: %s", s.Name,
					problemsOf(err))
			}
			if !options.IsZero() {
				one.Options = &options
			}
		}
		if err := platform.CheckSidecar(one.Sidecar()); err != nil {
			return Result{}, fmt.Errorf("the sidecar %q of the buildpack, launch.yml: %s", s.Name, problemsOf(err))
		}
		out.Sidecars = append(out.Sidecars, one)
	}
	return out, nil
}

// problemsOf returns what is wrong, for users.
func problemsOf(err error) string {
	var known *fault.Error
	if errors.As(err, &known) {
		return strings.Join(known.Messages(), "; ")
	}
	return err.Error()
}

// sidecarsFit refuses sidecars of the user and of buildpacks that wait for each other, or
// declare the same port.
func sidecarsFit(l platform.Lifecycle, all []platform.Sidecar) error {
	refs := make([]*platform.Sidecar, 0, len(all))
	for i := range all {
		refs = append(refs, &all[i])
	}
	if err := platform.CheckSidecarCycles(refs); err != nil {
		return err
	}
	return platform.CheckSidecarPorts(refs, l)
}

// readResult parses the result of the builder, which its buildpacks may have changed.
func readResult(tarball []byte) (lifecycle.Result, error) {
	var text []byte
	_, err := archive.WalkTar(bytes.NewReader(tarball), archive.Limits{Size: maxMeta, Files: 100},
		func(e archive.Entry, body io.Reader) error {
			if e.Path != lifecycle.ResultFile || e.Kind != archive.File {
				return nil
			}
			var err error
			text, err = io.ReadAll(body)
			return err
		})
	if err == nil && text == nil {
		err = errors.New("it is not there")
	}
	var r lifecycle.Result
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil {
		err = lifecycle.Check(r)
	}
	return r, err
}
