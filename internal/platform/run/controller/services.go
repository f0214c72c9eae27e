package controller

import (
	"archive/tar"
	"bytes"
	"cmp"
	"io"
	"maps"
	"path"
	"slices"

	"ingot/internal/platform"
	"ingot/internal/platform/engine"
)

// bindingsDir is the directory of service binding files, below the app's home, so that
// engines only have to unpack an archive.
const bindingsDir = ".cf-service-bindings"

// serviceFiles returns the archive of an app's service binding files. They belong to the
// instance's user, because Rotations replaces them in the instance.
func serviceFiles(files map[string][]byte) []engine.Archive {
	if len(files) == 0 {
		return nil
	}
	return []engine.Archive{{Target: bindingsDir, Open: func() (io.ReadCloser, error) { return archiveOf(files, 0o444) }}}
}

// archiveOf returns a tar archive of files with a mode.
func archiveOf(files map[string][]byte, mode int64) (io.ReadCloser, error) {
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
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode,
			Size: int64(len(files[name]))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(files[name]); err != nil {
			return nil, err
		}
	}
	return io.NopCloser(&out), w.Close()
}

// serviceVariables returns the variables that name the directory of the files.
func (c *Config) serviceVariables(app *platform.App) map[string]string {
	dir := cmp.Or(c.BindingsRoot, "{{home}}/"+bindingsDir)
	switch app.FileBased() {
	case platform.FeatureServiceBindingK8s:
		return map[string]string{"SERVICE_BINDING_ROOT": dir}
	case platform.FeatureFileBasedVCAP:
		return map[string]string{"VCAP_SERVICES_FILE_PATH": dir + "/vcap_services"}
	}
	return nil
}
