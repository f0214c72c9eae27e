package sample

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Service is a service instance bound to the app.
type Service struct {
	Label       string         `json:"label"`
	Name        string         `json:"name"`
	Tags        []string       `json:"tags"`
	Credentials map[string]any `json:"credentials"`
}

// Services parses VCAP_SERVICES: lists of instances by the label of their
// offering. The result is sorted by label.
func Services(vcap string) ([]Service, error) {
	if vcap == "" {
		return nil, nil
	}
	var byLabel map[string][]Service
	if err := json.Unmarshal([]byte(vcap), &byLabel); err != nil {
		return nil, fmt.Errorf("VCAP_SERVICES cannot be read: %w", err)
	}
	var all []Service
	for _, label := range slices.Sorted(maps.Keys(byLabel)) {
		for _, s := range byLabel[label] {
			s.Label = label
			all = append(all, s)
		}
	}
	return all, nil
}

// Credential returns a credential as text. Ports are numbers with some brokers
// and strings with others.
func (s *Service) Credential(name string) string {
	switch v := s.Credentials[name].(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return ""
	}
}
