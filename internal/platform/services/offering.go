package services

import (
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// DeleteOffering deletes an offering and its plans. It fails while there are
// instances, unless purge is set: then they and their bindings are deleted too,
// without calling the broker.
func (s *Services) DeleteOffering(tx platform.Tx, by actions.Actor, o *platform.ServiceOffering, purge bool) error {
	instances, _, err := tx.ServiceInstances().List(platform.Where("offering_guid", o.GUID))
	if err != nil {
		return err
	}
	if len(instances) > 0 && !purge {
		return fault.New(fault.NotEmpty,
			"Please delete the service_instances associations for your service_offerings: there are %d instances of '%s'. "+
				"purge=true removes them without calling the broker.", len(instances), o.Name)
	}
	for _, i := range instances {
		if err := s.PurgeInstance(tx, by, i); err != nil {
			return err
		}
	}
	if _, err := tx.ServicePlans().DeleteAll(platform.Where("offering_guid", o.GUID)); err != nil {
		return err
	}
	if err := tx.ServiceOfferings().Delete(o.GUID); err != nil {
		return err
	}
	var data map[string]any
	if purge {
		data = map[string]any{"request": map[string]any{"purge": true}}
	}
	return s.Platform.Record(tx, "audit.service.delete", by, actions.Target{GUID: o.GUID, Type: "service", Name: o.Name},
		data)
}

func planTarget(p *platform.ServicePlan) actions.Target {
	return actions.Target{GUID: p.GUID, Type: "service_plan", Name: p.Name}
}

// DeletePlan deletes a plan that has no instances.
func (s *Services) DeletePlan(tx platform.Tx, by actions.Actor, p *platform.ServicePlan) error {
	used, err := tx.ServiceInstances().Count(platform.Where("plan_guid", p.GUID))
	if err != nil {
		return err
	}
	if used > 0 {
		return fault.New(fault.NotEmpty,
			"Please delete the service_instances associations for your service_plans: there are %d instances of '%s'.",
			used, p.Name)
	}
	if err := tx.ServicePlans().Delete(p.GUID); err != nil {
		return err
	}
	return s.Platform.Record(tx, "audit.service_plan.delete", by, planTarget(p), nil)
}

// SetVisibility changes who sees a plan; orgs are those of platform.VisibleOrgs.
func (s *Services) SetVisibility(tx platform.Tx, by actions.Actor, p *platform.ServicePlan, v platform.Visibility,
	orgs []string) error {
	slices.Sort(orgs)
	p.Visibility, p.Orgs = v, slices.Compact(orgs)
	if err := tx.ServicePlans().Update(p); err != nil {
		return err
	}
	return s.Platform.Record(tx, "audit.service_plan_visibility.update", by, visibilityTarget(p), map[string]any{
		"request": map[string]any{"type": string(p.Visibility), "organizations": p.Orgs},
	})
}

func visibilityTarget(p *platform.ServicePlan) actions.Target {
	return actions.Target{GUID: p.GUID, Type: "service_plan_visibility"}
}

// HidePlan hides a plan from an organization. After the last one only
// administrators see it.
func (s *Services) HidePlan(tx platform.Tx, by actions.Actor, p *platform.ServicePlan, org string) error {
	if p.Visibility != platform.VisibleOrgs {
		return fault.Invalid("Service plan must be of visibility_type 'organization'")
	}
	if !slices.Contains(p.Orgs, org) {
		return fault.New(fault.NotFound, "Service plan visibility not found")
	}
	p.Orgs = slices.DeleteFunc(p.Orgs, func(g string) bool { return g == org })
	if len(p.Orgs) == 0 {
		p.Visibility = platform.VisibleAdmin
	}
	if err := tx.ServicePlans().Update(p); err != nil {
		return err
	}
	target := visibilityTarget(p)
	target.OrgGUID = org
	return s.Platform.Record(tx, "audit.service_plan_visibility.delete", by, target,
		map[string]any{"request": map[string]any{}})
}

// UpdateBrokerMetadata changes labels and annotations of a broker without calling
// it.
func (s *Services) UpdateBrokerMetadata(tx platform.Tx, by actions.Actor, b *platform.ServiceBroker,
	patch *actions.MetadataPatch) error {
	if err := actions.UpdateMetadata(tx.ServiceBrokers(), b, patch); err != nil {
		return err
	}
	return s.Platform.Record(tx, "audit.service_broker.update", by, brokerTarget(b), nil)
}

// UpdateBinding changes labels and annotations of a binding.
func (s *Services) UpdateBinding(tx platform.Tx, by actions.Actor, b *platform.ServiceBinding,
	patch *actions.MetadataPatch) error {
	if err := actions.UpdateMetadata(tx.ServiceBindings(), b, patch); err != nil {
		return err
	}
	return s.Platform.RecordBinding(tx, "update", by, b, nil)
}
