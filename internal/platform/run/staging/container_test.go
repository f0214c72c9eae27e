package staging_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"ingot/internal/platform/engine/container"
	"ingot/internal/platform/engine/container/containertest"
	"ingot/internal/platform/run/staging"
)

// What only a container can show: limits, and a root file system of its own.
func TestInContainer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	o := container.Options{Root: filepath.Join(t.TempDir(), "instances"), Init: filepath.Join(binaries, "ingot-init")}
	if err := container.Probe(ctx, o); err != nil {
		containertest.Missing(t, err)
	}
	e, err := container.New(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		list, err := e.List(ctx, nil)
		for _, i := range list {
			err = errors.Join(err, e.Remove(ctx, i.ID))
		}
		if err := errors.Join(err, e.Close()); err != nil {
			t.Error(err)
		}
	})
	script := func(line string) map[string]string {
		return map[string]string{"bin/detect": "#!/bin/sh\nexit 0\n", "bin/finalize": "#!/bin/sh\n" + line + "\n"}
	}
	for name, test := range map[string]struct {
		pack map[string]string // nil means those that come with Ingot
		want string
	}{
		"static": {nil, ""},
		"memory": {script(`x=$(head -c 300000000 /dev/zero | tr '\0' x); echo ${#x}`),
			"StagingError - The build ran out of memory: the limit is 100 MB"},
		"disk": {script(`head -c 300000000 /dev/zero > $1/big`),
			"StagingError - The build ran out of disk space: the limit is 100 MB"},
		"host": {script(`touch /usr/x 2>/dev/null && exit 1; touch /tmp/x $HOME/x`), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			list := &catalog{}
			w := newWorld(t, func(c *staging.Config) {
				c.Engine = e
				if test.pack != nil {
					c.Catalog = list
				}
			})
			if test.pack != nil {
				*list = append(*list, w.installBuildpack("pack", test.pack))
			}
			req, log := w.request(map[string]string{"Staticfile": "", "index.html": "hello"})
			req.BuildGUID, req.MemoryMB, req.DiskMB = "build-"+name, 100, 100
			if test.want != "" {
				w.fails(req, log, test.want)
				return
			}
			w.stage(req, log)
		})
	}
}
