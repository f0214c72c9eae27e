package broker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

// api implements the interface of the broker library.
type api struct{ b *Broker }

// Services returns the catalog: the offerings that have a server or an instance.
func (a api) Services(context.Context) ([]domain.Service, error) {
	used := map[string]bool{}
	for _, i := range a.b.state.list() {
		used[i.Offering] = true
	}
	list := []domain.Service{}
	for _, o := range offerings {
		if len(a.b.backends[o.name]) > 0 || used[o.name] {
			list = append(list, o.service())
		}
	}
	return list, nil
}

// problem returns an API error with a status.
func problem(status int, format string, args ...any) error {
	return apiresponses.NewFailureResponse(fmt.Errorf(format, args...), status, "refused")
}

// internalError logs a failure of the broker or a server and returns an error
// without the cause, which is not for users.
func (b *Broker) internalError(doing string, i *instance, err error) error {
	b.config.Log.Error("service operation failed", "doing", doing, "instance", i.ID, "service", i.Offering, "error", err)
	if errors.Is(err, errNoRoom) {
		return problem(http.StatusServiceUnavailable,
			"%s failed: the databases that are in use take all the memory that this machine has for them; stop an app that "+
				"uses one, or ask the operator", doing)
	}
	return problem(http.StatusInternalServerError,
		"%s failed on the %s server; try again, or ask the operator to check the log", doing, i.Offering)
}

// operation returns the context of an operation. It is not canceled when the
// client disconnects, so that no operation stops halfway.
func (b *Broker) operation(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), operationTime)
}

// begin is like operation, and acquires the instance.
func (b *Broker) begin(ctx context.Context, id string) (context.Context, func(), error) {
	op, cancel := b.operation(ctx)
	release, err := b.state.acquire(op, id)
	if err != nil {
		cancel()
		return nil, nil, apiresponses.ErrConcurrentInstanceAccess
	}
	return op, func() { release(); cancel() }, nil
}

func sameJSON(a, b json.RawMessage) bool {
	canonical := func(r json.RawMessage) string {
		var v any
		if len(r) == 0 || json.Unmarshal(r, &v) != nil || v == nil {
			return "{}"
		}
		var out bytes.Buffer
		_ = json.NewEncoder(&out).Encode(v) // it came from JSON
		return string(bytes.TrimSpace(out.Bytes()))
	}
	return canonical(a) == canonical(b)
}

// Provision creates an instance.
func (a api) Provision(ctx context.Context, id string, d domain.ProvisionDetails,
	async bool) (domain.ProvisionedServiceSpec, error) {
	var none domain.ProvisionedServiceSpec
	o, p, err := planByID(d.ServiceID, d.PlanID)
	if err != nil {
		return none, err
	}
	if d.MaintenanceInfo != nil {
		return none, apiresponses.ErrMaintenanceInfoNilConflict
	}
	params, err := readParameters(d.RawParameters, o.create)
	if err != nil {
		return none, problem(http.StatusBadRequest, "%w", err)
	}
	op, end, err := a.b.begin(ctx, id)
	if err != nil {
		return none, err
	}
	defer end()
	i := a.b.state.get(id)
	switch {
	case i == nil:
	case i.Phase == deleting:
		return none, apiresponses.ErrConcurrentInstanceAccess
	case i.Offering != o.name || i.PlanID != p.id || !sameJSON(i.Params, d.RawParameters):
		return none, apiresponses.ErrInstanceAlreadyExists
	case i.Phase == ready:
		return domain.ProvisionedServiceSpec{AlreadyExists: true}, nil
	case i.Phase == creating && i.Async && async:
		return domain.ProvisionedServiceSpec{IsAsync: true, OperationData: "create"}, nil
	}
	if i == nil {
		servers := a.b.backends[o.name]
		if len(servers) == 0 {
			return none, problem(http.StatusInternalServerError, "%s is no longer offered: %w", o.name, a.b.missing[o.name])
		}
		i = &instance{ID: id, On: servers[0].name(), CreatedAt: time.Now().UTC(), Bindings: map[string]*binding{}}
	}
	i.Offering, i.PlanID, i.Params, i.Phase, i.Failure = o.name, p.id, d.RawParameters, creating, ""
	s, err := a.b.backendOf(i)
	if err != nil {
		return none, problem(http.StatusInternalServerError, "%w", err)
	}
	if i.hasPort() && i.Port == 0 {
		if i.Port, err = a.b.newPort(); err != nil {
			return none, a.b.internalError("creating the instance", i, err)
		}
	}
	// Only starting a server for the first time takes long enough to poll for.
	i.Async = async && !s.up(i)
	if q, ok := s.(interface{ quick(offering string) bool }); ok {
		i.Async = async && !q.quick(o.name)
	}
	if err := a.b.state.save(i); err != nil {
		return none, a.b.internalError("creating the instance", i, err)
	}
	if i.Async {
		a.b.spawn(func() { a.b.finishSoon(id) })
		return domain.ProvisionedServiceSpec{IsAsync: true, OperationData: "create"}, nil
	}
	if err := a.b.provision(op, s, i, params); err != nil {
		return none, a.b.internalError("creating the instance", i, err)
	}
	return domain.ProvisionedServiceSpec{}, nil
}

