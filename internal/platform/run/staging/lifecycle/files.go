package lifecycle

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/pattern"
)

// maxFile bounds the files that buildpacks and applications tell us things in.
const maxFile = 1 << 20

// readFile reads a small regular file; nil means that there is none.
func readFile(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("%s is larger than 1 MiB", name)
	}
	if b == nil {
		b = []byte{}
	}
	return b, nil
}

const (
	maxType    = 255
	maxCommand = 4096
)

// isProcessType reports whether a name can be that of a process type.
func isProcessType(name string) bool {
	return name != "" && len(name) <= maxType && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("_.-", r)
	})
}

// ParseProcfile reads a Procfile: a YAML map of process types to commands.
func ParseProcfile(b []byte) (map[string]string, error) {
	var raw map[string]any
	if err := yaml.Unmarshal(b, &raw); err != nil {
		return nil, errors.New("it is not a map of process types to commands, one \"type: command\" a line")
	}
	types := map[string]string{}
	for name, v := range raw {
		command, ok := v.(string)
		if !ok {
			return nil, fmt.Errorf("the command of %q is not a text", name)
		}
		if err := checkProcess(name, command); err != nil {
			return nil, err
		}
		types[name] = command
	}
	return types, nil
}

func checkProcess(name, command string) error {
	switch {
	case !isProcessType(name):
		return fmt.Errorf("%q is not a process type: it can have alphanumeric characters, '_', '-' and '.' only", name)
	case strings.TrimSpace(command) == "":
		return fmt.Errorf("the command of %q is empty", name)
	case len(command) > maxCommand:
		return fmt.Errorf("the command of %q is longer than %d characters", name, maxCommand)
	case strings.ContainsRune(command, 0):
		return fmt.Errorf("the command of %q has a NUL character", name)
	}
	return nil
}

// launchFile is deps/N/launch.yml.
type launchFile struct {
	Processes []struct {
		Type    string `yaml:"type"`
		Command string `yaml:"command"`
		Limits  struct {
			Memory any `yaml:"memory"`
		} `yaml:"limits"`
		Platforms struct {
			CloudFoundry struct {
				SidecarFor []string `yaml:"sidecar_for"`
			} `yaml:"cloudfoundry"`
			// Ingot has the keys of a sidecar in a manifest that Cloud Foundry does not have.
			Ingot map[string]any `yaml:"ingot"`
		} `yaml:"platforms"`
	} `yaml:"processes"`
}

// runIn is the key that makes a process a sidecar of tasks.
const runIn = "run-in"

// ParseLaunch reads a launch.yml: process types, and the sidecars among them.
func ParseLaunch(b []byte) (map[string]string, []Sidecar, error) {
	var f launchFile
	if err := yaml.Unmarshal(b, &f); err != nil {
		return nil, nil, errors.New("it is not a list of processes")
	}
	types := map[string]string{}
	var sidecars []Sidecar
	for _, p := range f.Processes {
		if err := checkProcess(p.Type, p.Command); err != nil {
			return nil, nil, err
		}
		of := p.Platforms.CloudFoundry.SidecarFor
		own := p.Platforms.Ingot
		if len(of) == 0 && own[runIn] == nil {
			if len(own) > 0 {
				return nil, nil, fmt.Errorf(
					"the process %q has the keys of a sidecar in platforms.ingot, and is none: set sidecar_for in "+
						"platforms.cloudfoundry", p.Type)
			}
			types[p.Type] = p.Command
			continue
		}
		if i := slices.IndexFunc(of, func(s string) bool { return !isProcessType(s) }); i >= 0 {
			return nil, nil, fmt.Errorf("the sidecar %q is for %q, which is not a process type", p.Type, of[i])
		}
		memory, err := megabytes(p.Limits.Memory)
		if err != nil {
			return nil, nil, fmt.Errorf("the memory of the sidecar %q %w", p.Type, err)
		}
		one := Sidecar{Name: p.Type, ProcessTypes: of, Command: p.Command, Memory: memory}
		if len(own) > 0 {
			text, err := yaml.Marshal(own)
			if err != nil {
				return nil, nil, fmt.Errorf("the keys in platforms.ingot of the sidecar %q: %w", p.Type, err)
			}
			one.Options = string(text)
		}
		sidecars = append(sidecars, one)
	}
	return types, sidecars, nil
}

