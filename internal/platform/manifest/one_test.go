package manifest_test

import (
	"strings"
	"testing"

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
		{"applications: [{name: shop, path: ../x}]", "", "must be a folder of the repository"},
		{"applications: [{name: shop, path: /x}]", "", "must be a folder of the repository"},
		{"applications: [{name: shop, path: 7}]", "", "must be a folder of the repository"},
		{"applications: [{name: shop, memory: ((memory))}]", "", "no value for the variable memory"},
		{"applications: [7]", "", ""},
		{"applications: {", "", "not valid YAML"},
		{"applications: []", "", "no 'applications'"},
		{"applications: [{name: shop, memory: much}]", "", "For application 'shop'"},
	} {
		m, folder, err := manifest.ParseOne([]byte(c.text), "shop")
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
	m, _, err := manifest.ParseOne([]byte("applications: [{name: x, no_route: true}]"), "shop")
	if err != nil || m.Apps[0].DefaultRoute || !m.Apps[0].NoRoute {
		t.Errorf("without a route: %+v, %v", m, err)
	}
}
