package actions

import "ingot/internal/platform"

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
	if err := CheckMetadata(p.Labels, p.Annotations); err != nil {
		return err
	}
	merge := func(dest *map[string]string, patch map[string]*string) {
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
	}
	merge(&m.Labels, p.Labels)
	merge(&m.Annotations, p.Annotations)
	return nil
}

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
