package system

import (
	_ "embed"
	"net/http"

	"ingot/internal/base/web"
)

// description is what /openapi.yaml of the platform shows: what it has beyond
// the APIs that others have described already.
//
//go:embed openapi.yaml
var description []byte

func descriptionRoutes(m *web.Mux) {
	g := m.Group("description", web.FormatV3, nil)
	g.Handle(http.MethodGet, "/openapi.yaml", web.Public("describes the API and holds nothing of anybody"), func(w http.ResponseWriter, _ *http.Request) error {
		w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
		_, _ = w.Write(description)
		return nil
	})
}
