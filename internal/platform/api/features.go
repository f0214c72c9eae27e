package api

import "ingot/internal/base/fault"

type featureBody struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Enabled     bool   `json:"enabled"`
}

type featureRequest struct {
	Enabled *bool `json:"enabled"`
}

func (b *featureRequest) check() error {
	if b.Enabled == nil {
		return fault.Invalid("Enabled must be a boolean")
	}
	return nil
}
