package httpext_test

import (
	"strings"
	"testing"

	"ingot/internal/base/web/openapitest"
	"ingot/internal/notify/httpext"
)

// TestDescriptions checks that the description of each version has its own paths and schemas and the
// shared ones, each once.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text             []byte
		paths, schemas   int
		ownPath, ownType string
	}{
		"1": {httpext.DescriptionV1(), 95, 65, "/registration", "Preferences"},
		"2": {httpext.DescriptionV2(), 87, 66, "/senders", "Campaign"},
	} {
		d, err := openapitest.Parse(c.text, nil)
		if err != nil {
			t.Fatal(err)
		}
		paths, schemas := d.At("paths"), d.At("components", "schemas")
		if len(paths) != c.paths || len(schemas) != c.schemas {
			t.Errorf("version %s has %d paths and %d schemas, want %d and %d", name, len(paths), len(schemas), c.paths,
				c.schemas)
		}
		for _, path := range []string{c.ownPath, "/sends"} {
			if paths[path] == nil {
				t.Errorf("version %s does not describe %s", name, path)
			}
		}
		for _, schema := range []string{c.ownType, "Send"} {
			if schemas[schema] == nil {
				t.Errorf("version %s has no schema %s", name, schema)
			}
		}
		if n := strings.Count(string(c.text), "\ncomponents:"); n != 1 {
			t.Errorf("version %s has components %d times", name, n)
		}
	}
}