// newPort returns a port that no instance has.
func (b *Broker) newPort() (int, error) {
	for {
		port, err := freePort(b.config.Reach.Host)
		if err != nil || !slices.ContainsFunc(b.state.list(), func(i *instance) bool { return i.Port == port }) {
			return port, err
		}
	}
}

// provision creates an instance on its server. If that fails, it removes what
// was created; if that fails too, the record stays for the next attempt.
func (b *Broker) provision(ctx context.Context, s backend, i *instance, params parameters) error {
	err := s.ensure(ctx, i)
	if err == nil {
		err = s.create(ctx, i, params)
	}
	if err == nil {
		err = b.openListener(ctx, s, i)
	}
	if err != nil {
		return errors.Join(err, b.deprovision(ctx, s, i))
	}
	i.Phase = ready
	return b.state.save(i)
}

// deprovision removes an instance from its server, and its record. The record of
// a failed asynchronous creation stays, as failed, for the last operation.
func (b *Broker) deprovision(ctx context.Context, s backend, i *instance) error {
	if err := s.drop(ctx, i); err != nil {
		return fmt.Errorf("and cleaning up: %w", err)
	}
	if i.hasPort() {
		b.forward.Close(s.target(i))
	}
	if i.Phase == creating && i.Async {
		i.Phase, i.Failure = failed, "the server could not be started or did not create it; the operator's log says why"
		return b.state.save(i)
	}
	return b.state.remove(i.ID)
}

// Deprovision deletes an instance.
func (a api) Deprovision(ctx context.Context, id string, d domain.DeprovisionDetails,
	_ bool) (domain.DeprovisionServiceSpec, error) {
	var none domain.DeprovisionServiceSpec
	op, end, err := a.b.begin(ctx, id)
	if err != nil {
		return none, err
	}
	defer end()
	i := a.b.state.get(id)
	if i == nil {
		return none, apiresponses.ErrInstanceDoesNotExist
	}
	if err := i.matches(d.ServiceID, d.PlanID); err != nil {
		return none, err
	}
	s, err := a.b.backendOf(i)
	if err != nil {
		return none, problem(http.StatusInternalServerError, "%w", err)
	}
	i.Phase, i.Async = deleting, false
	if err := a.b.state.save(i); err != nil {
		return none, a.b.internalError("deleting the instance", i, err)
	}
	if err := a.b.deprovision(op, s, i); err != nil {
		return none, a.b.internalError("deleting the instance", i, err)
	}
	return none, nil
}

// matches compares ids of a request with those of the instance.
func (i *instance) matches(serviceID, planID string) error {
	o, _ := offeringNamed(i.Offering)
	if serviceID != "" && serviceID != o.id || planID != "" && planID != i.PlanID {
		return problem(http.StatusBadRequest, "service_id or plan_id is not that of this instance")
	}
	return nil
}

func planByID(serviceID, planID string) (offering, plan, error) {
	o, ok := offeringByID(serviceID)
	if !ok {
		return offering{}, plan{}, problem(http.StatusBadRequest, "service_id %q is not in the catalog", serviceID)
	}
	p, ok := o.plan(planID)
	if !ok {
		return offering{}, plan{}, problem(http.StatusBadRequest, "plan_id %q is not in the catalog of %s", planID, o.name)
	}
	return o, p, nil
}

