package e2e

import (
	"path/filepath"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestDescriptionsAreValid checks the API descriptions themselves. That the answers
// of the APIs match them is tested beside the APIs.
func TestDescriptionsAreValid(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"system/openapi.yaml", "notify/httpext/openapi-v1.yaml",
		"notify/httpext/openapi-v2.yaml"} {
		doc, err := openapi3.NewLoader().LoadFromFile(filepath.Join("..", "internal", name))
		if err == nil {
			err = doc.Validate(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
