package manifestkeys_test

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

	"ingot/internal/base/manifestkeys"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	const manifest = `version: 1
x-defaults: &defaults
  memroy: 64M
aplications: []
applications:
- name: shop
  Memory: 64M
  disk_quota: 1G
  disk-quoat: 1G
  buildpack: go_buildpack
  host: shop
  cnb_credentials: {}
  nonsense: 1
  env: {memroy: fine}
  processes:
  - type: worker
    instnaces: 2
    services: [db]
    health_check_type: process
  sidecars:
  - {name: s, process_types: [web], command: x, memroy: 1M}
  routes:
  - route: shop.apps.localhost
    prtocol: http2
  services:
  - db
  - name: cache
    parametres: {}
  metadata:
    lables: {a: b}
- <<: *defaults
  name: other
  instances: 1
  instances: 2
`
	var got []string
	for _, w := range manifestkeys.Check([]byte(manifest)) {
		got = append(got, fmt.Sprintf("%d %s", w.Line, strings.TrimPrefix(w.Text, "manifest key ")))
	}
	want := []string{
		"3 'memroy' is unknown and ignored; did you mean 'memory'?",
		"4 'aplications' is unknown and ignored; did you mean 'applications'?",
		"7 'Memory' is unknown and ignored; did you mean 'memory'?",
		"9 'disk-quoat' is unknown and ignored; did you mean 'disk-quota'?",
		"11 'host' is ignored: removed from Cloud Foundry; use 'routes'",
		"12 'cnb_credentials' is ignored: this platform has no Cloud Native Buildpacks",
		"13 'nonsense' is unknown and ignored",
		"17 'instnaces' is unknown and ignored; did you mean 'instances'?",
		"18 'services' is unknown in a process and ignored; it belongs to an application",
		"21 'memroy' is unknown; did you mean 'memory'?",
		"24 'prtocol' is unknown and ignored; did you mean 'protocol'?",
		"28 'parametres' is unknown and ignored; did you mean 'parameters'?",
		"30 'lables' is unknown and ignored; did you mean 'labels'?",
		"34 'instances' is set twice; the last value is used",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, other := range []string{"", "[]", "a: [", "applications: 7", "applications: [7, {name: [x]}]"} {
		if w := manifestkeys.Check([]byte(other)); len(w) > 0 {
			t.Errorf("warnings about %q are %v, want none", other, w)
		}
	}
}

// Every example is one line of YAML that is understood at its level.
func TestExamples(t *testing.T) {
	t.Parallel()
	differences, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "differences.md"))
	if err != nil {
		t.Fatal(err)
	}
	var named []string // names and patterns, such as stop-*
	for _, m := range regexp.MustCompile("`([a-z_*-]+)`").FindAllStringSubmatch(string(differences), -1) {
		named = append(named, m[1])
	}
	for _, l := range manifestkeys.Levels {
		for _, k := range manifestkeys.Of(l) {
			var value map[string]any
			if err := yaml.Unmarshal([]byte(k.Example), &value); err != nil || len(value) != 1 || k.About == "" || k.Type == "" {
				t.Errorf("%s of %s: %v %v", k.Name, l, value, err)
			}
			for key := range value {
				if text := manifestkeys.Explain(l, key); text != "" && k.Ignored == "" {
					t.Errorf("the example of %s: %s", k.Name, text)
				}
			}
			if !k.CF && k.Ignored == "" &&
				!slices.ContainsFunc(named, func(pattern string) bool { ok, _ := path.Match(pattern, k.Name); return ok }) {
				t.Errorf("%s of %s: Cloud Foundry does not have it; say so in docs/differences.md", k.Name, l)
			}
		}
	}
}
