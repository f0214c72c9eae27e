package api

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/services"
)

var serviceBrokers = resource[platform.ServiceBroker, brokerBody]{
	noun: "Service broker", repo: platform.Tx.ServiceBrokers, present: each(presentBroker),
	list: listing.Params{Filters: listing.Filters{"names": listing.Text("name"), "space_guids": listing.Text("space_guid")}, Orders: []string{"name"}},
}

func (a *API) serviceBrokerRoutes(g *web.Group) {
	read, write := web.Scope(readers...), web.Scope(writers...)
	g.Handle(http.MethodGet, "/v3/service_brokers", read, serviceBrokers.lister(a))
	g.Handle(http.MethodPost, "/v3/service_brokers", write, a.createBroker)
	g.Handle(http.MethodGet, "/v3/service_brokers/{guid}", read, serviceBrokers.getter(a))
	g.Handle(http.MethodPatch, "/v3/service_brokers/{guid}", write, a.updateBroker)
	g.Handle(http.MethodDelete, "/v3/service_brokers/{guid}", write, a.deleteBroker)
}

type brokerRequest struct {
	Name           *string                `json:"name"`
	URL            *string                `json:"url"`
	Metadata       *actions.MetadataPatch `json:"metadata"`
	Authentication *struct {
		Type        string `json:"type"`
		Credentials struct {
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"credentials"`
	} `json:"authentication"`
	Relationships *struct {
		Space relation `json:"space"`
	} `json:"relationships"`
}

func (b *brokerRequest) change() (services.BrokerChange, error) {
	c := services.BrokerChange{Name: b.Name, URL: b.URL}
	if auth := b.Authentication; auth != nil {
		if auth.Type != "basic" {
			return c, fault.Invalid("Authentication type must be 'basic'")
		}
		c.Username, c.Password = &auth.Credentials.Username, &auth.Credentials.Password
	}
	return c, nil
}

func (a *API) createBroker(w http.ResponseWriter, r *http.Request) error {
	var body brokerRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Name == nil || body.URL == nil || body.Authentication == nil {
		return fault.Invalid("Name, url and authentication must be given")
	}
	c, err := body.change()
	if err != nil {
		return err
	}
	return a.conclude(w, r, "", func(req *request) (*platform.Job, error) {
		b := &platform.ServiceBroker{Name: *body.Name, URL: *body.URL, Username: *c.Username, Password: *c.Password}
		if body.Relationships != nil && body.Relationships.Space.Data != nil {
			b.SpaceGUID = body.Relationships.Space.Data.GUID
			if _, err := find(req.caller, req.tx.Spaces(), b.SpaceGUID, "Space"); err != nil {
				return nil, notAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
			}
			if err := req.needFlag("space_scoped_private_broker_creation"); err != nil {
				return nil, err
			}
		}
		if err := mayChangeCatalog(req, b); err != nil {
			return nil, err
		}
		if err := body.Metadata.Apply(&b.Metadata); err != nil {
			return nil, err
		}
		return a.services.CreateBroker(req.tx, req.caller.actor(), b)
	})
}

// brokerFor returns the broker of the path if the caller may change it.
func (a *API) brokerFor(req *request) (*platform.ServiceBroker, error) {
	b, err := find(req.caller, req.tx.ServiceBrokers(), web.Param(req.r, "guid"), "Service broker")
	if err != nil {
		return nil, err
	}
	return b, mayChangeCatalog(req, b)
}

func (a *API) updateBroker(w http.ResponseWriter, r *http.Request) error {
	var body brokerRequest
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	if body.Relationships != nil {
		return fault.Invalid("Unknown field(s): 'relationships'")
	}
	c, err := body.change()
	if err != nil {
		return err
	}
	if c == (services.BrokerChange{}) {
		return answer(a, w, r, serviceBrokers, http.StatusOK, func(req *request) (*platform.ServiceBroker, error) {
			b, err := a.brokerFor(req)
			if err != nil {
				return nil, err
			}
			return b, a.services.UpdateBrokerMetadata(req.tx, req.caller.actor(), b, body.Metadata)
		})
	}
	return a.conclude(w, r, "", func(req *request) (*platform.Job, error) {
		b, err := a.brokerFor(req)
		if err != nil {
			return nil, err
		}
		if err := body.Metadata.Apply(&b.Metadata); err != nil {
			return nil, err
		}
		return a.services.UpdateBroker(req.tx, req.caller.actor(), b, c)
	})
}

func (a *API) deleteBroker(w http.ResponseWriter, r *http.Request) error {
	return a.conclude(w, r, "service_broker.delete", func(req *request) (*platform.Job, error) {
		b, err := a.brokerFor(req)
		if err != nil {
			return nil, err
		}
		return a.services.DeleteBroker(req.tx, req.caller.actor(), b)
	})
}

type brokerBody struct {
	resourceBody
	Name          string         `json:"name"`
	URL           string         `json:"url"`
	Relationships map[string]any `json:"relationships"`
	Metadata      metadata       `json:"metadata"`
	Links         links          `json:"links"`
}

func presentBroker(req *request, b *platform.ServiceBroker) brokerBody {
	out := brokerBody{
		resourceBody: presentResource(&b.Resource), Name: b.Name, URL: b.URL, Relationships: map[string]any{}, Metadata: presentMetadata(&b.Metadata),
		Links: links{
			"self":              req.v3("/service_brokers/", escape(b.GUID)),
			"service_offerings": req.v3("/service_offerings?service_broker_guids=", escape(b.GUID)),
		},
	}
	if b.SpaceGUID != "" {
		out.Relationships["space"] = toOne(b.SpaceGUID)
		out.Links["space"] = req.v3("/spaces/", escape(b.SpaceGUID))
	}
	return out
}
