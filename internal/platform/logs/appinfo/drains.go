package appinfo

import (
	"context"

	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/logs/drain"
)

// Drains implements drain.Source with the drains of service bindings.
func (n *Info) Drains(ctx context.Context) (map[string][]drain.Drain, error) {
	var all map[string][]drain.Drain
	err := n.store.View(ctx, func(tx platform.Tx) error {
		all = map[string][]drain.Drain{}
		bindings, _, err := tx.ServiceBindings().List(platform.Where("type", platform.BindingApp))
		if err != nil {
			return err
		}
		for _, b := range bindings {
			if _, done := all[b.AppGUID]; done {
				continue
			}
			if all[b.AppGUID], err = n.drainsOf(tx, b.AppGUID); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

func (n *Info) drainsOf(tx platform.Tx, appGUID string) ([]drain.Drain, error) {
	found, err := actions.DrainsOf(tx, appGUID)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	about, err := n.aboutIn(tx, appGUID)
	if err != nil {
		return nil, err
	}
	out := make([]drain.Drain, 0, len(found))
	for _, f := range found {
		out = append(out, drain.Drain{
			ID: f.BindingGUID, URL: f.URL, Certificate: []byte(f.Certificate), Key: []byte(f.Key), CA: []byte(f.CA),
			Host:  drain.Hostname(about.Tags["organization_name"], about.Tags["space_name"], about.Tags["app_name"]),
			About: about,
		})
	}
	return out, nil
}
