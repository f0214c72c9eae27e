package staging

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/klauspost/compress/gzip"

	"ingot/internal/base/background"
	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/run/staging/lifecycle"
	"ingot/internal/platform/storage/archive"
	"ingot/internal/platform/storage/blob"
	"ingot/internal/platform/storage/deltas"
)

// collect stores the droplet and the cache and reads the result.
func (b *build) collect(ctx context.Context) (Result, error) {
	var meta bytes.Buffer
	if err := b.files(ctx, lifecycle.MetaDir, &bounded{w: &meta, left: 4 * maxMeta}); err != nil {
		return Result{}, err
	}
	raw, err := readResult(meta.Bytes())
	if err != nil {
		return Result{}, &Failure{Reason: ReleaseFailed, Message: "The result of the build is invalid: " +
			err.Error(), Err: err}
	}
	result, err := fromBuilder(raw)
	if err != nil {
		return Result{}, &Failure{Reason: ReleaseFailed, Message: "The result of the build is invalid: " +
			err.Error(), Err: err}
	}
	result.Stack = b.req.Lifecycle.Stack
	sidecars := platform.MergeSidecars(b.req.Sidecars, result.Sidecars)
	var execution lifecycle.Execution
	needed := json.Unmarshal([]byte(result.ExecutionMetadata), &execution) == nil && execution.NeedsSidecarMemory
	if err := platform.CheckSidecars(result.Buildpacks, needed, sidecars); err != nil {
		return Result{}, err
	}
	if err := sidecarsFit(b.req.Lifecycle, sidecars); err != nil {
		return Result{}, err
	}
	if err := b.startable(ctx, result); err != nil {
		return Result{}, err
	}
	used, added := b.req.Lifecycle.Buildpacks, sidecars[len(b.req.Sidecars):]
	if len(used) == 0 { // detected: nothing was known before
		added = sidecars
		for _, p := range result.Buildpacks {
			used = append(used, p.Name)
		}
	}
	if err := b.warnOfSidecars(ctx, used, added); err != nil {
		return Result{}, err
	}
	say(b.req.Log, "Uploading droplet, build artifacts cache...")
	droplet := collection{dir: lifecycle.DropletDir, limit: b.config.MaxDroplet, keep: dotted, compared: b.compared(ctx)}
	info, err := b.store(ctx, blob.Droplets, b.req.DropletGUID, droplet)
	switch {
	case fault.Is(err, fault.Conflict):
		// Another server stored it, or this one before a restart: the row gets its checksum.
		info, err = b.config.Blobs.Stat(ctx, blob.Droplets, b.req.DropletGUID)
	case err == nil && droplet.compared != nil:
		b.config.Deltas.Built(deltas.Base{GUID: b.req.DropletGUID, Checksum: info.SHA256}, droplet.compared)
	}
	if err != nil {
		return Result{}, err
	}
	result.Checksum, result.Size = info.SHA256, info.Size
	say(b.req.Log, "Uploaded droplet (%s)", sizeText(info.Size))
	if b.plain == nil {
		b.keepCache(ctx)
	}
	say(b.req.Log, "Uploading complete")
	return result, nil
}

// compared returns what compares the droplet with one before it, nil if the engine has no
// use for that.
func (b *build) compared(ctx context.Context) *deltas.Comparison {
	if !b.config.Layers {
		return nil
	}
	return b.config.Deltas.Compare(b.req.App.GUID, func(droplet string) bool {
		_, err := b.config.Blobs.Stat(ctx, blob.Droplets, droplet)
		return err == nil
	})
}

// keepCache stores the build cache. A failure is not an error of the build.
func (b *build) keepCache(ctx context.Context) {
	if b.config.Deltas.Package(b.req.PackageGUID) {
		if _, err := b.config.Blobs.Stat(ctx, blob.BuildCache, b.cacheKey()); err == nil {
			return
		}
	}
	info, err := b.store(ctx, blob.BuildCache, b.cacheKey(), collection{dir: lifecycle.CacheDir, limit: b.config.MaxCache,
		keep: harmless})
	switch {
	case err == nil:
		say(b.req.Log, "Uploaded build artifacts cache (%s)", sizeText(info.Size))
	case fault.Is(err, fault.TooLarge):
		say(b.req.Log, "The build artifacts cache is larger than %s and is not kept", sizeText(b.config.MaxCache))
		_ = b.config.Blobs.Delete(ctx, blob.BuildCache, b.cacheKey()) // the build is correct without a cache
	case ctx.Err() == nil:
		b.config.Log.WarnContext(ctx, "the build cache was not stored", "app", b.req.App.GUID, "error", err)
	}
}

