//go:build linux

package container_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/opencontainers/runtime-spec/specs-go"

	"ingot/internal/platform/engine"
	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/enginetest"
	"ingot/internal/platform/instance/initproto"
)

// BenchmarkStart compares starting an instance with what runc alone takes for
// the same container:
//
//	go test -run '^$' -bench Start -benchtime 30x ./internal/platform/engine/container
func BenchmarkStart(b *testing.B) {
	if err := probed(); err != nil {
		b.Skip(err)
	}
	dir := b.TempDir()
	e, err := container.New(b.Context(), container.Options{Root: dir, Init: enginetest.InitPath()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(); err != nil {
			b.Error(err)
		}
	})
	spec := func(id string) engine.Spec {
		return engine.Spec{
			ID:    id,
			Files: []engine.Archive{keyedArchive("bench")},
			Launch: initproto.Spec{
				Instance: id, LogRate: -1, Health: initproto.Check{Kind: initproto.CheckProcess},
				Members: []initproto.Member{{Name: "web", Source: "APP", Args: []string{"/bin/sleep", "1000"}, Dir: "{{home}}"}},
			},
		}
	}
	n := 0
	id := func() string { n++; return fmt.Sprintf("b-%d", n) }
	b.Run("Ingot", func(b *testing.B) {
		var removing time.Duration
		for b.Loop() {
			s := spec(id())
			if err := e.Start(b.Context(), s); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			began := time.Now()
			if err := e.Remove(b.Context(), s.ID); err != nil {
				b.Fatal(err)
			}
			removing += time.Since(began)
			b.StartTimer()
		}
		b.ReportMetric(removing.Seconds()*1000/float64(b.N), "ms/remove")
	})
	// The same bundle, with a disk and files that are there already and
	// without a network.
	model := id()
	if err := e.Start(b.Context(), spec(model)); err != nil {
		b.Fatal(err)
	}
	runs, _ := filepath.Glob("/run/ingot-*/i/" + model + "/config.json")
	config, err := os.ReadFile(runs[0])
	if err != nil {
		b.Fatal(err)
	}
	b.Run("Runc", func(b *testing.B) {
		root := b.TempDir()
		for b.Loop() {
			b.StopTimer()
			id := id()
			var s specs.Spec
			if err := json.Unmarshal(config, &s); err != nil {
				b.Fatal(err)
			}
			s.Linux.CgroupsPath = "/ingot-bench-" + id
			bundle := b.TempDir()
			c, err := json.Marshal(s)
			if err == nil {
				err = os.WriteFile(filepath.Join(bundle, "config.json"), c, 0o600)
			}
			if err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
			runc(b, root, "create", "--bundle", bundle, id)
			runc(b, root, "start", id)
			b.StopTimer()
			runc(b, root, "delete", "--force", id)
			b.StartTimer()
		}
	})
	if err := e.Remove(context.Background(), model); err != nil {
		b.Error(err)
	}
}

func runc(b *testing.B, root string, args ...string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "runc", append([]string{"--root", root}, args...)...)
	if err := cmd.Run(); err != nil {
		b.Fatalf("runc %v: %v", args, err)
	}
}

// keyedArchive is a small archive that instances share.
func keyedArchive(key string) engine.Archive {
	return engine.Archive{Key: key, Open: func() (io.ReadCloser, error) {
		var buf bytes.Buffer
		w := tar.NewWriter(&buf)
		for _, name := range []string{"app/file", "app/sub/other"} {
			if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: 5, Typeflag: tar.TypeReg}); err != nil {
				return nil, err
			}
			if _, err := io.WriteString(w, "text\n"); err != nil {
				return nil, err
			}
		}
		return io.NopCloser(&buf), w.Close()
	}}
}
