package osb

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// Instance identifies a service instance to its broker.
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

// Change is a request to create or update an instance.
type Change struct {
	Instance
	User        string // the originating user
	Context     map[string]any
	Parameters  map[string]any
	Maintenance string // version
	// OrgGUID and SpaceGUID are for brokers that do not read the context.
	OrgGUID, SpaceGUID string
	// Previous is the plan before an update.
	PreviousPlanID, PreviousMaintenance string
}

// Answer is the response to a change or a poll.
type Answer struct {
	Outcome   Outcome
	Operation string // for polls
	Dashboard string
	Metadata  map[string]any
	// RetryAfter is the poll interval that the broker requests.
	RetryAfter time.Duration
	// Description is a text for users.
	Description string
}

func maintenance(version string) *MaintenanceInfo {
	if version == "" {
		return nil
	}
	return &MaintenanceInfo{Version: version}
}

// Provision creates an instance.
func (c *Client) Provision(ctx context.Context, b Broker, k Change) (*Answer, error) {
	body := map[string]any{
		"service_id": k.ServiceID, "plan_id": k.PlanID, "context": k.Context, "organization_guid": k.OrgGUID,
		"space_guid": k.SpaceGUID,
	}
	k.add(body)
	return c.change(ctx, b, call{method: http.MethodPut, path: k.path(), query: url.Values{"accepts_incomplete": {"true"}},
		body: body, user: k.User},
		http.StatusOK, http.StatusCreated)
}

// Update updates an instance.
func (c *Client) Update(ctx context.Context, b Broker, k Change) (*Answer, error) {
	previous := map[string]any{"service_id": k.ServiceID, "plan_id": k.PreviousPlanID, "organization_id": k.OrgGUID,
		"space_id": k.SpaceGUID}
	if m := maintenance(k.PreviousMaintenance); m != nil {
		previous["maintenance_info"] = m
	}
	body := map[string]any{"service_id": k.ServiceID, "plan_id": k.PlanID, "context": k.Context,
		"previous_values": previous}
	k.add(body)
	return c.change(ctx, b, call{method: http.MethodPatch, path: k.path(),
		query: url.Values{"accepts_incomplete": {"true"}}, body: body, user: k.User}, http.StatusOK)
}

func (k Change) add(body map[string]any) {
	if k.Parameters != nil {
		body["parameters"] = k.Parameters
	}
	if m := maintenance(k.Maintenance); m != nil {
		body["maintenance_info"] = m
	}
}

// Deprovision deletes an instance.
func (c *Client) Deprovision(ctx context.Context, b Broker, i Instance, user string) (*Answer, error) {
	q := i.query()
	q.Set("accepts_incomplete", "true")
	return c.change(ctx, b, call{method: http.MethodDelete, path: i.path(), query: q, user: user}, http.StatusOK)
}

// change sends a request that the broker performs or accepts.
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
	out := &Answer{Outcome: Done, Operation: said.Operation, Dashboard: webAddress(said.Dashboard),
		Metadata: said.Metadata, RetryAfter: r.retryAfter}
	if accepted {
		out.Outcome = Accepted
	}
	return out, nil
}

// webAddress returns a URL that may be shown as a link; otherwise "".
func webAddress(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return text
}

// Poll returns the state of an operation on an instance.
func (c *Client) Poll(ctx context.Context, b Broker, i Instance, operation, user string) (*Answer, error) {
	return c.poll(ctx, b, i.path()+"/last_operation", i, operation, user)
}

// PollBinding returns the state of an operation on a binding.
func (c *Client) PollBinding(ctx context.Context, b Broker, i Instance, binding, operation,
	user string) (*Answer, error) {
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
			e.Outcome = Unknown // the operation may still succeed
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
		return nil, &Error{Outcome: Refused, Status: r.status, Title: "ServiceBrokerRequestRejected",
			Message: orElse(out.Description, "The service broker reported a failure without a reason.")}
	default:
		return nil, r.garbage(b, fmt.Errorf("unknown state %q", clean(said.State)))
	}
	return out, nil
}

// FetchInstance returns the parameters of an instance.
func (c *Client) FetchInstance(ctx context.Context, b Broker, i Instance, user string) (map[string]any, error) {
	return c.fetchParameters(ctx, b, call{method: http.MethodGet, path: i.path(), query: i.query(), user: user})
}

// FetchBindingParameters returns the parameters of a binding.
func (c *Client) FetchBindingParameters(ctx context.Context, b Broker, i Instance, binding,
	user string) (map[string]any, error) {
	return c.fetchParameters(ctx, b, call{method: http.MethodGet, path: bindingPath(i, binding), query: i.query(),
		user: user})
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
