package admin

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/actions/metering"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

var appUsageEvents = rest.Resource[platform.AppUsageEvent, appUsageBody]{
	Noun: "App usage event", Repo: platform.Tx.AppUsageEvents, Present: rest.Each(presentAppUsage),
	List: listing.Params{Extra: []string{"after_guid"}, NoLabels: true},
}

var serviceUsageEvents = rest.Resource[platform.ServiceUsageEvent, serviceUsageBody]{
	Noun: "Service usage event", Repo: platform.Tx.ServiceUsageEvents, Present: rest.Each(presentServiceUsage),
	List: listing.Params{
		Filters: listing.Filters{"service_instance_types": listing.Text("instance_type"),
			"service_offering_guids": listing.Text("offering_guid")},
		Extra: []string{"after_guid"}, NoLabels: true,
	},
}

func (a *API) usageEventRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/app_usage_events", rest.Read,
		appUsageEvents.ListerWhere(a.Server, afterEvent(appUsageEvents, "app")))
	g.Handle(http.MethodGet, "/v3/app_usage_events/{guid}", rest.Read,
		appUsageEvents.GetterBy(a.Server, globally(appUsageEvents)))
	g.Handle(http.MethodPost, "/v3/app_usage_events/actions/destructively_purge_all_and_reseed", rest.Admin,
		a.reseed(metering.ReseedApps))
	g.Handle(http.MethodGet, "/v3/service_usage_events", rest.Read,
		serviceUsageEvents.ListerWhere(a.Server, afterEvent(serviceUsageEvents, "service")))
	g.Handle(http.MethodGet, "/v3/service_usage_events/{guid}", rest.Read,
		serviceUsageEvents.GetterBy(a.Server, globally(serviceUsageEvents)))
	g.Handle(http.MethodPost, "/v3/service_usage_events/actions/destructively_purge_all_and_reseed", rest.Admin,
		a.reseed(metering.ReseedServices))
}

// afterEvent selects the events after that of after_guid. Only callers who may read
// everything see events.
func afterEvent[T, B any](s rest.Resource[T, B], kind string) func(*rest.Request) ([]platform.Cond, error) {
	return func(req *rest.Request) ([]platform.Cond, error) {
		if req.Caller.Reader() != nil {
			return []platform.Cond{platform.In("guid")}, nil
		}
		asked := req.HTTP.URL.Query()
		if !asked.Has("after_guid") {
			return nil, nil
		}
		last, err := s.Repo(req.Tx).Get(asked.Get("after_guid"))
		if fault.Is(err, fault.NotFound) {
			return nil, fault.New(fault.Unprocessable, "After guid filter must be a valid %s usage event guid.", kind)
		}
		if err != nil {
			return nil, err
		}
		created := any(last).(interface{ Base() *platform.Resource }).Base().Created
		return []platform.Cond{{Field: "created_at", Op: platform.OpGreater, Values: []any{created}}}, nil
	}
}

// globally finds an event for callers who may read everything.
func globally[T, B any](s rest.Resource[T, B]) func(*rest.Request) (*T, error) {
	return func(req *rest.Request) (*T, error) {
		if req.Caller.Reader() != nil {
			return nil, fault.New(fault.NotFound, "%s not found", s.Noun)
		}
		return s.Find(req)
	}
}

func (a *API) reseed(seed func(platform.Tx) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
			return struct{}{}, seed(req.Tx)
		})
	}
}

// eventPart is something that a usage event is about; what it has no part in is null.
type eventPart struct {
	GUID *string `json:"guid"`
	Name *string `json:"name"`
}

func part(guid, name string) eventPart { return eventPart{rest.OrNull(guid), rest.OrNull(name)} }

// eventChange is a value before and after an event; what did not exist before is null.
type eventChange[T any] struct {
	Current  T  `json:"current"`
	Previous *T `json:"previous"`
}

func change[T any](now, before T, existed bool) eventChange[T] {
	if !existed {
		return eventChange[T]{Current: now}
	}
	return eventChange[T]{now, &before}
}

type appUsageBody struct {
	rest.ResourceBody
	State   eventChange[string] `json:"state"`
	App     eventPart           `json:"app"`
	Process struct {
		GUID *string `json:"guid"`
		Type *string `json:"type"`
	} `json:"process"`
	Space        eventPart         `json:"space"`
	Organization rest.RelationData `json:"organization"`
	Buildpack    eventPart         `json:"buildpack"`
	Task         eventPart         `json:"task"`
	MemoryMB     eventChange[int]  `json:"memory_in_mb_per_instance"`
	Instances    eventChange[int]  `json:"instance_count"`
	Links        rest.Links        `json:"links"`
}

func presentAppUsage(req *rest.Request, e *platform.AppUsageEvent) appUsageBody {
	existed := e.Previous != ""
	b := appUsageBody{
		ResourceBody: rest.PresentResource(&e.Resource), State: change(string(e.State), e.Previous, existed),
		App: part(e.AppGUID, e.AppName), Space: part(e.SpaceGUID, e.SpaceName),
		Organization: rest.RelationData{GUID: e.OrgGUID},
		Buildpack:    part(e.BuildpackGUID, e.BuildpackName), Task: part(e.TaskGUID, e.TaskName),
		MemoryMB:  change(e.MemoryMB, e.PreviousMemoryMB, existed),
		Instances: change(e.Instances, e.PreviousInstances, existed),
		Links:     rest.Links{"self": req.Link("/app_usage_events/", rest.Escape(e.GUID))},
	}
	b.Process.GUID, b.Process.Type = rest.OrNull(e.ProcessGUID), rest.OrNull(e.ProcessType)
	return b
}

type serviceUsageBody struct {
	rest.ResourceBody
	State        string            `json:"state"`
	Space        eventPart         `json:"space"`
	Organization rest.RelationData `json:"organization"`
	Instance     struct {
		eventPart
		Type string `json:"type"`
	} `json:"service_instance"`
	Plan     eventPart  `json:"service_plan"`
	Offering eventPart  `json:"service_offering"`
	Broker   eventPart  `json:"service_broker"`
	Links    rest.Links `json:"links"`
}

func presentServiceUsage(req *rest.Request, e *platform.ServiceUsageEvent) serviceUsageBody {
	b := serviceUsageBody{
		ResourceBody: rest.PresentResource(&e.Resource), State: string(e.State), Space: part(e.SpaceGUID, e.SpaceName),
		Organization: rest.RelationData{GUID: e.OrgGUID},
		Plan:         part(e.PlanGUID, e.PlanName), Offering: part(e.OfferingGUID, e.OfferingName),
		Broker: part(e.BrokerGUID, e.BrokerName),
		Links:  rest.Links{"self": req.Link("/service_usage_events/", rest.Escape(e.GUID))},
	}
	b.Instance.eventPart, b.Instance.Type = part(e.InstanceGUID, e.InstanceName), e.InstanceType
	return b
}
