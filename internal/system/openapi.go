package system

import (
	_ "embed"
	"net/http"

	"ingot/internal/base/web"
)

// description is /openapi.yaml of the platform. It describes only what is not in
// the published descriptions of Cloud Foundry's APIs.
//
//go:embed openapi.yaml
var description []byte

func descriptionRoutes(m *web.Mux) {
	g := m.Group("description", web.FormatV3, nil)
	g.Handle(http.MethodGet, "/openapi.yaml", web.Public("describes the API and contains no user data"),
		func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Content-Type", "application/yaml; charset=utf-8")
			_, _ = w.Write(description)
			return nil
		})
}
