package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// A kind describes one of the images.
type kind struct {
	packages   []string
	layers     [][]string // programs of each layer above Debian's
	entrypoint []string
}

// instancePrograms run inside of instances. Every image has a layer with them: the
// server checks that they are installed.
var instancePrograms = []string{"ingot-builder", "ingot-init", "ingot-sftp", "ingot-static"}

var kinds = map[string]kind{
	"stack":  {stackPackages(), [][]string{instancePrograms}, nil},
	"small":  {smallPackages, [][]string{instancePrograms}, nil},
	"server": {smallPackages, [][]string{instancePrograms, {"ingot"}}, []string{"/ingot/ingot"}},
}

// The user of instances and of the server.
const (
	userName = "vcap"
	userID   = "2000"
	home     = "/home/vcap"
)

// programLayer returns a layer with programs in /ingot.
func programLayer(dir string, programs []string, when time.Time) (v1.Layer, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "ingot/", Mode: 0o755, ModTime: when,
		Format: tar.FormatUSTAR}); err != nil {
		return nil, err
	}
	for _, program := range programs {
		content, err := os.ReadFile(filepath.Join(dir, program))
		if err != nil {
			return nil, fmt.Errorf("%w (run: make build)", err)
		}
		header := &tar.Header{Typeflag: tar.TypeReg, Name: "ingot/" + program, Mode: 0o755, Size: int64(len(content)),
			ModTime: when, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer))
}

// assemble returns an image of the layers.
func assemble(layers []v1.Layer, arch string, entrypoint []string, when time.Time) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.AppendLayers(img, layers...)
	if err != nil {
		return nil, err
	}
	config, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: when}
	config.Config = v1.Config{
		User: userID + ":" + userID, WorkingDir: home, Entrypoint: entrypoint,
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "LANG=C.UTF-8"},
	}
	for i := range config.History {
		config.History[i].Created = v1.Time{Time: when}
	}
	return mutate.ConfigFile(img, config)
}

// writeArchive writes an image or an index as an OCI layout in a tar file, under all names.
// containerd imports it under these names, so that a node finds it by its digest
// without a registry.
func writeArchive(file string, made artifact, names ...string) error {
	dir, err := os.MkdirTemp(filepath.Dir(file), ".image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	for _, name := range names {
		// containerd reads the first annotation, Podman and Skopeo the second.
		named := layout.WithAnnotations(map[string]string{"io.containerd.image.name": name,
			"org.opencontainers.image.ref.name": name})
		switch made := made.(type) {
		case v1.Image:
			err = path.AppendImage(made, named)
		case v1.ImageIndex:
			err = path.AppendIndex(made, named)
		}
		if err != nil {
			return err
		}
	}
	out, err := os.Create(file + ".new")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name())
	if err := writeTar(out, dir); err != nil {
		return err
	}
	return os.Rename(out.Name(), file)
}

// writeTar writes a directory as a tar file, without times and owners, and closes it.
func writeTar(out *os.File, dir string) error {
	defer out.Close()
	w := tar.NewWriter(out)
	files := os.DirFS(dir)
	err := fs.WalkDir(files, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: 0o644, Size: info.Size(),
			Format: tar.FormatPAX}); err != nil {
			return err
		}
		f, err := files.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	if err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return out.Close()
}
