package rest

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
)

// Feature is a feature of an app or a space.
type Feature struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Enabled     bool   `json:"enabled"`
}

// ReadFeature decodes a request to enable or disable a feature.
func ReadFeature(r *http.Request) (enabled bool, err error) {
	var body struct {
		Enabled *bool `json:"enabled"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return false, err
	}
	if body.Enabled == nil {
		return false, fault.Invalid("Enabled must be a boolean")
	}
	return *body.Enabled, nil
}
