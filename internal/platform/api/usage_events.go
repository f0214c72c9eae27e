package api

import (
	"net/http"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

var appUsageEvents = resource[platform.AppUsageEvent, appUsageBody]{
	noun: "App usage event", repo: platform.Tx.AppUsageEvents, present: each(presentAppUsage),
	list: listing.Params{Extra: []string{"after_guid"}, NoLabels: true},
}

var serviceUsageEvents = resource[platform.ServiceUsageEvent, serviceUsageBody]{
	noun: "Service usage event", repo: platform.Tx.ServiceUsageEvents, present: each(presentServiceUsage),
	list: listing.Params{
		Filters: listing.Filters{"service_instance_types": listing.Text("instance_type"), "service_offering_guids": listing.Text("offering_guid")},
		Extra:   []string{"after_guid"}, NoLabels: true,
	},
}

func (a *API) usageEventRoutes(g *web.Group) {
	read, admin := web.Scope(readers...), web.Scope(scopeAdmin)
	g.Handle(http.MethodGet, "/v3/app_usage_events", read, appUsageEvents.listerWhere(a, afterEvent(appUsageEvents, "app")))
	g.Handle(http.MethodGet, "/v3/app_usage_events/{guid}", read, appUsageEvents.getterBy(a, globally(appUsageEvents)))
	g.Handle(http.MethodPost, "/v3/app_usage_events/actions/destructively_purge_all_and_reseed", admin, a.reseed(a.platform.ReseedAppUsage))
	g.Handle(http.MethodGet, "/v3/service_usage_events", read, serviceUsageEvents.listerWhere(a, afterEvent(serviceUsageEvents, "service")))
	g.Handle(http.MethodGet, "/v3/service_usage_events/{guid}", read, serviceUsageEvents.getterBy(a, globally(serviceUsageEvents)))
	g.Handle(http.MethodPost, "/v3/service_usage_events/actions/destructively_purge_all_and_reseed", admin, a.reseed(a.platform.ReseedServiceUsage))
}

// afterEvent selects the events after that of after_guid. Only callers who may read
// everything see events.
func afterEvent[T, B any](s resource[T, B], kind string) func(*request) ([]platform.Cond, error) {
	return func(req *request) ([]platform.Cond, error) {
		if req.caller.Reader() != nil {
			return []platform.Cond{platform.In("guid")}, nil
		}
		asked := req.r.URL.Query()
		if !asked.Has("after_guid") {
			return nil, nil
		}
		last, err := s.repo(req.tx).Get(asked.Get("after_guid"))
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
func globally[T, B any](s resource[T, B]) func(*request) (*T, error) {
	return func(req *request) (*T, error) {
		if req.caller.Reader() != nil {
			return nil, fault.New(fault.NotFound, "%s not found", s.noun)
		}
		return s.find(req)
	}
}

func (a *API) reseed(seed func(platform.Tx) error) web.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
			return struct{}{}, seed(req.tx)
		})
	}
}

// eventPart is something that a usage event is about; what it has no part in is null.
type eventPart struct {
	GUID *string `json:"guid"`
	Name *string `json:"name"`
}

func part(guid, name string) eventPart { return eventPart{orNull(guid), orNull(name)} }

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
	resourceBody
	State   eventChange[string] `json:"state"`
	App     eventPart           `json:"app"`
	Process struct {
		GUID *string `json:"guid"`
		Type *string `json:"type"`
	} `json:"process"`
	Space        eventPart        `json:"space"`
	Organization relationData     `json:"organization"`
	Buildpack    eventPart        `json:"buildpack"`
	Task         eventPart        `json:"task"`
	MemoryMB     eventChange[int] `json:"memory_in_mb_per_instance"`
	Instances    eventChange[int] `json:"instance_count"`
	Links        links            `json:"links"`
}

func presentAppUsage(req *request, e *platform.AppUsageEvent) appUsageBody {
	existed := e.Previous != ""
	b := appUsageBody{
		resourceBody: presentResource(&e.Resource), State: change(string(e.State), e.Previous, existed),
		App: part(e.AppGUID, e.AppName), Space: part(e.SpaceGUID, e.SpaceName), Organization: relationData{e.OrgGUID},
		Buildpack: part(e.BuildpackGUID, e.BuildpackName), Task: part(e.TaskGUID, e.TaskName),
		MemoryMB: change(e.MemoryMB, e.PreviousMemoryMB, existed), Instances: change(e.Instances, e.PreviousInstances, existed),
		Links: links{"self": req.v3("/app_usage_events/", escape(e.GUID))},
	}
	b.Process.GUID, b.Process.Type = orNull(e.ProcessGUID), orNull(e.ProcessType)
	return b
}

type serviceUsageBody struct {
	resourceBody
	State        string       `json:"state"`
	Space        eventPart    `json:"space"`
	Organization relationData `json:"organization"`
	Instance     struct {
		eventPart
		Type string `json:"type"`
	} `json:"service_instance"`
	Plan     eventPart `json:"service_plan"`
	Offering eventPart `json:"service_offering"`
	Broker   eventPart `json:"service_broker"`
	Links    links     `json:"links"`
}

func presentServiceUsage(req *request, e *platform.ServiceUsageEvent) serviceUsageBody {
	b := serviceUsageBody{
		resourceBody: presentResource(&e.Resource), State: string(e.State), Space: part(e.SpaceGUID, e.SpaceName), Organization: relationData{e.OrgGUID},
		Plan: part(e.PlanGUID, e.PlanName), Offering: part(e.OfferingGUID, e.OfferingName), Broker: part(e.BrokerGUID, e.BrokerName),
		Links: links{"self": req.v3("/service_usage_events/", escape(e.GUID))},
	}
	b.Instance.eventPart, b.Instance.Type = part(e.InstanceGUID, e.InstanceName), e.InstanceType
	return b
}
