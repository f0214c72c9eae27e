package actions

import (
	"ingot/internal/base/fault"
	"ingot/internal/platform"
)

// MetadataPatch changes metadata: null removes a key.
type MetadataPatch struct {
	Labels      map[string]*string `json:"labels"`
	Annotations map[string]*string `json:"annotations"`
}

// Apply checks the patch and merges it into m. A nil patch changes nothing.
func (p *MetadataPatch) Apply(m *platform.Metadata) error {
	if p == nil {
		return nil
	}
	if err := platform.CheckMetadata(p.Labels, p.Annotations); err != nil {
		return err
	}
	merge := func(dest *map[string]string, patch map[string]*string, what string, most int) error {
		before := len(*dest)
		for k, v := range patch {
			if v == nil {
				delete(*dest, k)
				continue
			}
			if *dest == nil {
				*dest = map[string]string{}
			}
			(*dest)[k] = *v
		}
		if n := len(*dest); n > before && n > most {
			return fault.New(fault.Unprocessable, "Failed to add %d %s because it would exceed maximum of %d",
				n-before, what, most)
		}
		return nil
	}
	if err := merge(&m.Labels, p.Labels, "labels", maxLabels); err != nil {
		return err
	}
	return merge(&m.Annotations, p.Annotations, "annotations", maxAnnotations)
}

// The numbers of labels and annotations that a resource may have, as in Cloud Foundry.
const (
	maxLabels      = 50
	maxAnnotations = 200
)

// Described is a resource with metadata.
type Described[T any] interface {
	*T
	Meta() *platform.Metadata
}

// UpdateMetadata changes the metadata of one of those resources for which Cloud
// Foundry records no audit event.
func UpdateMetadata[T any, P Described[T]](repo platform.Repo[T], item P, patch *MetadataPatch) error {
	if err := patch.Apply(item.Meta()); err != nil {
		return err
	}
	return repo.Update(item)
}
