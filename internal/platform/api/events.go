package api

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

var auditEvents = resource[platform.AuditEvent, eventBody]{
	noun: "Event", repo: platform.Tx.AuditEvents, present: each(presentEvent),
	list: listing.Params{
		Filters: listing.Filters{
			"types": listing.Text("type"), "target_guids": listing.Text("target_guid"), "space_guids": listing.Text("space_guid"), "organization_guids": listing.Text("organization_guid"),
		},
		NoLabels: true,
	},
}

func (a *API) eventRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/audit_events", web.Scope(readers...), auditEvents.lister(a))
	g.Handle(http.MethodGet, "/v3/audit_events/{guid}", web.Scope(readers...), auditEvents.getter(a))
}

type eventBody struct {
	resourceBody
	Type         string         `json:"type"`
	Actor        eventParty     `json:"actor"`
	Target       eventParty     `json:"target"`
	Data         map[string]any `json:"data"`
	Space        *relationData  `json:"space"`
	Organization *relationData  `json:"organization"`
	Links        links          `json:"links"`
}

type eventParty struct {
	GUID string `json:"guid"`
	Type string `json:"type"`
	Name string `json:"name"`
}

func presentEvent(req *request, e *platform.AuditEvent) eventBody {
	data := e.Data
	if data == nil {
		data = map[string]any{}
	}
	return eventBody{
		resourceBody: presentResource(&e.Resource), Type: e.Type, Actor: eventParty{e.ActorGUID, e.ActorType, e.ActorName},
		Target: eventParty{e.TargetGUID, e.TargetType, e.TargetName}, Data: data,
		Space: toOne(e.SpaceGUID).Data, Organization: toOne(e.OrgGUID).Data, Links: links{"self": req.v3("/audit_events/", escape(e.GUID))},
	}
}
