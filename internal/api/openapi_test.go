package api_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/legacy"
)

// openAPIPath is where the description of Cloud Foundry's v3 API is: beside
// the repository, or where INGOT_OPENAPI says. It is not ours to ship.
func openAPIPath() string {
	if path := os.Getenv("INGOT_OPENAPI"); path != "" {
		return path
	}
	return filepath.Join("..", "..", "..", "shared", "spec", "cf-v3-openapi.yaml")
}

// openAPI is the description, nil when it is not there. It is read once for all
// tests: that takes a second.
var openAPI = sync.OnceValues(func() (routers.Router, error) {
	text, err := os.ReadFile(openAPIPath())
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		return nil, err
	}
	doc.Servers = nil // ours is another one
	return legacy.NewRouter(doc, openapi3.DisableExamplesValidation(), openapi3.DisableSchemaDefaultsValidation(), openapi3.DisableSchemaPatternValidation())
})

func TestOpenAPI(t *testing.T) {
	t.Parallel()
	router, err := openAPI()
	if err != nil {
		t.Fatal(err)
	}
	if router == nil {
		t.Skipf("%s is not there: no response was compared with it (INGOT_OPENAPI names another place)", openAPIPath())
	}
	_ = json.Valid
	_ = bytes.NewReader
	_ = http.MethodGet
	_ = strings.Cut
}
