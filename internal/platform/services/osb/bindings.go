package osb

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// BindChange is a request to create a binding.
type BindChange struct {
	Instance
	BindingID  string
	User       string
	Context    map[string]any
	Parameters map[string]any
	AppGUID    string // of app bindings
	SpaceGUID  string
	Route      string // address, of route bindings
	// Predecessor is the binding that the new one replaces; the broker takes its parameters.
	Predecessor string
}

// Binding is the response of a broker to a bind request.
type Binding struct {
	Answer
	Credentials     map[string]any
	SyslogDrainURL  string
	RouteServiceURL string
	VolumeMounts    []map[string]any
}

func bindingPath(i Instance, id string) string {
	return i.path() + "/service_bindings/" + url.PathEscape(id)
}

// Bind creates a binding.
func (c *Client) Bind(ctx context.Context, b Broker, k BindChange) (*Binding, error) {
	resource := map[string]any{}
	switch {
	case k.AppGUID != "":
		resource["app_guid"], resource["space_guid"] = k.AppGUID, k.SpaceGUID
	case k.Route != "":
		resource["route"] = k.Route
	default:
		resource["credential_client_id"] = "ingot"
	}
	body := map[string]any{"service_id": k.ServiceID, "plan_id": k.PlanID, "context": k.Context, "bind_resource": resource}
	if k.AppGUID != "" {
		body["app_guid"] = k.AppGUID
	}
	if k.Parameters != nil {
		body["parameters"] = k.Parameters
	}
	if k.Predecessor != "" {
		body["predecessor_binding_id"] = k.Predecessor
	}
	r, err := c.do(ctx, b, call{method: http.MethodPut, path: bindingPath(k.Instance, k.BindingID),
		query: url.Values{"accepts_incomplete": {"true"}}, body: body, user: k.User})
	if err != nil {
		return nil, err
	}
	if r.status == http.StatusAccepted {
		var said struct {
			Operation string `json:"operation"`
		}
		if err := decode(r.body, &said); err != nil {
			return nil, r.garbage(b, err)
		}
		return &Binding{Answer: Answer{Outcome: Accepted, Operation: said.Operation, RetryAfter: r.retryAfter}}, nil
	}
	if !slices.Contains([]int{http.StatusOK, http.StatusCreated}, r.status) {
		return nil, r.failure(b)
	}
	return r.binding(b)
}

// FetchBinding returns an existing binding.
func (c *Client) FetchBinding(ctx context.Context, b Broker, i Instance, id, user string) (*Binding, error) {
	r, err := c.do(ctx, b, call{method: http.MethodGet, path: bindingPath(i, id), query: i.query(), user: user})
	if err != nil {
		return nil, err
	}
	if r.status != http.StatusOK {
		return nil, r.failure(b)
	}
	return r.binding(b)
}

func (r *reply) binding(b Broker) (*Binding, error) {
	var said struct {
		Credentials     map[string]any   `json:"credentials"`
		SyslogDrainURL  string           `json:"syslog_drain_url"`
		RouteServiceURL string           `json:"route_service_url"`
		VolumeMounts    []map[string]any `json:"volume_mounts"`
	}
	if err := decode(r.body, &said); err != nil {
		return nil, r.garbage(b, err)
	}
	if u := said.RouteServiceURL; u != "" && !strings.HasPrefix(u, "https://") {
		return nil, r.garbage(b, errors.New("route_service_url is not an https URL"))
	}
	return &Binding{
		Answer: Answer{Outcome: Done}, Credentials: said.Credentials, SyslogDrainURL: said.SyslogDrainURL,
		RouteServiceURL: said.RouteServiceURL, VolumeMounts: said.VolumeMounts,
	}, nil
}

// Unbind deletes a binding.
func (c *Client) Unbind(ctx context.Context, b Broker, i Instance, id, user string) (*Answer, error) {
	q := i.query()
	q.Set("accepts_incomplete", "true")
	return c.change(ctx, b, call{method: http.MethodDelete, path: bindingPath(i, id), query: q, user: user}, http.StatusOK)
}
