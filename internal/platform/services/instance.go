package services

import (
	"time"

	"ingot/internal/base/fault"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
)

// Change is a change of a service instance. Fields that are nil or empty stay
// unchanged.
type Change struct {
	Name     *string   `json:"name,omitempty"`
	Tags     *[]string `json:"tags,omitempty"`
	PlanGUID string    `json:"plan_guid,omitempty"`
	// Maintenance is the version to upgrade to.
	Maintenance string         `json:"maintenance,omitempty"`
	Parameters  map[string]any `json:"-"` // stored in work
}

func (c *Change) apply(i *platform.ServiceInstance) {
	if c.Name != nil {
		i.Name = *c.Name
	}
	if c.Tags != nil {
		i.Tags = *c.Tags
	}
	if c.PlanGUID != "" {
		i.PlanGUID = c.PlanGUID
	}
}

// nameTaken reports whether another instance in one of the spaces of i has a
// name.
func nameTaken(tx platform.Tx, i *platform.ServiceInstance, name *string) (bool, error) {
	if name == nil {
		return false, nil
	}
	for _, space := range append([]string{i.SpaceGUID}, i.SharedSpaces...) {
		n, err := tx.ServiceInstances().Count(platform.Where("visible_in_space_guid", space).And(platform.In("name", *name)).
			And(platform.Cond{Field: "guid", Op: platform.OpNotIn, Values: []any{i.GUID}}))
		if err != nil || n > 0 {
			return n > 0, err
		}
	}
	return false, nil
}

func (s *Services) checkName(tx platform.Tx, i *platform.ServiceInstance, name string) error {
	taken, err := nameTaken(tx, i, &name)
	if err == nil && taken {
		err = fault.New(fault.Unprocessable, "The service instance name is taken: %s.", name)
	}
	return err
}

// CreateUserProvided stores a user-provided service instance.
func (s *Services) CreateUserProvided(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance) error {
	i.Type = platform.ServiceUserProvided
	if err := s.checkProvided(tx, i); err != nil {
		return err
	}
	now := time.Now()
	i.Last = platform.LastOperation{Type: platform.OperationCreate, State: platform.OperationSucceeded,
		Description: "Operation succeeded", Created: now, Updated: now}
	if err := tx.ServiceInstances().Insert(i); err != nil {
		return err
	}
	return s.Platform.RecordInstance(tx, "create", by, i, map[string]any{"name": i.Name})
}

func (s *Services) checkProvided(tx platform.Tx, i *platform.ServiceInstance) error {
	if err := platform.CheckServiceInstance(i); err != nil {
		return err
	}
	return s.checkName(tx, i, i.Name)
}

// UpdateUserProvided stores a changed user-provided service instance.
func (s *Services) UpdateUserProvided(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance) error {
	tx.Announce(platform.Changes{Bindings: true}) // log drains of bound apps may change
	if err := s.checkProvided(tx, i); err != nil {
		return err
	}
	bound, _, err := tx.ServiceBindings().List(platform.Where("instance_guid", i.GUID).
		And(platform.In("type", platform.BindingRoute)))
	if err != nil {
		return err
	}
	if len(bound) > 0 && i.RouteServiceURL == "" {
		return fault.New(fault.Unprocessable,
			"The service instance is bound to routes: its route service url can't be removed.")
	}
	for _, b := range bound {
		tx.Announce(platform.Changes{Routes: []string{b.RouteGUID}}) // it is their route service
	}
	now := time.Now()
	i.Last = platform.LastOperation{Type: platform.OperationUpdate, State: platform.OperationSucceeded,
		Description: "Operation succeeded", Created: now, Updated: now}
	if err := tx.ServiceInstances().Update(i); err != nil {
		return err
	}
	return s.Platform.RecordInstance(tx, "update", by, i, map[string]any{"name": i.Name})
}

// planParts are a plan, its offering and its broker.
type planParts struct {
	plan     *platform.ServicePlan
	offering *platform.ServiceOffering
	broker   *platform.ServiceBroker
}

func partsOf(tx platform.Tx, planGUID string) (p planParts, err error) {
	if p.plan, err = tx.ServicePlans().Get(planGUID); err != nil {
		return p, err
	}
	if p.offering, err = tx.ServiceOfferings().Get(p.plan.OfferingGUID); err != nil {
		return p, err
	}
	p.broker, err = tx.ServiceBrokers().Get(p.offering.BrokerGUID)
	return p, err
}

// usable returns an error if the plan is not available in the instance's space.
func (p planParts) usable(tx platform.Tx, spaceGUID string, admin bool) error {
	n, err := tx.ServicePlans().Count(platform.Where("guid", p.plan.GUID).
		And(platform.In("usable_in_space_guid", spaceGUID)))
	if err != nil {
		return err
	}
	if n == 0 && !(admin && p.plan.Visibility != platform.VisibleSpace) {
		return noPlan()
	}
	if !p.plan.Available || !p.offering.Available {
		return fault.New(fault.Unprocessable,
			"Invalid service plan. The plan '%s' of '%s' is no longer offered by its broker.", p.plan.Name, p.offering.Name)
	}
	if p.broker.State == platform.BrokerDeleting {
		return fault.New(fault.Unprocessable,
			"The service instance cannot be created because there is an operation in progress for the service broker.")
	}
	return nil
}

