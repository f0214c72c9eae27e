package push

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/manifestkeys"
	"ingot/internal/base/pattern"
	"ingot/internal/cli/core"
)

// document is a manifest as it is sent. The platform interprets it; the client
// only adds the flags. Unknown keys are sent too, with a warning.
type document struct {
	Version      any             `yaml:"version,omitempty"`
	Applications []yaml.MapSlice `yaml:"applications"`

	dir      string                 // directory that paths are relative to
	file     string                 // its path
	warnings []manifestkeys.Warning // about keys without effect
}

func get(m yaml.MapSlice, keys ...string) any {
	for _, item := range m {
		if name, ok := item.Key.(string); ok && slices.Contains(keys, name) {
			return item.Value
		}
	}
	return nil
}

func text0(m yaml.MapSlice, keys ...string) string {
	if v := get(m, keys...); v != nil {
		return fmt.Sprint(v)
	}
	return ""
}

func set(m yaml.MapSlice, key string, value any) yaml.MapSlice {
	m = without(m, key, strings.ReplaceAll(key, "-", "_"))
	return append(m, yaml.MapItem{Key: key, Value: value})
}

func without(m yaml.MapSlice, keys ...string) yaml.MapSlice {
	return slices.DeleteFunc(slices.Clone(m), func(i yaml.MapItem) bool {
		name, ok := i.Key.(string)
		return ok && slices.Contains(keys, name)
	})
}

// readManifest reads a manifest and fills in its variables.
func readManifest(path string, vars map[string]any) (*document, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		found, err := findManifest(path)
		if err != nil {
			return nil, err
		}
		if found == "" {
			return nil, &core.Problem{What: "No manifest found in " + path + ".", Try: "pass the file with -f"}
		}
		path = found
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &core.Problem{What: "No manifest found at " + path + ".", Try: "pass the file with -f", Err: err}
	}
	if err != nil {
		return nil, err
	}
	doc, err := parseManifest(content, vars)
	if err != nil {
		return nil, &core.Problem{What: "The manifest " + path + " is not valid.", Why: err.Error(), Err: err}
	}
	doc.dir, doc.file, doc.warnings = filepath.Dir(path), path, manifestkeys.Check(content)
	return doc, nil
}

// findManifest returns the path of the folder's manifest, or "".
func findManifest(dir string) (string, error) {
	for _, name := range []string{"manifest.yml", "manifest.yaml"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			return path, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", nil
}

var placeholder = pattern.OnUse(`\(\(([-/\w.]+)\)\)`)

func parseManifest(content []byte, vars map[string]any) (*document, error) {
	var missing []string
	filled := placeholder().ReplaceAllFunc(content, func(match []byte) []byte {
		name := string(match[2 : len(match)-2])
		value, ok := vars[name]
		if !ok {
			missing = append(missing, name)
			return match
		}
		out, err := yaml.Marshal(value)
		if err != nil {
			return match
		}
		return bytes.TrimSpace(out)
	})
	if len(missing) > 0 {
		slices.Sort(missing)
		return nil, fmt.Errorf("no value for the variables %s: pass --var NAME=VALUE or --vars-file",
			strings.Join(slices.Compact(missing), ", "))
	}
	var doc document
	if err := yaml.Unmarshal(filled, &doc); err != nil {
		return nil, err
	}
	if len(doc.Applications) == 0 {
		return nil, errors.New("the list 'applications' is missing")
	}
	return &doc, nil
}

// readVars reads the values of variables; flags override files.
func readVars(w *core.Env, files, pairs []string) (map[string]any, error) {
	vars := map[string]any{}
	for _, file := range files {
		content, err := os.ReadFile(w.Path(file))
		if err != nil {
			return nil, err
		}
		if err := yaml.Unmarshal(content, &vars); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, core.UsageError(fmt.Sprintf("--var %s has no '=': write NAME=VALUE", pair))
		}
		vars[name] = value
	}
	return vars, nil
}

// warnAbout shows warnings about the manifest's keys, with line numbers. Warnings of
// the platform about the same keys are not repeated.
func warnAbout(s *core.Session, d *document) {
	name := d.file
	if short, err := filepath.Rel(s.Env.Dir, d.file); err == nil && !strings.HasPrefix(short, "..") {
		name = short
	}
	for _, w := range d.warnings {
		s.Warned = append(s.Warned, w.Key)
		if !s.JSON {
			s.Errs.Println(s.Errs.Warn("Warning: ") + fmt.Sprintf("%s, line %d: %s", name, w.Line, w.Text))
		}
	}
}

func (d *document) bytes() ([]byte, error) { return yaml.Marshal(d) }
