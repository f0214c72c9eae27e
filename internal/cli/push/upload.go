package push

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/cli/bits"
	"ingot/internal/cli/client"
	"ingot/internal/cli/core"
	"ingot/internal/cli/term"
)

// Asking the platform which files it already has costs a request. That is worth
// it when much of the upload can be skipped; on the same machine, sending is
// cheaper.
const (
	matchFar   = 256 << 10
	matchNear  = 64 << 20
	matchLeast = 64 << 10 // smaller files are always sent
)

// near reports whether the API is on this machine.
func near(s *core.Session) bool {
	u, err := url.Parse(s.Config.API)
	return err == nil && core.IsLoopback(u.Hostname())
}

// upload creates a package from the loaded files and waits until it is ready.
func upload(ctx context.Context, s *core.Session, p plan, app cfapi.App, l *load) (string, error) {
	var pkg cfapi.Package
	kind := map[string]any{"type": "bits", "relationships": map[string]any{"app": cfapi.Relate(app.GUID)}}
	if p.docker != "" {
		kind["type"] = "docker"
		data := map[string]any{"image": p.docker}
		if p.user != "" {
			data["username"], data["password"] = p.user, s.Env.Getenv("CF_DOCKER_PASSWORD")
		}
		kind["data"] = data
		_, err := s.API.Post(ctx, "/v3/packages", kind, &pkg)
		return pkg.GUID, err
	}
	var known []client.Resource
	err := core.Concurrently(
		func() error {
			<-l.done
			if l.err != nil {
				return l.err
			}
			var err error
			known, err = matchResources(ctx, s, l)
			return err
		},
		func() error {
			_, err := s.API.Post(ctx, "/v3/packages", kind, &pkg)
			return err
		})
	if err != nil {
		return "", err
	}
	archive, cleanup, err := makeArchive(s, p, l, known)
	if err != nil {
		return "", err
	}
	defer cleanup()
	size := int64(0)
	if archive != nil {
		size = archive.Length
	}
	s.Say("Uploading files (%s)...", term.Size(size))
	s.Progress.Step("Uploading "+app.Name, size)
	guid := pkg.GUID
	if pkg, err = s.API.Upload(ctx, guid, known, archive, s.Progress.Add); err != nil {
		return "", err
	}
	pkg.GUID = guid
	return guid, awaitPackage(ctx, s, &pkg)
}

// awaitPackage waits until a package can be staged.
func awaitPackage(ctx context.Context, s *core.Session, pkg *cfapi.Package) error {
	return client.Poll(ctx, func() (bool, error) {
		switch pkg.State {
		case "READY":
			return true, nil
		case "FAILED", "EXPIRED":
			return false, &core.Problem{What: "The upload was rejected.",
				Why: cmp.Or(pkg.Data.Error, "the package is "+strings.ToLower(pkg.State)), Try: "push again"}
		}
		return false, s.API.Get(ctx, "/v3/packages/"+pkg.GUID, nil, pkg)
	})
}

// matchResources asks the platform which files it already has and removes them from the
// upload.
func matchResources(ctx context.Context, s *core.Session, l *load) ([]client.Resource, error) {
	var ask []client.Resource
	var total int64
	for _, f := range l.files {
		if f.Regular() && f.Size >= matchLeast {
			ask = append(ask, client.Resource{Path: f.Path, Mode: fmt.Sprintf("%04o", f.Mode.Perm()),
				Checksum: cfapi.Checksum{Value: f.SHA1}, Size: f.Size})
			total += f.Size
		}
	}
	worth := int64(matchFar)
	if near(s) {
		worth = matchNear
	}
	if total < worth {
		return nil, nil
	}
	s.Say("Comparing local files with the platform's cache...")
	known, err := s.API.MatchResources(ctx, ask)
	if err != nil || len(known) == 0 {
		return nil, err
	}
	have := map[string]string{}
	for _, k := range known {
		have[k.Path] = k.Checksum.Value
	}
	var rest []bits.File
	for _, f := range l.files {
		if sum, ok := have[f.Path]; !ok || sum != f.SHA1 {
			rest = append(rest, f)
		}
	}
	l.files = rest
	return known, nil
}

