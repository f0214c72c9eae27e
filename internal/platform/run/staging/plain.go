package staging

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"ingot/internal/platform/run/staging/buildpacks"
	"ingot/internal/platform/run/staging/lifecycle"
	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/blob"
)

// plainBuild is a build that runs no program: the binary buildpack alone adds the same few files to every app. So it
// needs no instance, which would take longer than the rest of the push.
type plainBuild struct {
	home   string // with everything but the app
	app    zipFile
	limits archive.Limits
}

// procfile is the only file of an app that such a build reads.
const (
	procfile    = "Procfile"
	maxProcfile = 1 << 20 // what the builder accepts
)

// newPlain prepares such a build. It returns nil if the app is one that the builder has to look at.
func (b *build) newPlain(ctx context.Context, pack lifecycle.Buildpack) (_ *plainBuild, err error) {
	p := &plainBuild{app: blobZip(ctx, b.config.Blobs, blob.Packages, b.req.PackageGUID),
		limits: archive.Limits{Size: int64(b.req.DiskMB) << 20}}
	text, known, err := p.procfile()
	if err != nil || !known {
		return nil, err
	}
	if p.home, err = b.scratch(); err != nil {
		return nil, err
	}
	kept := false
	defer func() {
		if !kept {
			_ = os.RemoveAll(p.home)
		}
	}()
	app := filepath.Join(p.home, lifecycle.AppDir)
	if err := os.Mkdir(app, 0o700); err != nil {
		return nil, err
	}
	does := buildpacks.PlainBinary
	said := does.Say
	if text == nil {
		said += does.NoProcfile
	} else if err := os.WriteFile(filepath.Join(app, procfile), text, 0o600); err != nil {
		return nil, err
	}
	var out, complaints bytes.Buffer
	builder := lifecycle.Builder{Home: p.home, Out: &out, Err: &complaints}
	err = builder.RunPlain(lifecycle.PlainPack{Buildpack: pack, Manifest: does.Manifest, Config: does.Config,
		ProfileName: does.ProfileName, Profile: does.Profile, Say: said}, b.req.Lifecycle.Stack)
	var f *lifecycle.Failure
	if errors.As(err, &f) {
		return nil, nil // the builder says what is wrong with the Procfile
	}
	if err != nil {
		return nil, err
	}
	kept = true
	say(b.req.Log, "Building with %s", pack.Name)
	b.pass(&out, false)
	b.pass(&complaints, true)
	say(b.req.Log, "Exit status 0")
	return p, nil
}

// pass passes lines on to the staging log.
func (b *build) pass(text *bytes.Buffer, stderr bool) {
	for line := range bytes.Lines(text.Bytes()) {
		b.req.Log("STG", stderr, time.Now().UTC(), bytes.TrimSuffix(line, []byte("\n")))
	}
}

// procfile returns the Procfile of the app, nil if there is none. known is false if the entry is something other than a
// small file.
func (p *plainBuild) procfile() (text []byte, known bool, err error) {
	r, size, closer, err := p.app()
	if err != nil {
		return nil, false, err
	}
	defer closer.Close()
	content, err := zip.NewReader(r, size)
	if err != nil {
		return nil, false, nil //nolint:nilerr // the archive's own check says what is wrong
	}
	for _, f := range content.File {
		name := path.Clean(f.Name)
		if name != procfile && !strings.HasPrefix(name, procfile+"/") {
			continue
		}
		if !f.Mode().IsRegular() || f.UncompressedSize64 > maxProcfile || text != nil || name != procfile {
			return nil, false, nil
		}
		body, err := f.Open()
		if err != nil {
			return nil, false, nil //nolint:nilerr // the same
		}
		text, err = io.ReadAll(io.LimitReader(body, maxProcfile+1))
		if errors.Join(err, body.Close()) != nil || len(text) > maxProcfile {
			return nil, false, nil
		}
		if text == nil {
			text = []byte{}
		}
	}
	return text, true, nil
}

// collect writes a directory of the home as tar; the app comes from its package.
func (p *plainBuild) collect(ctx context.Context, dir string, w io.Writer) error {
	out := tar.NewWriter(w)
	if dir == lifecycle.DropletDir {
		if err := p.addApp(ctx, out); err != nil {
			return err
		}
	}
	if err := addTree(out, filepath.Join(p.home, filepath.FromSlash(dir))); err != nil {
		return err
	}
	return out.Close()
}

// addApp adds the files of the package.
func (p *plainBuild) addApp(ctx context.Context, out *tar.Writer) error {
	r, size, closer, err := p.app()
	if err != nil {
		return err
	}
	defer closer.Close()
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: lifecycle.AppDir + "/", Mode: 0o755,
		ModTime: time.Now(), Format: tar.FormatPAX}); err != nil {
		return err
	}
	return addZip(ctx, out, r, size, p.limits, func(name string) string {
		if name == "." {
			return ""
		}
		return path.Join(lifecycle.AppDir, name)
	})
}

// addTree adds the files that the builder has written.
func addTree(out *tar.Writer, root string) error {
	return filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil || rel == "." {
			return err
		}
		if rel = filepath.ToSlash(rel); rel == lifecycle.AppDir {
			return filepath.SkipDir
		}
		h := &tar.Header{Name: rel, Mode: 0o644, ModTime: time.Now(), Format: tar.FormatPAX}
		if e.IsDir() {
			h.Typeflag, h.Name, h.Mode = tar.TypeDir, rel+"/", 0o755
			return out.WriteHeader(h)
		}
		text, err := os.ReadFile(name) //nolint:gosec // written by this process, in a directory that only it can enter
		if err != nil {
			return err
		}
		h.Typeflag, h.Size = tar.TypeReg, int64(len(text))
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	})
}

// finishPlain stores the droplet of a plain build.
func (b *build) finishPlain(ctx context.Context) (Result, error) {
	defer os.RemoveAll(b.plain.home)
	result, err := b.storeDroplet(ctx)
	if err != nil {
		return Result{}, err
	}
	// What buildpacks before have kept is of no use any more.
	_ = b.config.Blobs.Delete(ctx, blob.BuildCache, b.cacheKey())
	if b.req.Done != nil {
		err = b.req.Done(ctx, result)
	}
	return result, err
}
