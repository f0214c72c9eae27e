package controller

import (
	"archive/tar"
	"bytes"
	"io"
	"maps"
	"path"
	"slices"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// bindingsDir is where an app that wants its services in files finds them, below
// its home: no engine has to know more than how to unpack.
const bindingsDir = ".cf-service-bindings"

// serviceFiles are the services of an app in files.
func serviceFiles(files map[string][]byte) []engine.Archive {
	if len(files) == 0 {
		return nil
	}
	return []engine.Archive{{Target: bindingsDir, ReadOnly: true, Open: func() (io.ReadCloser, error) { return archiveOf(files) }}}
}

// archiveOf packs files, which everybody in the instance may read.
func archiveOf(files map[string][]byte) (io.ReadCloser, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	made := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if dir := path.Dir(name); dir != "." && !made[dir] {
			made[dir] = true
			if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755}); err != nil {
				return nil, err
			}
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o444, Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	return io.NopCloser(&out), w.Close()
}

// serviceVariables say where the files are.
func (c *Config) serviceVariables(app *platform.App) map[string]string {
	dir := c.BindingsRoot
	if dir == "" {
		dir = "{{home}}/" + bindingsDir
	}
	switch app.FileBased() {
	case platform.FeatureServiceBindingK8s:
		return map[string]string{"SERVICE_BINDING_ROOT": dir}
	case platform.FeatureFileBasedVCAP:
		return map[string]string{"VCAP_SERVICES_FILE_PATH": dir + "/vcap_services"}
	}
	return nil
}