func noPlan() error {
	return fault.New(fault.Unprocessable,
		"Invalid service plan. Ensure that the service plan exists, is available, and you have access to it.")
}

func (p planParts) work(k kind, by actions.Actor, instance string) *work {
	return &work{
		Kind: k, Phase: calling, Actor: by, Broker: p.broker.GUID, Instance: instance, ServiceID: p.offering.CatalogID,
		PlanID:     p.plan.CatalogID,
		MaxPolling: time.Duration(p.plan.MaxPollingSeconds) * time.Second,
	}
}

// CreateInstance stores a managed instance and the job that creates it at the
// broker.
func (s *Services) CreateInstance(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance,
	parameters map[string]any) (*platform.Job, *platform.ServicePlan, error) {
	i.Type = platform.ServiceManaged
	if err := platform.CheckServiceInstance(i); err != nil {
		return nil, nil, err
	}
	parts, err := partsOf(tx, i.PlanGUID)
	if fault.Is(err, fault.NotFound) {
		return nil, nil, noPlan()
	}
	if err != nil {
		return nil, nil, err
	}
	if err := parts.usable(tx, i.SpaceGUID, by.Admin); err != nil {
		return nil, nil, err
	}
	if err := s.checkName(tx, i, i.Name); err != nil {
		return nil, nil, err
	}
	if err := checkParameters(parts.plan.Schemas, parameters, "service_instance", "create"); err != nil {
		return nil, nil, err
	}
	if err := actions.PlanAllowed(tx, i.SpaceGUID, parts.plan); err != nil {
		return nil, nil, err
	}
	now := time.Now()
	i.Last = platform.LastOperation{Type: platform.OperationCreate, State: platform.OperationInProgress, Created: now,
		Updated: now}
	if err := tx.ServiceInstances().Insert(i); err != nil {
		return nil, nil, err
	}
	if err := actions.InstanceFits(tx, i.SpaceGUID); err != nil {
		return nil, nil, err
	}
	w := parts.work(create, by, i.GUID)
	w.Parameters = parameters
	job, err := s.insertJob(tx, "service_instance.create", "service_instance", i.GUID, w)
	return job, parts.plan, err
}

// UpdateInstance changes a managed instance: immediately if the broker is not
// involved, otherwise through the job that it returns.
func (s *Services) UpdateInstance(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance,
	c Change) (*platform.Job, error) {
	if i.Last.InProgress() {
		return nil, platform.InstanceBusy(i)
	}
	wanted := *i
	c.apply(&wanted)
	if err := platform.CheckServiceInstance(&wanted); err != nil {
		return nil, err
	}
	renamed := wanted.Name != i.Name
	if renamed {
		if len(i.SharedSpaces) > 0 {
			return nil, fault.New(fault.Unprocessable,
				"Renaming a service instance that has been shared with other spaces is not allowed; unshare it first.")
		}
		if err := s.checkName(tx, i, wanted.Name); err != nil {
			return nil, err
		}
	}
	parts, err := partsOf(tx, i.PlanGUID)
	if err != nil {
		return nil, err
	}
	target, err := s.targetPlan(tx, by, i, parts, &c)
	if err != nil {
		return nil, err
	}
	asks := c.PlanGUID != "" || c.Parameters != nil || c.Maintenance != "" || renamed && parts.offering.AllowContextUpdates
	if !asks {
		if err := tx.ServiceInstances().Update(&wanted); err != nil {
			return nil, err
		}
		*i = wanted
		return nil, s.Platform.RecordInstance(tx, "update", by, i, map[string]any{"name": i.Name})
	}
	if !i.Last.Exists() {
		return nil, fault.New(fault.Unprocessable,
			"The service instance '%s' was not created: delete it and create it again.", i.Name)
	}
	if err := checkParameters(target.plan.Schemas, c.Parameters, "service_instance", "update"); err != nil {
		return nil, err
	}
	now := time.Now()
	i.Last = platform.LastOperation{Type: platform.OperationUpdate, State: platform.OperationInProgress, Created: now,
		Updated: now}
	if err := tx.ServiceInstances().Update(i); err != nil {
		return nil, err
	}
	w := target.work(update, by, i.GUID)
	w.Parameters, w.Change = c.Parameters, &c
	return s.insertJob(tx, "service_instance.update", "service_instance", i.GUID, w)
}

