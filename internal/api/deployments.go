package api

import (
	"net/http"

	"ingot/internal/cf"
	"ingot/internal/web"
)

var deployments = resource[cf.Deployment, deploymentBody]{
	noun: "Deployment", repo: cf.Tx.Deployments, present: each(presentDeployment),
	list: listing{filters: map[string]filter{
		"app_guids": byText("app_guid"), "states": byText("status"), "status_values": byText("status"), "status_reasons": byText("reason"),
	}},
}

func (a *API) deploymentRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/deployments", web.Scope(readers...), deployments.lister(a))
	g.Handle(http.MethodGet, "/v3/deployments/{guid}", web.Scope(readers...), deployments.getter(a))
}

type deploymentBody struct {
	resourceBody
	Status        map[string]any `json:"status"`
	Strategy      string         `json:"strategy"`
	Options       map[string]any `json:"options"`
	Droplet       *relationData  `json:"droplet"`
	Previous      *relationData  `json:"previous_droplet"`
	NewProcesses  []any          `json:"new_processes"`
	Revision      any            `json:"revision"`
	Relationships map[string]any `json:"relationships"`
	Metadata      metadata       `json:"metadata"`
	Links         links          `json:"links"`
}

func presentDeployment(p *presenter, d *cf.Deployment) deploymentBody {
	return deploymentBody{
		resourceBody: presentResource(&d.Resource), Strategy: d.Strategy,
		Status: map[string]any{"value": d.Status, "reason": d.Reason, "details": map[string]any{
			"last_successful_healthcheck": timestamp(d.LastChange), "last_status_change": timestamp(d.LastChange),
		}},
		Options: map[string]any{"max_in_flight": d.MaxInFlight}, Droplet: toOne(d.DropletGUID).Data, Previous: toOne(d.PreviousDropletGUID).Data,
		NewProcesses: []any{}, Relationships: map[string]any{"app": toOne(d.AppGUID)}, Metadata: presentMetadata(&d.Metadata),
		Links: links{"self": p.v3("/deployments/", escape(d.GUID)), "app": p.v3("/apps/", escape(d.AppGUID))},
	}
}
