package admin

import (
	"net/http"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var auditEvents = rest.Resource[platform.AuditEvent, eventBody]{
	Noun: "Event", Repo: platform.Tx.AuditEvents, Present: rest.Each(presentEvent),
	List: listing.Params{
		Filters: listing.Filters{
			"types": listing.Text("type"), "target_guids": listing.Text("target_guid"),
			"space_guids": listing.Text("space_guid"), "organization_guids": listing.Text("organization_guid"),
		},
		NoLabels: true,
	},
}

func (a *API) eventRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/audit_events", rest.Read, auditEvents.Lister(a.Server))
	g.Handle(http.MethodGet, "/v3/audit_events/{guid}", rest.Read, auditEvents.Getter(a.Server))
}

type eventBody struct {
	rest.ResourceBody
	Type         string             `json:"type"`
	Actor        eventParty         `json:"actor"`
	Target       eventParty         `json:"target"`
	Data         map[string]any     `json:"data"`
	Space        *rest.RelationData `json:"space"`
	Organization *rest.RelationData `json:"organization"`
	Links        rest.Links         `json:"links"`
}

type eventParty struct {
	GUID string `json:"guid"`
	Type string `json:"type"`
	Name string `json:"name"`
}

func presentEvent(req *rest.Request, e *platform.AuditEvent) eventBody {
	data := e.Data
	if data == nil {
		data = map[string]any{}
	}
	return eventBody{
		ResourceBody: rest.PresentResource(&e.Resource), Type: e.Type, Actor: eventParty{e.ActorGUID, e.ActorType,
			e.ActorName},
		Target: eventParty{e.TargetGUID, e.TargetType, e.TargetName}, Data: data,
		Space: rest.ToOne(e.SpaceGUID).Data, Organization: rest.ToOne(e.OrgGUID).Data,
		Links: rest.Links{"self": req.Link("/audit_events/", rest.Escape(e.GUID))},
	}
}