// targetPlan returns the plan after an update. A change to the current plan is not
// a change.
func (s *Services) targetPlan(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance, now planParts,
	c *Change) (planParts, error) {
	target := now
	if c.PlanGUID == i.PlanGUID {
		c.PlanGUID = ""
	}
	if c.PlanGUID != "" {
		var err error
		if target, err = partsOf(tx, c.PlanGUID); fault.Is(err, fault.NotFound) {
			return target, noPlan()
		} else if err != nil {
			return target, err
		}
		if target.offering.GUID != now.offering.GUID {
			return target, fault.New(fault.Unprocessable,
				"Invalid service plan. The plan must belong to the service offering '%s' of the instance.", now.offering.Name)
		}
		if err := target.usable(tx, i.SpaceGUID, by.Admin); err != nil {
			return target, err
		}
		if !now.plan.PlanUpdateable {
			return target, fault.New(fault.Unprocessable, "The service does not support changing plans.")
		}
		if err := actions.PlanAllowed(tx, i.SpaceGUID, target.plan); err != nil {
			return target, err
		}
	}
	if c.Maintenance == i.MaintenanceVersion {
		c.Maintenance = ""
	}
	if c.Maintenance != "" && c.Maintenance != target.plan.MaintenanceVersion {
		return target, fault.New(fault.Unprocessable,
			"maintenance_info.version requested is invalid: the plan has %q. Update the client's view of the marketplace and "+
				"try again.", target.plan.MaintenanceVersion)
	}
	return target, nil
}

// DeleteInstance deletes an instance with its bindings, in all spaces that it is
// shared with: immediately if no broker is involved, otherwise through the job that
// it returns. That job deletes the bindings at the broker first, and fails if the
// broker refuses.
func (s *Services) DeleteInstance(tx platform.Tx, by actions.Actor,
	i *platform.ServiceInstance) (*platform.Job, error) {
	if i.Type == platform.ServiceUserProvided {
		return nil, s.Platform.RemoveInstance(tx, by, i, "delete")
	}
	bound, err := tx.ServiceBindings().Count(platform.Where("instance_guid", i.GUID))
	if err != nil {
		return nil, err
	}
	old, err := tx.CredentialRotations().Count(platform.Where("instance_guid", i.GUID).
		And(platform.In("state", platform.UnfinishedRotations...)))
	if err != nil {
		return nil, err
	}
	if bound+old == 0 {
		return s.deprovision(tx, by, i)
	}
	if i.Last.InProgress() {
		return nil, platform.InstanceBusy(i)
	}
	return s.insertJob(tx, deleteInstance, "service_instance", i.GUID, &work{Actor: by, Target: i.GUID})
}

// deprovision stores the job that deletes an instance without bindings at the
// broker.
func (s *Services) deprovision(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance) (*platform.Job, error) {
	if i.Last.InProgress() {
		if err := s.overtake(tx, i); err != nil {
			return nil, err
		}
	}
	parts, err := partsOf(tx, i.PlanGUID)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	i.SharedSpaces = nil
	i.Last = platform.LastOperation{Type: platform.OperationDelete, State: platform.OperationInProgress, Created: now,
		Updated: now}
	if err := tx.ServiceInstances().Update(i); err != nil {
		return nil, err
	}
	return s.insertJob(tx, deleteInstance, "service_instance", i.GUID, parts.work(remove, by, i.GUID))
}

// overtake aborts a create that the broker is working on, so that a delete can
// follow. Until the broker has answered the create, that is not possible: the delete
// could reach it first.
func (s *Services) overtake(tx platform.Tx, i *platform.ServiceInstance) error {
	if i.Last.Type != platform.OperationCreate {
		return platform.InstanceBusy(i)
	}
	jobs, _, err := tx.Jobs().List(platform.Where("resource_guid", i.GUID).
		And(platform.In("state", platform.JobProcessing, platform.JobPolling)))
	if err != nil {
		return err
	}
	for _, j := range jobs {
		if j.State != platform.JobPolling {
			return platform.InstanceBusy(i)
		}
	}
	for _, j := range jobs {
		finish(j, platform.JobFailed, platform.JobError{Code: 10008, Title: "CF-UnprocessableEntity",
			Detail: "The service instance is being deleted."})
		if err := tx.Jobs().Update(j); err != nil {
			return err
		}
	}
	return nil
}

// boundName returns the name of what a binding binds.
func boundName(tx platform.Tx, b *platform.ServiceBinding) (string, error) {
	switch b.Type {
	case platform.BindingApp:
		app, err := tx.Apps().Get(b.AppGUID)
		if err != nil {
			return "app " + b.AppGUID, ignoreGone(err)
		}
		return "app '" + app.Name + "'", nil
	case platform.BindingRoute:
		return "route " + b.RouteGUID, nil
	}
	return "key '" + b.Name + "'", nil
}

// PurgeInstance deletes an instance with its bindings without calling the broker.
func (s *Services) PurgeInstance(tx platform.Tx, by actions.Actor, i *platform.ServiceInstance) error {
	return s.Platform.RemoveInstance(tx, by, i, "purge")
}