var memoryText = pattern.OnUse(`(?i)^\s*([0-9]{1,9})\s*(m|mb|mib|g|gb|gib)?\s*$`)

// megabytes reads an amount of memory: a number of megabytes, or one with its
// unit.
func megabytes(v any) (int, error) {
	switch v := v.(type) {
	case nil:
		return 0, nil
	case int:
		if v >= 0 {
			return v, nil
		}
	case string:
		if m := memoryText().FindStringSubmatch(v); m != nil {
			n, err := strconv.Atoi(m[1])
			if err != nil {
				return 0, err
			}
			if strings.HasPrefix(strings.ToLower(m[2]), "g") {
				n *= 1024
			}
			return n, nil
		}
	}
	return 0, fmt.Errorf("is not a number of megabytes: %v", v)
}

// configFile is deps/N/config.yml, and what we read of a buildpack's own
// manifest.yml.
type configFile struct {
	Name     string `yaml:"name"`
	Language string `yaml:"language"`
	Version  any    `yaml:"version"`
	// NeedsSidecarMemory is ours: see Execution.
	NeedsSidecarMemory bool `yaml:"needs_sidecar_memory"`
	// Sync is ours too.
	Sync *Sync `yaml:"sync"`
}

func (c configFile) version() string {
	if c.Version == nil {
		return ""
	}
	return fmt.Sprint(c.Version)
}

// readConfig reads such a file. One that is broken says nothing: Cloud Foundry
// asks no more of it.
func readConfig(name string) configFile {
	b, err := readFile(name)
	if err != nil || b == nil {
		return configFile{}
	}
	var c configFile
	if yaml.Unmarshal(b, &c) != nil {
		return configFile{}
	}
	c.Name, c.Language = bounded(c.Name), bounded(c.Language)
	return c
}

// bounded makes a stranger's text fit for a line.
func bounded(s string) string {
	s, _, _ = strings.Cut(strings.TrimSpace(strings.ToValidUTF8(s, "")), "\n")
	if len(s) > 255 {
		s = strings.ToValidUTF8(s[:255], "")
	}
	return strings.TrimSpace(s)
}

// release is what bin/release writes.
type release struct {
	DefaultProcessTypes map[string]string `yaml:"default_process_types"`
	Config              struct {
		EntrypointPrefix string `yaml:"entrypoint_prefix"`
	} `yaml:"config"`
}

func parseRelease(b []byte) (release, error) {
	var r release
	if len(bytes.TrimSpace(b)) == 0 {
		return r, nil
	}
	if err := yaml.Unmarshal(b, &r); err != nil {
		return r, errors.New("its output is not YAML with default_process_types")
	}
	for name, command := range r.DefaultProcessTypes {
		if strings.TrimSpace(command) == "" {
			delete(r.DefaultProcessTypes, name) // "web:" without a command means none
			continue
		}
		if err := checkProcess(name, command); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Check refuses a result that the builder would not write: the app's own code may
// have changed it.
func Check(r Result) error {
	for name, command := range r.ProcessTypes {
		if err := checkProcess(name, command); err != nil {
			return err
		}
	}
	if len(r.ProcessTypes) > 100 || len(r.Sidecars) > 100 || len(r.Lifecycle.Buildpacks) > 100 {
		return errors.New("it has more than 100 process types, sidecars or buildpacks")
	}
	for _, s := range r.Sidecars {
		if err := checkProcess(s.Name, s.Command); err != nil {
			return err
		}
		if len(s.ProcessTypes) == 0 && s.Options == "" || s.Memory < 0 || len(s.Options) > maxFile {
			return fmt.Errorf("the sidecar %q is for no process, has a negative amount of memory, or too many keys", s.Name)
		}
		for _, t := range s.ProcessTypes {
			if !isProcessType(t) {
				return fmt.Errorf("%q is not a process type", t)
			}
		}
	}
	texts := []string{r.Lifecycle.DetectedBuildpack, r.Lifecycle.BuildpackKey, r.ExecutionMetadata}
	for _, b := range r.Lifecycle.Buildpacks {
		texts = append(texts, b.Key, b.Name, b.BuildpackName, b.Version, b.DetectOutput)
	}
	if slices.ContainsFunc(texts, func(t string) bool { return len(t) > 4096 }) {
		return errors.New("a text in it is longer than 4096 characters")
	}
	return nil
}
