package services

import (
	"slices"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Shareable returns an error if the instance cannot be shared.
func (s *Services) Shareable(tx platform.Tx, i *platform.ServiceInstance) error {
	if i.Type == platform.ServiceUserProvided {
		return fault.New(fault.Unprocessable, "User-provided services cannot be shared.")
	}
	parts, err := partsOf(tx, i.PlanGUID)
	if err == nil && !parts.offering.Shareable {
		err = fault.New(fault.Unprocessable, "The %s service does not support service instance sharing.", parts.offering.Name)
	}
	return err
}

// Share lets the apps of other spaces use a service instance.
func (s *Services) Share(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance,
	spaces []*platform.Space) error {
	for _, space := range spaces {
		if err := share(tx, i, space); err != nil {
			return err
		}
	}
	if err := tx.ServiceInstances().Update(i); err != nil {
		return err
	}
	targets := []map[string]string{}
	for _, guid := range i.SharedSpaces {
		targets = append(targets, map[string]string{"guid": guid})
	}
	return s.Platform.RecordInstance(tx, "share", by, i, map[string]any{"target_space_guids": targets})
}

func share(tx platform.Tx, i *platform.ServiceInstance, space *platform.Space) error {
	if slices.Contains(i.SharedSpaces, space.GUID) {
		return nil
	}
	usable, err := tx.ServicePlans().Count(platform.Where("guid", i.PlanGUID).
		And(platform.In("usable_in_space_guid", space.GUID)))
	if err != nil {
		return err
	}
	if usable == 0 {
		return fault.New(fault.Unprocessable,
			"Access to the service plan of '%s' is not enabled in the organization of space '%s'.", i.Name, space.Name)
	}
	taken, err := tx.ServiceInstances().Count(platform.Where("visible_in_space_guid", space.GUID).
		And(platform.In("name", i.Name)))
	if err != nil {
		return err
	}
	if taken > 0 {
		return fault.New(fault.Unprocessable, "A service instance called %s already exists in %s.", i.Name, space.Name)
	}
	i.SharedSpaces = append(i.SharedSpaces, space.GUID)
	return nil
}

// Unshare stops sharing an instance with a space. If there are bindings in the
// space, it returns the jobs that delete them, and has to be called again when they
// have finished. With last set, remaining bindings are an error.
func (s *Services) Unshare(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance, space string,
	last bool) (jobs []string, err error) {
	if !slices.Contains(i.SharedSpaces, space) {
		return nil, fault.New(fault.Unprocessable,
			"Unable to unshare service instance from space %s. Ensure the space exists and the service instance has been "+
				"shared to this space.", space)
	}
	bound, _, err := tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID).
		And(platform.In("space_guid", space)))
	if err != nil {
		return nil, err
	}
	if len(bound) > 0 && last {
		return nil, fault.New(fault.Unprocessable,
			"Unshare of service instance failed: %d bindings in that space still exist. Try again when they are deleted.",
			len(bound))
	}
	for _, b := range bound {
		job, err := s.Unbind(tx, by, b)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, job.GUID)
	}
	if len(bound) > 0 {
		return jobs, nil
	}
	i.SharedSpaces = slices.DeleteFunc(i.SharedSpaces, func(g string) bool { return g == space })
	if err := tx.ServiceInstances().Update(i); err != nil {
		return nil, err
	}
	return nil, s.Platform.RecordInstance(tx, "unshare", by, i, map[string]any{"target_space_guid": space})
}