// makeArchive returns the archive to send. On the same machine it is not compressed
// and is written while it is sent; otherwise it is compressed first, because its
// length must be known.
func makeArchive(s *core.Session, p plan, l *load, known []client.Resource) (*client.Bits, func(), error) {
	nothing := func() {}
	if l.archive > 0 {
		return core.FileBits(p.path, l.archive), nothing, nil
	}
	if len(l.files) == 0 && len(known) > 0 {
		return nil, nothing, nil
	}
	if near(s) {
		length, err := bits.Length(l.files)
		return &client.Bits{Length: length, Write: func(w io.Writer) error { return bits.Store(w, l.files) }}, nothing, err
	}
	s.Progress.Step("Compressing", 0)
	f, err := os.CreateTemp("", "ingot-push-*.zip")
	if err != nil {
		return nil, nothing, err
	}
	cleanup := func() { os.Remove(f.Name()) }
	err = bits.Compress(f, l.files)
	info, statErr := f.Stat()
	closeErr := f.Close()
	for _, e := range []error{err, statErr, closeErr} {
		if e != nil {
			cleanup()
			return nil, nothing, e
		}
	}
	return core.FileBits(f.Name(), info.Size()), cleanup, nil
}

// checkDroplet checks that a file can be a droplet before anything is changed.
func (f *pushFlags) checkDroplet(w *core.Env) error {
	if f.Path != "" || f.DockerImage != "" || len(f.Buildpacks) > 0 {
		return core.UsageError("--droplet cannot be combined with -p, -b or -o")
	}
	path := w.Path(f.Droplet)
	file, err := os.Open(path)
	if err != nil {
		return &core.Problem{What: "No droplet found at " + path + ".", Why: err.Error(),
			Try: fmt.Sprintf("'%s download-droplet APP' downloads one", w.Program), Err: err}
	}
	defer file.Close()
	var magic [2]byte
	if _, err := io.ReadFull(file, magic[:]); err != nil || magic != [2]byte{0x1f, 0x8b} {
		return &core.Problem{What: path + " is not a droplet.", Why: "a droplet is a gzipped tar archive",
			Try: fmt.Sprintf("'%s download-droplet APP' downloads one; use -p to push files", w.Program)}
	}
	return nil
}

// uploadDroplet uploads a file as a droplet and waits until it is ready.
func uploadDroplet(ctx context.Context, s *core.Session, app cfapi.App, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	var droplet cfapi.Droplet
	body := map[string]any{"relationships": map[string]any{"app": cfapi.Relate(app.GUID)}}
	if _, err := s.API.Post(ctx, "/v3/droplets", body, &droplet); err != nil {
		return "", err
	}
	s.Say("Uploading droplet (%s)...", term.Size(info.Size()))
	s.Progress.Step("Uploading "+app.Name, info.Size())
	reply, err := s.API.UploadDroplet(ctx, droplet.GUID, core.FileBits(path, info.Size()), s.Progress.Add)
	if err == nil {
		err = s.API.Job(ctx, reply)
	}
	return droplet.GUID, err
}

// load reads an app's files in the background.
type load struct {
	done    chan struct{}
	files   []bits.File
	archive int64 // length of the archive, if one is pushed
	err     error
}

// beginLoad finds the files of an app and starts reading them.
func beginLoad(ctx context.Context, p plan) (*load, error) {
	l := &load{done: make(chan struct{})}
	if p.docker == "" && p.droplet == "" {
		if err := l.find(ctx, p.path); err != nil {
			return nil, err
		}
	}
	go func() {
		defer close(l.done)
		l.err = bits.Sum(ctx, l.files)
	}()
	return l, nil
}

func (l *load) find(ctx context.Context, path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return &core.Problem{What: "Nothing to push at " + path + ".", Why: err.Error(),
			Try: "pass the folder or archive with -p", Err: err}
	}
	if !info.IsDir() {
		ok, err := bits.IsArchive(path)
		if err != nil {
			return err
		}
		if !ok {
			return &core.Problem{What: path + " cannot be pushed.", Why: "it is neither a folder nor a zip, jar or war",
				Try: "push the folder it is in"}
		}
		l.archive = info.Size()
		return nil
	}
	if l.files, err = bits.Scan(ctx, path); err != nil {
		return err
	}
	if len(l.files) == 0 {
		return &core.Problem{What: "Nothing to push in " + path + ".",
			Why: "the folder is empty, or .cfignore excludes all files"}
	}
	return nil
}
