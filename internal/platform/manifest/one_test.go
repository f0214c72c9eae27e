package manifest_test

import (
	"strings"
	"testing"

	"ingot/internal/platform"
	"ingot/internal/platform/manifest"
)

// TestParseOne has manifests that come with the files of an app.
func TestParseOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, folder, fails string }{
		{"", "", ""},
		{"applications: [{name: other, path: ./src/}]", "src", ""},
		{"applications: [{name: other, path: .}]", "", ""},
		{"applications: [{memory: 64M}]", "", ""},
		{"applications: [{name: other}, {name: shop, path: web}]", "web", ""},
		{"applications: [{name: other}, {name: third}]", "", "no app shop, but other, third"},
		{"applications: [{name: shop, path: ../x}]", "", "must be a folder beside the manifest"},
		{"applications: [{name: shop, path: /x}]", "", "must be a folder beside the manifest"},
		{"applications: [{name: shop, path: 7}]", "", "must be a folder beside the manifest"},
		{"applications: [{name: shop, memory: ((memory))}]", "", "no value for the variable memory"},
		{"applications: [7]", "", ""},
		{"applications: {", "", "not valid YAML"},
		{"applications: []", "", "no 'applications'"},
		{"applications: [{name: shop, memory: much}]", "", "For application 'shop'"},
	} {
		m, folder, err := manifest.ParseOne([]byte(c.text), "shop", manifest.Flags{})
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v, want %q", c.text, err, c.fails)
			}
			continue
		}
		if err != nil || folder != c.folder || len(m.Apps) != 1 || m.Apps[0].Name != "shop" || !m.Apps[0].DefaultRoute {
			t.Errorf("%s: %+v, %q, %v, want the folder %q", c.text, m, folder, err, c.folder)
		}
	}
	m, _, err := manifest.ParseOne([]byte("applications: [{name: x, no_route: true}]"), "shop",
		manifest.Flags{RandomRoute: true})
	if err != nil || m.Apps[0].DefaultRoute || !m.Apps[0].NoRoute {
		t.Errorf("without a route: %+v, %v", m, err)
	}
}

// TestParseOneFlags has settings that count more than those of a manifest.
func TestParseOneFlags(t *testing.T) {
	t.Parallel()
	three := 3
	flags := manifest.Flags{Memory: "64M", Instances: &three, RandomRoute: true}
	for _, text := range []string{
		"", "applications: [{memory: 1G, instances: 7}]",
		"applications: [{processes: [{type: web, memory: 1G}, {type: worker}]}]",
	} {
		m, _, err := manifest.ParseOne([]byte(text), "shop", flags)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		app := m.Apps[0]
		var web platform.Process
		app.Processes[0].Set(&web)
		if app.Processes[0].Type != "web" || web.MemoryMB != 64 || web.Instances != 3 || !app.RandomRoute ||
			app.DefaultRoute {
			t.Errorf("%s: %+v, %+v", text, app, web)
		}
	}
	m, _, err := manifest.ParseOne(nil, "shop", manifest.Flags{Image: "example.com/a:1", Username: "ann"})
	if err != nil || m.Apps[0].Lifecycle == nil || *m.Apps[0].Lifecycle != "docker" || !m.Apps[0].DefaultRoute {
		t.Errorf("an image: %+v, %v", m, err)
	}
}
