package e2e

import (
	"os"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"ingot/internal/notify/httpext"
)

// TestDescriptionsAreValid checks the API descriptions themselves. That the answers
// of the APIs match them is tested beside the APIs.
func TestDescriptionsAreValid(t *testing.T) {
	t.Parallel()
	additions, err := os.ReadFile("../internal/system/openapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"system": additions, "notifications, version 1": httpext.DescriptionV1(), "version 2": httpext.DescriptionV2(),
	} {
		doc, err := openapi3.NewLoader().LoadFromData(text)
		if err == nil {
			err = doc.Validate(t.Context())
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
