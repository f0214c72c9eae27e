package services

import (
	"fmt"

	"ingot/internal/platform"
	"ingot/internal/platform/services/osb"
)

// applyCatalog stores the catalog of a broker. Offerings and plans that are no
// longer in it are deleted, or marked as not available while they have instances.
func applyCatalog(tx platform.Tx, b *platform.ServiceBroker, c *osb.Catalog, public bool) (warnings []string,
	err error) {
	have, _, err := tx.ServiceOfferings().List(platform.Where("broker_guid", b.GUID))
	if err != nil {
		return nil, err
	}
	known := map[string]*platform.ServiceOffering{}
	for _, o := range have {
		known[o.CatalogID] = o
	}
	for _, s := range c.Services {
		o, found := known[s.ID]
		delete(known, s.ID)
		if !found {
			o = &platform.ServiceOffering{BrokerGUID: b.GUID, CatalogID: s.ID}
		}
		offer(o, s)
		if found {
			err = tx.ServiceOfferings().Update(o)
		} else {
			err = tx.ServiceOfferings().Insert(o)
		}
		if err != nil {
			return nil, err
		}
		more, err := applyPlans(tx, b, o, s, public)
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, more...)
	}
	for _, o := range known {
		more, err := applyPlans(tx, b, o, &osb.Service{}, public)
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, more...)
		left, err := tx.ServicePlans().Count(platform.Where("offering_guid", o.GUID))
		if err != nil {
			return nil, err
		}
		if left == 0 {
			err = tx.ServiceOfferings().Delete(o.GUID)
		} else if o.Available {
			o.Available = false
			err = tx.ServiceOfferings().Update(o)
		}
		if err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

func offer(o *platform.ServiceOffering, s *osb.Service) {
	o.Name, o.Description, o.Available = s.Name, s.Description, true
	o.Bindable, o.PlanUpdateable, o.InstancesRetrievable = s.Bindable, s.PlanUpdateable, s.InstancesRetrievable
	o.BindingsRetrievable, o.AllowContextUpdates = s.BindingsRetrievable, s.AllowContextUpdates
	o.Tags, o.Requires, o.CatalogMetadata = s.Tags, s.Requires, s.Metadata
	o.Shareable, _ = s.Metadata["shareable"].(bool)
	o.DocumentationURL, _ = s.Metadata["documentationUrl"].(string)
}

func applyPlans(tx platform.Tx, b *platform.ServiceBroker, o *platform.ServiceOffering, s *osb.Service,
	public bool) (warnings []string, err error) {
	have, _, err := tx.ServicePlans().List(platform.Where("offering_guid", o.GUID))
	if err != nil {
		return nil, err
	}
	known := map[string]*platform.ServicePlan{}
	for _, p := range have {
		known[p.CatalogID] = p
	}
	for _, from := range s.Plans {
		p, found := known[from.ID]
		delete(known, from.ID)
		if !found {
			p = &platform.ServicePlan{OfferingGUID: o.GUID, CatalogID: from.ID, Visibility: platform.VisibleAdmin}
			switch {
			case b.SpaceGUID != "":
				p.Visibility = platform.VisibleSpace
			case public:
				p.Visibility = platform.VisiblePublic
			}
		}
		size(p, o, from)
		if found {
			err = tx.ServicePlans().Update(p)
		} else {
			err = tx.ServicePlans().Insert(p)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, p := range known {
		used, err := tx.ServiceInstances().Count(platform.Where("plan_guid", p.GUID))
		if err != nil {
			return nil, err
		}
		if used == 0 {
			if err := tx.ServicePlans().Delete(p.GUID); err != nil {
				return nil, err
			}
			continue
		}
		warnings = append(warnings, fmt.Sprintf(
			"Warning: Service plan '%s' of '%s' is missing from the broker's catalog while there are instances of it. No more "+
				"can be created.", p.Name, o.Name))
		if p.Available {
			p.Available = false
			if err := tx.ServicePlans().Update(p); err != nil {
				return nil, err
			}
		}
	}
	return warnings, nil
}

func size(p *platform.ServicePlan, o *platform.ServiceOffering, from *osb.Plan) {
	or := func(b *bool, other bool) bool {
		if b == nil {
			return other
		}
		return *b
	}
	p.Name, p.Description, p.Available = from.Name, from.Description, true
	p.Free, p.Bindable, p.PlanUpdateable = or(from.Free, true), or(from.Bindable, o.Bindable),
		or(from.PlanUpdateable, o.PlanUpdateable)
	p.BindingRotatable = from.BindingRotatable
	p.MaxPollingSeconds, p.CatalogMetadata, p.Schemas = from.MaximumPollingDuration, from.Metadata, from.Schemas
	p.MaintenanceVersion, p.MaintenanceDescription = "", ""
	if from.MaintenanceInfo != nil {
		p.MaintenanceVersion, p.MaintenanceDescription = from.MaintenanceInfo.Version, from.MaintenanceInfo.Description
	}
}
