//go:build linux

package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// pauseImage holds the namespaces of a Pod on a node.
const pauseImage = "localhost/ingot/pause:1"

// writePause writes the image with the program pause as an archive that
// `ctr images import` reads.
func writePause(file, program string) error {
	binary, err := os.ReadFile(program)
	if err != nil {
		return fmt.Errorf("%w (run: make cluster-build)", err)
	}
	layer, err := tarOf(map[string][]byte{"pause": binary})
	if err != nil {
		return err
	}
	config, err := json.Marshal(object{
		"architecture": runtime.GOARCH, "os": "linux", "config": object{"Entrypoint": []string{"/pause"}},
		"rootfs": object{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal([]object{{"Config": "config.json", "RepoTags": []string{pauseImage},
		"Layers": []string{"layer.tar"}}})
	if err != nil {
		return err
	}
	archive, err := tarOf(map[string][]byte{"layer.tar": layer, "config.json": config, "manifest.json": manifest})
	if err != nil {
		return err
	}
	return os.WriteFile(file, archive, 0o600)
}

// imageName returns the name of an image archive of the tool stack that contains the
// digest.
func imageName(file string) (string, error) {
	text, err := fileOf(file, "index.json")
	if err != nil {
		return "", err
	}
	var index struct {
		Manifests []struct{ Annotations map[string]string }
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return "", fmt.Errorf("%s: %w", file, err)
	}
	for _, m := range index.Manifests {
		if name := m.Annotations["io.containerd.image.name"]; strings.Contains(name, "@sha256:") {
			return name, nil
		}
	}
	return "", fmt.Errorf("%s contains no image with a digest in its name", file)
}

// fileOf returns one file of a tar archive.
func fileOf(archive, name string) ([]byte, error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for r := tar.NewReader(f); ; {
		header, err := r.Next()
		if err != nil {
			return nil, fmt.Errorf("%s in %s: %w", name, archive, err)
		}
		if header.Name == name {
			return io.ReadAll(r)
		}
	}
}

func tarOf(files map[string][]byte) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(content)),
			Typeflag: tar.TypeReg}); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}