// GetInstance shows an instance that is ready.
func (a api) GetInstance(_ context.Context, id string, d domain.FetchInstanceDetails) (domain.GetInstanceDetailsSpec,
	error) {
	i := a.b.state.get(id)
	if i == nil || i.Phase == failed || i.Phase == creating {
		return domain.GetInstanceDetailsSpec{}, apiresponses.ErrInstanceNotFound
	}
	if i.Phase == deleting {
		return domain.GetInstanceDetailsSpec{}, apiresponses.ErrConcurrentInstanceAccess
	}
	if err := i.matches(d.ServiceID, d.PlanID); err != nil {
		return domain.GetInstanceDetailsSpec{}, err
	}
	o, _ := offeringNamed(i.Offering)
	spec := domain.GetInstanceDetailsSpec{ServiceID: o.id, PlanID: i.PlanID}
	if len(i.Params) > 0 {
		spec.Parameters = i.Params
	}
	return spec, nil
}

// Update changes the plan.
func (a api) Update(ctx context.Context, id string, d domain.UpdateDetails, _ bool) (domain.UpdateServiceSpec, error) {
	var none domain.UpdateServiceSpec
	op, end, err := a.b.begin(ctx, id)
	if err != nil {
		return none, err
	}
	defer end()
	i := a.b.state.get(id)
	switch {
	case i == nil || i.Phase == failed:
		return none, apiresponses.ErrInstanceNotFound
	case i.Phase != ready:
		return none, apiresponses.ErrConcurrentInstanceAccess
	case d.MaintenanceInfo != nil:
		return none, apiresponses.ErrMaintenanceInfoNilConflict
	}
	if err := i.matches(d.ServiceID, ""); err != nil {
		return none, err
	}
	if _, err := readParameters(d.RawParameters, nil); err != nil {
		return none, problem(http.StatusBadRequest, "%w", err)
	}
	if d.PlanID == "" || d.PlanID == i.PlanID {
		return none, nil
	}
	_, p, err := planByID(d.ServiceID, d.PlanID)
	if err != nil {
		return none, err
	}
	s, err := a.b.backendOf(i)
	if err != nil {
		return none, problem(http.StatusInternalServerError, "%w", err)
	}
	if err := s.ensure(op, i); err != nil {
		return none, a.b.internalError("changing the plan", i, err)
	}
	size, err := s.size(op, i)
	if err != nil {
		return none, a.b.internalError("changing the plan", i, err)
	}
	if size > p.bytes {
		return none, problem(http.StatusUnprocessableEntity,
			"the instance has %s of data, and plan %s allows %s: delete some first", sizeText(size), p.name, sizeText(p.bytes))
	}
	i.PlanID, i.Over = p.id, false
	// The record first: limits are applied again when sizes are checked.
	if err := a.b.state.save(i); err != nil {
		return none, a.b.internalError("changing the plan", i, err)
	}
	if err := s.resize(op, i); err != nil {
		return none, a.b.internalError("changing the plan", i, err)
	}
	if i.hasPort() { // with another limit of connections
		a.b.forward.Close(s.target(i))
		if err := a.b.openListener(op, s, i); err != nil {
			return none, a.b.internalError("changing the plan", i, err)
		}
	}
	return none, nil
}

// LastOperation returns the state of an instance.
func (a api) LastOperation(_ context.Context, id string, _ domain.PollDetails) (domain.LastOperation, error) {
	i := a.b.state.get(id)
	if i == nil {
		return domain.LastOperation{}, apiresponses.ErrInstanceDoesNotExist
	}
	switch i.Phase {
	case ready:
		return domain.LastOperation{State: domain.Succeeded}, nil
	case failed:
		return domain.LastOperation{State: domain.Failed, Description: i.Failure}, nil
	case deleting:
		return domain.LastOperation{State: domain.InProgress, Description: "deleting the instance"}, nil
	}
	return domain.LastOperation{State: domain.InProgress, Description: "starting the server"}, nil
}