// files writes a directory of the build's home as tar.
func (b *build) files(ctx context.Context, dir string, w io.Writer) error {
	if b.plain != nil {
		return b.plain.collect(ctx, dir, w)
	}
	return b.config.Engine.Collect(ctx, b.req.BuildGUID, "{{home}}/"+dir, w)
}

// maxInflated is how much larger than its compressed limit a tree may be.
const maxInflated = 8

// collection is how a directory of the instance becomes a blob.
type collection struct {
	dir   string
	limit int64 // of its compressed size
	// keep changes entries or omits them.
	keep func(*tar.Header) bool
	// compared is told of all entries, if it is not nil.
	compared *deltas.Comparison
}

// store collects a directory of the instance into a blob.
func (b *build) store(ctx context.Context, kind blob.Kind, key string, from collection) (blob.Info, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pr, pw := io.Pipe()
	done := background.Feed("staging files", pw, func() error {
		return buffered(pw, func(w io.Writer) error {
			return b.pack(ctx, &bounded{w: w, left: from.limit * maxInflated},
				from)
		})
	})
	info, err := b.config.Blobs.Put(ctx, kind, key, pr, blob.PutOptions{MaxSize: from.limit, Once: kind == blob.Droplets})
	cancel()
	_ = pr.CloseWithError(errors.New("the reader was closed")) // never fails
	<-done
	return info, err
}

// pack writes a directory of the instance as compressed tar.
func (b *build) pack(ctx context.Context, w *bounded, from collection) error {
	z, err := gzip.NewWriterLevel(w.w, gzip.BestSpeed)
	if err != nil {
		return err
	}
	w.w = z // the limit applies to the input of the compressor
	if err := b.filter(ctx, w, from); err != nil {
		return err
	}
	return z.Close()
}

func (b *build) filter(ctx context.Context, w io.Writer, from collection) error {
	pr, pw := io.Pipe()
	done := background.Feed("staging files", pw, func() error {
		return buffered(pw, func(w io.Writer) error { return b.files(ctx, from.dir, w) })
	})
	defer func() {
		_ = pr.Close() // never fails
		<-done
	}()
	in, out := tar.NewReader(pr), tar.NewWriter(w)
	buffer := make([]byte, 32<<10)
	for n := 0; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			// The zeroes at the end, so that the collector can finish.
			if _, err := io.Copy(io.Discard, pr); err != nil {
				return err
			}
			return out.Close()
		}
		if err != nil {
			return err
		}
		if n == archive.DefaultFiles { // no engine would unpack it
			return fault.New(fault.TooLarge, "The result of the build has more than %d files", n)
		}
		if !from.keep(h) {
			continue
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		to := io.Writer(out)
		if from.compared != nil {
			from.compared.Next(h)
			to = io.MultiWriter(out, from.compared)
		}
		if _, err := io.CopyBuffer(to, in, buffer); err != nil { //nolint:gosec // bounded by its writer
			return err
		}
	}
}

// dotted names entries as Cloud Foundry does in a droplet: ./app/main.rb.
func dotted(h *tar.Header) bool {
	h.Name = "./" + h.Name
	if h.Typeflag == tar.TypeLink {
		h.Linkname = "./" + h.Linkname
	}
	return true
}

// harmless omits links that lead outside of a cache, because a cache with them could
// not be unpacked.
func harmless(h *tar.Header) bool {
	if h.Typeflag != tar.TypeSymlink {
		return true
	}
	if path.IsAbs(h.Linkname) {
		return false
	}
	to := path.Join(path.Dir(path.Clean(h.Name)), h.Linkname) //nolint:gosec // judged here, opened nowhere
	return to != ".." && !strings.HasPrefix(to, "../")
}

// bounded is a writer with a limit.
type bounded struct {
	w    io.Writer
	left int64
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= int64(len(p)); b.left < 0 {
		return 0, fault.New(fault.TooLarge, "The result of the build is too large")
	}
	return b.w.Write(p)
}

// warnOfSidecars writes a warning to the app's log if sidecars need memory.
func (b *build) warnOfSidecars(ctx context.Context, buildpacks []string, sidecars []platform.Sidecar) error {
	all, err := b.installed(ctx, b.req.Lifecycle.Stack)
	if err != nil {
		return err
	}
	installed := make([]*platform.Buildpack, len(all))
	for i := range all {
		installed[i] = &all[i]
	}
	custom := platform.CustomBuildpack(buildpacks, b.req.Lifecycle.Stack, installed)
	if text := platform.SidecarWarning(buildpacks, custom, sidecars); text != "" {
		warn(b.req.Log, text)
	}
	return nil
}
