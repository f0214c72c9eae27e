package buildpacks

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"sync"
)

//go:embed all:packs
var packs embed.FS

// order is the one in which they are asked, which is Cloud Foundry's.
var order = []string{"staticfile", "java", "ruby", "nodejs", "go", "python", "php", "nginx", "binary"}

// Version is that of all bundled buildpacks.
const Version = "1.0.0"

// Buildpack is a buildpack that comes with Ingot.
type Buildpack struct {
	// Name is what users call it: go_buildpack.
	Name string
	// Key names its content.
	Key string
	// Open returns it as a tar.
	Open func() (io.ReadCloser, error)
}

// Bundled returns the buildpacks, in the order in which they are asked.
func Bundled() []Buildpack { return bundled() }

var bundled = sync.OnceValue(func() []Buildpack {
	list := make([]Buildpack, len(order))
	for i, name := range order {
		content, err := pack(name)
		if err != nil {
			panic(err) // the files are part of the program
		}
		sum := sha256.Sum256(content)
		list[i] = Buildpack{
			Name: name + "_buildpack",
			Key:  "bundled-" + name + "-" + hex.EncodeToString(sum[:16]),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		}
	}
	return list
})

func pack(name string) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, part := range []struct{ from, to string }{{"packs/" + name, ""}, {"packs/common", "lib"}} {
		err := fs.WalkDir(packs, part.from, func(p string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			text, err := packs.ReadFile(p)
			if err != nil {
				return err
			}
			return add(w, path.Join(part.to, strings.TrimPrefix(p, part.from+"/")), text)
		})
		if err != nil {
			return nil, err
		}
	}
	if err := add(w, "VERSION", fmt.Appendln(nil, Version)); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func add(w *tar.Writer, name string, text []byte) error {
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}
	if bytes.HasPrefix(text, []byte("#!")) {
		h.Mode = 0o755
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err := w.Write(text)
	return err
}
