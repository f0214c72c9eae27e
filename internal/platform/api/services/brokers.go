package services

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
	"ingot/internal/platform/services"
)

var serviceBrokers = rest.Resource[platform.ServiceBroker, brokerBody]{
	Noun: "Service broker", Repo: platform.Tx.ServiceBrokers, Present: rest.Each(presentBroker),
	List: listing.Params{Filters: listing.Filters{"names": listing.Text("name"),
		"space_guids": listing.Text("space_guid")}, Orders: []string{"name"}},
}

func (a *API) brokerRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/service_brokers", rest.Read, serviceBrokers.Lister(a.Server))
	g.Handle(http.MethodPost, "/v3/service_brokers", rest.Write, a.createBroker)
	g.Handle(http.MethodGet, "/v3/service_brokers/{guid}", rest.Read, serviceBrokers.Getter(a.Server))
	g.Handle(http.MethodPatch, "/v3/service_brokers/{guid}", rest.Write, a.updateBroker)
	g.Handle(http.MethodDelete, "/v3/service_brokers/{guid}", rest.Write,
		rest.JobDeleter(a.Server, "service_broker.delete", a.brokerFor, a.Services.DeleteBroker))
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
		Space rest.Relation `json:"space"`
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
	body, err := rest.Body[brokerRequest](r)
	if err != nil {
		return err
	}
	if body.Name == nil || body.URL == nil || body.Authentication == nil {
		return fault.Invalid("Name, url and authentication must be given")
	}
	c, err := body.change()
	if err != nil {
		return err
	}
	return a.Conclude(w, r, "", func(req *rest.Request) (*platform.Job, error) {
		b := &platform.ServiceBroker{Name: *body.Name, URL: *body.URL, Username: *c.Username, Password: *c.Password}
		if body.Relationships != nil && body.Relationships.Space.Data != nil {
			b.SpaceGUID = body.Relationships.Space.Data.GUID
			if _, err := rest.Find(req.Caller, req.Tx.Spaces(), b.SpaceGUID, "Space"); err != nil {
				return nil, rest.NotAccessible(err, "Invalid space. Ensure that the space exists and you have access to it.")
			}
			if err := req.NeedFlag("space_scoped_private_broker_creation"); err != nil {
				return nil, err
			}
		}
		if err := mayChangeCatalog(req, b); err != nil {
			return nil, err
		}
		if err := body.Metadata.Apply(&b.Metadata); err != nil {
			return nil, err
		}
		return a.Services.CreateBroker(req.Tx, req.Caller.Actor(), b)
	})
}

// brokerFor returns the broker of the path if the caller may change it.
func (a *API) brokerFor(req *rest.Request) (*platform.ServiceBroker, error) {
	b, err := serviceBrokers.Find(req)
	if err != nil {
		return nil, err
	}
	return b, mayChangeCatalog(req, b)
}

func (a *API) updateBroker(w http.ResponseWriter, r *http.Request) error {
	body, err := rest.Body[brokerRequest](r)
	if err != nil {
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
		return rest.Answer(a.Server, w, r, serviceBrokers, http.StatusOK,
			func(req *rest.Request) (*platform.ServiceBroker, error) {
				b, err := a.brokerFor(req)
				if err != nil {
					return nil, err
				}
				return b, a.Services.UpdateBrokerMetadata(req.Tx, req.Caller.Actor(), b, body.Metadata)
			})
	}
	return a.Conclude(w, r, "", func(req *rest.Request) (*platform.Job, error) {
		b, err := a.brokerFor(req)
		if err != nil {
			return nil, err
		}
		if err := body.Metadata.Apply(&b.Metadata); err != nil {
			return nil, err
		}
		return a.Services.UpdateBroker(req.Tx, req.Caller.Actor(), b, c)
	})
}

type brokerBody struct {
	rest.ResourceBody
	Name          string         `json:"name"`
	URL           string         `json:"url"`
	Relationships map[string]any `json:"relationships"`
	Metadata      rest.Metadata  `json:"metadata"`
	Links         rest.Links     `json:"links"`
}

func presentBroker(req *rest.Request, b *platform.ServiceBroker) brokerBody {
	out := brokerBody{
		ResourceBody: rest.PresentResource(&b.Resource), Name: b.Name, URL: b.URL, Relationships: map[string]any{},
		Metadata: rest.PresentMetadata(&b.Metadata),
		Links: rest.Links{
			"self":              req.Link("/service_brokers/", rest.Escape(b.GUID)),
			"service_offerings": req.Link("/service_offerings?service_broker_guids=", rest.Escape(b.GUID)),
		},
	}
	if b.SpaceGUID != "" {
		out.Relationships["space"] = rest.ToOne(b.SpaceGUID)
		out.Links["space"] = req.Link("/spaces/", rest.Escape(b.SpaceGUID))
	}
	return out
}
