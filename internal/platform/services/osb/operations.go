package osb

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Instance names a service instance to its broker.
type Instance struct {
	ID, ServiceID, PlanID string
}

func (i Instance) path() string { return "service_instances/" + url.PathEscape(i.ID) }

func (i Instance) query() url.Values {
	return url.Values{"service_id": {i.ServiceID}, "plan_id": {i.PlanID}}
}

// MaintenanceInfo is the version of a plan.
type MaintenanceInfo struct {
	Version     string `json:"version"`
	Description string `json:"description,omitempty"`
}

// Change is what a broker is asked to make, or to change.
type Change struct {
	Instance
	User        string // who caused it
	Context     map[string]any
	Parameters  map[string]any
	Maintenance string // version
	// OrgGUID and SpaceGUID are for brokers that do not read the context.
	OrgGUID, SpaceGUID string
	// Previous is the plan before an update.
	PreviousPlanID, PreviousMaintenance string
}

// Answer is what came of it.
type Answer struct {
	Outcome   Outcome
	Operation string // to ask for
	Dashboard string
	Metadata  map[string]any
	// RetryAfter is when the broker wants to be asked.
	RetryAfter time.Duration
	// Description is for people.
	Description string
}

func maintenance(version string) *MaintenanceInfo {
	if version == "" {
		return nil
	}
	return &MaintenanceInfo{Version: version}
}

// Provision makes an instance.
func (c *Client) Provision(ctx context.Context, b Broker, k Change) (*Answer, error) {
	body := map[string]any{
		"service_id": k.ServiceID, "plan_id": k.PlanID, "context": k.Context, "organization_guid": k.OrgGUID, "space_guid": k.SpaceGUID,
	}
	k.add(body)
	return c.change(ctx, b, call{method: http.MethodPut, path: k.path(), query: url.Values{"accepts_incomplete": {"true"}}, body: body, user: k.User},
		http.StatusOK, http.StatusCreated)
}

// Update changes an instance.
func (c *Client) Update(ctx context.Context, b Broker, k Change) (*Answer, error) {
	previous := map[string]any{"service_id": k.ServiceID, "plan_id": k.PreviousPlanID, "organization_id": k.OrgGUID, "space_id": k.SpaceGUID}
	if m := maintenance(k.PreviousMaintenance); m != nil {
		previous["maintenance_info"] = m
	}
	body := map[string]any{"service_id": k.ServiceID, "plan_id": k.PlanID, "context": k.Context, "previous_values": previous}
	k.add(body)
	return c.change(ctx, b, call{method: http.MethodPatch, path: k.path(), query: url.Values{"accepts_incomplete": {"true"}}, body: body, user: k.User}, http.StatusOK)
}

func (k Change) add(body map[string]any) {
	if k.Parameters != nil {
		body["parameters"] = k.Parameters
	}
	if m := maintenance(k.Maintenance); m != nil {
		body["maintenance_info"] = m
	}
}

// Deprovision removes an instance.
func (c *Client) Deprovision(ctx context.Context, b Broker, i Instance, user string) (*Answer, error) {
	q := i.query()
	q.Set("accepts_incomplete", "true")
	return c.change(ctx, b, call{method: http.MethodDelete, path: i.path(), query: q, user: user}, http.StatusOK)
}

// change sends a request that is answered at once, or accepted.
func (c *Client) change(ctx context.Context, b Broker, k call, ok ...int) (*Answer, error) {
	r, err := c.do(ctx, b, k)
	if err != nil {
		return nil, err
	}
	accepted := r.status == http.StatusAccepted
	if !accepted && !slices.Contains(ok, r.status) {
		return nil, r.failure(b)
	}
	var said struct {
		Operation string         `json:"operation"`
		Dashboard string         `json:"dashboard_url"`
		Metadata  map[string]any `json:"metadata"`
	}
	if err := decode(r.body, &said); err != nil {
		return nil, r.garbage(b, err)
	}
	if len(said.Operation) > 10000 {
		return nil, r.garbage(b, fmt.Errorf("the operation has more than 10000 characters"))
	}
	out := &Answer{Outcome: Done, Operation: said.Operation, Dashboard: webAddress(said.Dashboard), Metadata: said.Metadata, RetryAfter: r.retryAfter}
	if accepted {
		out.Outcome = Accepted
	}
	return out, nil
}

// webAddress is an address that may be shown as a link, or nothing.
func webAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return text
}

// Poll asks how far an operation on an instance is.
func (c *Client) Poll(ctx context.Context, b Broker, i Instance, operation, user string) (*Answer, error) {
	return c.poll(ctx, b, i.path()+"/last_operation", i, operation, user)
}

// PollBinding asks how far an operation on a binding is.
func (c *Client) PollBinding(ctx context.Context, b Broker, i Instance, binding, operation, user string) (*Answer, error) {
	return c.poll(ctx, b, bindingPath(i, binding)+"/last_operation", i, operation, user)
}

func (c *Client) poll(ctx context.Context, b Broker, path string, i Instance, operation, user string) (*Answer, error) {
	q := i.query()
	if operation != "" {
		q.Set("operation", operation)
	}
	r, err := c.do(ctx, b, call{method: http.MethodGet, path: path, query: q, user: user})
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		e := r.failure(b)
		if e.Outcome == Refused && r.status != http.StatusBadRequest {
			e.Outcome = Unknown // it says nothing about the operation
		}
		return nil, e
	}
	var said struct {
		State       string `json:"state"`
		Description string `json:"description"`
	}
	if err := decode(r.body, &said); err != nil {
		return nil, r.garbage(b, err)
	}
	out := &Answer{Description: clean(said.Description), RetryAfter: r.retryAfter}
	switch said.State {
	case "in progress":
		out.Outcome = Working
	case "succeeded":
		out.Outcome = Done
	case "failed":
		return nil, &Error{Outcome: Refused, Status: r.status, Title: "ServiceBrokerRequestRejected", Message: orElse(out.Description, "The service broker failed and does not say why.")}
	default:
		return nil, r.garbage(b, fmt.Errorf("the state %q is none", clean(said.State)))
	}
	return out, nil
}

// FetchInstance returns the parameters of an instance.
func (c *Client) FetchInstance(ctx context.Context, b Broker, i Instance, user string) (map[string]any, error) {
	return c.fetchParameters(ctx, b, call{method: http.MethodGet, path: i.path(), query: i.query(), user: user})
}

// FetchBindingParameters returns the parameters of a binding.
func (c *Client) FetchBindingParameters(ctx context.Context, b Broker, i Instance, binding, user string) (map[string]any, error) {
	return c.fetchParameters(ctx, b, call{method: http.MethodGet, path: bindingPath(i, binding), query: i.query(), user: user})
}

func (c *Client) fetchParameters(ctx context.Context, b Broker, k call) (map[string]any, error) {
	r, err := c.do(ctx, b, k)
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, r.failure(b)
	}
	var said struct {
		Parameters map[string]any `json:"parameters"`
	}
	if err := decode(r.body, &said); err != nil {
		return nil, r.garbage(b, err)
	}
	if said.Parameters == nil {
		said.Parameters = map[string]any{}
	}
	return said.Parameters, nil
}
