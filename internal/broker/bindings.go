package broker

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

func (b *Broker) password(i *instance, to *binding) string {
	return b.secret.password("binding", i.ID, to.ID, to.Nonce)
}

// credentials returns the credentials of a binding and its server's endpoints.
func (b *Broker) credentials(s backend, i *instance, to *binding) (map[string]any, []domain.Endpoint) {
	at := b.forward.Outside(s.target(i))
	values := s.credentials(i, to, at, b.password(i, to))
	if at.Port == 0 {
		return values, nil
	}
	return values, []domain.Endpoint{{Host: at.Host, Ports: []string{strconv.Itoa(at.Port)}, Protocol: "tcp"}}
}

// Bind creates a user for an app or a service key.
func (a api) Bind(ctx context.Context, instanceID, id string, d domain.BindDetails, _ bool) (domain.Binding, error) {
	var none domain.Binding
	if _, err := readParameters(d.RawParameters, nil); err != nil {
		return none, problem(http.StatusBadRequest, "%w", err)
	}
	app := d.AppGUID
	if d.BindResource != nil {
		if d.BindResource.Route != "" {
			return none, problem(http.StatusBadRequest, "this service cannot be bound to a route")
		}
		if d.BindResource.AppGuid != "" {
			app = d.BindResource.AppGuid
		}
	}
	op, end, err := a.b.begin(ctx, instanceID)
	if err != nil {
		return none, err
	}
	defer end()
	i, s, err := a.b.usable(instanceID)
	if err != nil {
		return none, err
	}
	if err := i.matches(d.ServiceID, d.PlanID); err != nil {
		return none, err
	}
	old, err := i.predecessor(ctx)
	if err != nil {
		return none, err
	}
	root := ""
	if old != nil {
		app, d.RawParameters, root = cmp.Or(app, old.AppGUID), old.Params, old.root()
	}
	to := i.Bindings[id]
	switch {
	case to == nil:
	case to.Phase == deleting:
		return none, apiresponses.ErrConcurrentInstanceAccess
	case to.AppGUID != app || to.Root != root || !sameJSON(to.Params, d.RawParameters):
		return none, apiresponses.ErrBindingAlreadyExists
	case to.Phase == ready:
		values, at := a.b.credentials(s, i, to)
		return domain.Binding{AlreadyExists: true, Credentials: values, Endpoints: at}, nil
	}
	if to == nil {
		to = &binding{ID: id, Root: root, Nonce: newNonce(), CreatedAt: time.Now().UTC()}
		i.Bindings[id] = to
	}
	to.AppGUID, to.Params, to.Phase = app, d.RawParameters, creating
	if err := a.b.state.save(i); err != nil {
		return none, a.b.internalError("binding", i, err)
	}
	err = s.ensure(op, i)
	if err == nil {
		err = s.bind(op, i, to, a.b.password(i, to))
	}
	if err != nil {
		if undo := a.b.removeBinding(op, s, i, to); undo != nil {
			a.b.config.Log.Warn("clean up failed binding failed", "instance", i.ID, "binding", id, "error", undo)
		}
		return none, a.b.internalError("binding", i, err)
	}
	to.Phase = ready
	if err := a.b.state.save(i); err != nil {
		return none, a.b.internalError("binding", i, err)
	}
	values, at := a.b.credentials(s, i, to)
	return domain.Binding{Credentials: values, Endpoints: at}, nil
}

// usable returns an instance that is ready, and its backend.
func (b *Broker) usable(id string) (*instance, backend, error) {
	i := b.state.get(id)
	switch {
	case i == nil || i.Phase == failed:
		return nil, nil, apiresponses.ErrInstanceNotFound
	case i.Phase != ready:
		return nil, nil, apiresponses.ErrConcurrentInstanceAccess
	}
	s, err := b.backendOf(i)
	if err != nil {
		return nil, nil, problem(http.StatusInternalServerError, "%w", err)
	}
	return i, s, nil
}

// removeBinding deletes the user, then the record.
func (b *Broker) removeBinding(ctx context.Context, s backend, i *instance, to *binding) error {
	to.Phase = deleting
	if err := b.state.save(i); err != nil {
		return err
	}
	if err := s.ensure(ctx, i); err != nil {
		return err
	}
	if err := s.unbind(ctx, i, to); err != nil {
		return err
	}
	delete(i.Bindings, to.ID)
	return b.state.save(i)
}

// Unbind deletes a binding and its user.
func (a api) Unbind(ctx context.Context, instanceID, id string, d domain.UnbindDetails,
	_ bool) (domain.UnbindSpec, error) {
	var none domain.UnbindSpec
	op, end, err := a.b.begin(ctx, instanceID)
	if err != nil {
		return none, err
	}
	defer end()
	i := a.b.state.get(instanceID)
	if i == nil || i.Bindings[id] == nil {
		return none, apiresponses.ErrBindingDoesNotExist
	}
	if err := i.matches(d.ServiceID, d.PlanID); err != nil {
		return none, err
	}
	s, err := a.b.backendOf(i)
	if err != nil {
		return none, problem(http.StatusInternalServerError, "%w", err)
	}
	if err := a.b.removeBinding(op, s, i, i.Bindings[id]); err != nil {
		return none, a.b.internalError("unbinding", i, err)
	}
	return none, nil
}

// GetBinding shows a binding that is ready, with its credentials.
func (a api) GetBinding(_ context.Context, instanceID, id string, d domain.FetchBindingDetails) (domain.GetBindingSpec,
	error) {
	i := a.b.state.get(instanceID)
	if i == nil || i.Bindings[id] == nil || i.Bindings[id].Phase != ready {
		return domain.GetBindingSpec{}, apiresponses.ErrBindingNotFound
	}
	if err := i.matches(d.ServiceID, d.PlanID); err != nil {
		return domain.GetBindingSpec{}, err
	}
	s, err := a.b.backendOf(i)
	if err != nil {
		return domain.GetBindingSpec{}, problem(http.StatusInternalServerError, "%w", err)
	}
	values, at := a.b.credentials(s, i, i.Bindings[id])
	spec := domain.GetBindingSpec{Credentials: values, Endpoints: at}
	if params := i.Bindings[id].Params; len(params) > 0 {
		spec.Parameters = params
	}
	return spec, nil
}

// LastBindingOperation returns the state of a binding; bindings are created
// synchronously.
func (a api) LastBindingOperation(_ context.Context, instanceID, id string, _ domain.PollDetails) (domain.LastOperation,
	error) {
	i := a.b.state.get(instanceID)
	if i == nil || i.Bindings[id] == nil {
		return domain.LastOperation{}, apiresponses.ErrBindingDoesNotExist
	}
	if i.Bindings[id].Phase == ready {
		return domain.LastOperation{State: domain.Succeeded}, nil
	}
	return domain.LastOperation{State: domain.InProgress}, nil
}

var _ domain.ServiceBroker = api{}
