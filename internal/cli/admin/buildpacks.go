package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/bits"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

type buildpackRow struct {
	Position int    `json:"position"`
	Name     string `json:"name"`
	Stack    string `json:"stack"`
	Enabled  bool   `json:"enabled"`
	Locked   bool   `json:"locked"`
	State    string `json:"state"`
	Filename string `json:"filename"`
}

func listBuildpacks(ctx context.Context, s *core.Session, _ core.Words, _ *core.NoFlags) (core.Result, error) {
	s.Acting("Getting buildpacks")
	return (&core.Listing[buildpackRow]{
		Key: "buildpacks", Heading: []string{"name", "position", "stack", "enabled", "locked", "state"},
		Cells: func(b buildpackRow) []string {
			return []string{b.Name, strconv.Itoa(b.Position), b.Stack, core.YesNo(b.Enabled), core.YesNo(b.Locked), b.State}
		},
	}).List(ctx, s, buildpackPath, url.Values{"order_by": {"position"}})
}

const buildpackPath = "/v3/buildpacks"

type newBuildpackFlags struct {
	Disable bool `long:"disable" description:"Do not use the buildpack yet"`
}

func createBuildpack(ctx context.Context, s *core.Session, w core.Words, f *newBuildpackFlags) (core.Result, error) {
	position, err := strconv.Atoi(w["POSITION"])
	if err != nil || position < 1 {
		return nil, core.UsageError(fmt.Sprintf("POSITION %q is not a number from 1 on", w["POSITION"]))
	}
	archive, err := archiveAt(ctx, s, w["PATH"])
	if err != nil {
		return nil, err
	}
	defer archive.cleanup()
	s.Acting("Creating buildpack %s", w["BUILDPACK"])
	var t cfapi.Thing
	if _, err := s.API.Post(ctx, buildpackPath, map[string]any{"name": w["BUILDPACK"], "position": position,
		"enabled": !f.Disable}, &t); err != nil {
		return nil, err
	}
	s.OK()
	if err := uploadBuildpack(ctx, s, t, archive); err != nil {
		return nil, err
	}
	return s.Done("name", t.Name, "guid", t.GUID)
}

func uploadBuildpack(ctx context.Context, s *core.Session, t cfapi.Thing, a *buildpackArchive) error {
	s.Acting("Uploading buildpack %s", t.Name)
	s.Progress.Step("Uploading "+t.Name+" ("+term.Size(a.bits.Length)+")", a.bits.Length)
	reply, err := s.API.UploadBuildpack(ctx, t.GUID, a.name, a.bits, s.Progress.Add)
	if err == nil {
		err = s.API.Job(ctx, reply)
	}
	return err
}

// buildpackArchive is a zip file to upload.
type buildpackArchive struct {
	name    string
	bits    *client.Bits
	cleanup func()
}

// archiveAt reads a zip file, a folder, or a zip file at a URL.
func archiveAt(ctx context.Context, s *core.Session, path string) (*buildpackArchive, error) {
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		return downloadBuildpack(ctx, path)
	}
	full := s.Env.Path(path)
	info, err := os.Stat(full)
	if err != nil {
		return nil, &core.Problem{What: "The buildpack cannot be read.", Why: err.Error(),
			Try: "name a folder, a zip file or the URL of one", Err: err}
	}
	out := &buildpackArchive{name: filepath.Base(full), cleanup: func() {}}
	if !info.IsDir() {
		if ok, err := bits.IsArchive(full); err != nil || !ok {
			return nil, &core.Problem{What: path + " cannot be uploaded.", Why: "it is neither a folder nor a zip file",
				Err: err}
		}
		out.bits = core.FileBits(full, info.Size())
		return out, nil
	}
	files, err := bits.Scan(ctx, full)
	if err == nil {
		err = bits.Sum(ctx, files)
	}
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, &core.Problem{What: path + " cannot be uploaded.", Why: "the folder is empty"}
	}
	length, err := bits.Length(files)
	out.name += ".zip"
	out.bits = &client.Bits{Length: length, Write: func(w io.Writer) error { return bits.Store(w, files) }}
	return out, err
}

// downloadBuildpack fetches a zip file to a temporary file.
func downloadBuildpack(ctx context.Context, from string) (*buildpackArchive, error) {
	failed := func(why string, err error) error {
		return &core.Problem{What: "The buildpack cannot be downloaded from " + from + ".", Why: why, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from, http.NoBody)
	if err != nil {
		return nil, failed(err.Error(), err)
	}
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return nil, failed(err.Error(), err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, failed("the server replied "+strconv.Itoa(res.StatusCode), nil)
	}
	f, err := os.CreateTemp("", "ingot-buildpack-*.zip")
	if err != nil {
		return nil, err
	}
	out := &buildpackArchive{name: "buildpack.zip", cleanup: func() { os.Remove(f.Name()) }}
	if u, err := url.Parse(from); err == nil && strings.HasSuffix(u.Path, ".zip") {
		out.name = filepath.Base(u.Path)
	}
	n, err := io.Copy(f, res.Body)
	if err = errors.Join(err, f.Close()); err != nil {
		out.cleanup()
		return nil, failed(err.Error(), err)
	}
	out.bits = core.FileBits(f.Name(), n)
	return out, nil
}

type stackOfBuildpack struct {
	Stack string `short:"s" long:"stack" value-name:"STACK" description:"Stack, if several buildpacks have the name"`
}

func (f *stackOfBuildpack) query() url.Values {
	if f.Stack == "" {
		return nil
	}
	return url.Values{"stacks": {f.Stack}}
}

type updateBuildpackFlags struct {
	stackOfBuildpack
	Path     string `short:"p" long:"path" value-name:"PATH" description:"New content: a folder, a zip file or the URL of one"`
	Position int    `short:"i" long:"position" value-name:"N" description:"Position in the order of detection"`
	Assign   string `long:"assign-stack" value-name:"STACK" description:"Assign a stack to a buildpack that has none"`
	Rename   string `long:"rename" value-name:"NAME" description:"New name"`
	Enable   bool   `long:"enable" description:"Use the buildpack"`
	Disable  bool   `long:"disable" description:"Do not use the buildpack"`
	Lock     bool   `long:"lock" description:"Do not allow changes"`
	Unlock   bool   `long:"unlock" description:"Allow changes"`
}

func (f *updateBuildpackFlags) body() (map[string]any, error) {
	body := map[string]any{}
	for _, pair := range []struct {
		on, off bool
		key     string
	}{{f.Enable, f.Disable, "enabled"}, {f.Lock, f.Unlock, "locked"}} {
		if pair.on && pair.off {
			return nil, core.UsageError("--enable and --disable, --lock and --unlock cannot be combined")
		}
		if pair.on || pair.off {
			body[pair.key] = pair.on
		}
	}
	if f.Path != "" && (f.Lock || f.Unlock) {
		return nil, core.UsageError("-p cannot be combined with --lock or --unlock")
	}
	cfapi.Add(body, "position", max(0, f.Position), "stack", f.Assign, "name", f.Rename)
	if len(body) == 0 && f.Path == "" {
		return nil, core.UsageError("nothing to change: give at least one flag")
	}
	return body, nil
}

func updateBuildpack(ctx context.Context, s *core.Session, w core.Words, f *updateBuildpackFlags) (core.Result, error) {
	body, err := f.body()
	if err != nil {
		return nil, err
	}
	var archive *buildpackArchive
	if f.Path != "" {
		if archive, err = archiveAt(ctx, s, f.Path); err != nil {
			return nil, err
		}
		defer archive.cleanup()
	}
	s.Acting("Updating buildpack %s", w["BUILDPACK"])
	t, err := s.Thing(ctx, "Buildpack", buildpackPath, w["BUILDPACK"], f.query())
	if err != nil {
		return nil, err
	}
	if archive != nil {
		if err := uploadBuildpack(ctx, s, t, archive); err != nil {
			return nil, err
		}
	}
	if len(body) > 0 {
		if err := s.Send(ctx, http.MethodPatch, buildpackPath+"/"+t.GUID, body); err != nil {
			return nil, err
		}
	}
	return s.Done("name", cmp.Or(f.Rename, t.Name), "guid", t.GUID)
}

type deleteBuildpackFlags struct {
	core.ForceFlag
	stackOfBuildpack
}

func deleteBuildpack(ctx context.Context, s *core.Session, w core.Words, f *deleteBuildpackFlags) (core.Result, error) {
	return s.DeleteNamed(ctx, f.Force, "buildpack", w["BUILDPACK"], buildpackPath, f.query())
}

func buildpackCommands() []*core.Command {
	return append(core.InGroup(core.GroupOperate,
		core.Entry("buildpacks", "", "List buildpacks", core.NeedsLogin, listBuildpacks, ""),
	), core.Last(core.InGroup(core.GroupOperate,
		core.Entry("create-buildpack", "BUILDPACK PATH POSITION [--disable]", "Upload a buildpack", core.NeedsLogin,
			createBuildpack, "my-buildpack buildpack.zip 1").Slow().
			Explained("PATH is a folder, a zip file or the URL of one. POSITION is the place in the order of detection."),
		core.Entry("update-buildpack", "BUILDPACK [-p PATH] [-i N] [--enable|--disable] [--lock|--unlock]",
			"Update a buildpack", core.NeedsLogin, updateBuildpack, "my-buildpack -i 2", "my-buildpack -p buildpack.zip").Slow(),
		core.Entry("delete-buildpack", "BUILDPACK [-s STACK] [-f]", "Delete a buildpack", core.NeedsLogin, deleteBuildpack,
			"my-buildpack -f").Slow(),
	))...)
}
