package api

import (
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/fault"
	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

// featureFlags are Cloud Foundry's feature flags with their defaults.
var featureFlags = map[string]bool{
	"user_org_creation": false, "private_domain_creation": true, "app_bits_upload": true, "app_scaling": true, "route_creation": true,
	"route_sharing": false, "service_instance_creation": true, flagDocker: false, "diego_cnb": false, "set_roles_by_username": true,
	"unset_roles_by_username": true, "task_creation": true, "env_var_visibility": true, "space_scoped_private_broker_creation": true,
	"space_developer_env_var_visibility": true, "service_instance_sharing": false, "hide_marketplace_from_unauthenticated_users": false,
	"resource_matching": true, flagHashRouting: false,
}

const (
	// flagHashRouting allows routes that are balanced by a header.
	flagHashRouting = "hash_based_routing"
	// flagDocker allows apps that are container images, also of administrators.
	flagDocker = "diego_docker"
)

func (a *API) flagRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/feature_flags", web.Scope(readers...), a.listFlags)
	g.Handle(http.MethodGet, "/v3/feature_flags/{name}", web.Scope(readers...), a.getFlag)
	g.Handle(http.MethodPatch, "/v3/feature_flags/{name}", web.Scope(scopeAdmin), a.setFlag)
}

// flagNamed returns a feature flag, with its default if it is not set.
func flagNamed(tx platform.Tx, name string) (platform.FeatureFlag, error) {
	if _, ok := featureFlags[name]; !ok {
		return platform.FeatureFlag{}, fault.New(fault.NotFound, "Feature flag not found")
	}
	set, err := tx.FeatureFlags()
	return flagIn(set, name), err
}

// flagIn returns a feature flag from those that are set, or its default.
func flagIn(set []platform.FeatureFlag, name string) platform.FeatureFlag {
	if i := slices.IndexFunc(set, func(f platform.FeatureFlag) bool { return f.Name == name }); i >= 0 {
		return set[i]
	}
	return platform.FeatureFlag{Name: name, Enabled: featureFlags[name]}
}

// flagOn reports whether a feature is enabled for callers that are not
// administrators.
func (a *API) flagOn(tx platform.Tx, name string) (bool, error) {
	f, err := flagNamed(tx, name)
	return f.Enabled, err
}

// needFlag returns an error if the feature is disabled.
func (a *API) needFlag(req *request, name string) error {
	if req.caller.Admin {
		return nil
	}
	return needEnabled(req.tx, name)
}

// needEnabled is like needFlag, for features that administrators cannot use either
// while they are disabled.
func needEnabled(tx platform.Tx, name string) error {
	f, err := flagNamed(tx, name)
	if err != nil || f.Enabled {
		return err
	}
	if f.CustomErrorMessage != "" {
		return fault.New(fault.FeatureDisabled, "Feature Disabled: %s", f.CustomErrorMessage)
	}
	return fault.New(fault.FeatureDisabled, "Feature Disabled: %s", name)
}

type flagBody struct {
	Name               string  `json:"name"`
	Enabled            bool    `json:"enabled"`
	Updated            *string `json:"updated_at"`
	CustomErrorMessage *string `json:"custom_error_message"`
	Links              links   `json:"links"`
}

func presentFlag(req *request, f platform.FeatureFlag) flagBody {
	b := flagBody{Name: f.Name, Enabled: f.Enabled, Links: links{"self": req.v3("/feature_flags/", f.Name)}}
	if !f.Updated.IsZero() {
		at := timestamp(f.Updated)
		b.Updated = &at
	}
	if f.CustomErrorMessage != "" {
		b.CustomErrorMessage = &f.CustomErrorMessage
	}
	return b
}

func (a *API) listFlags(w http.ResponseWriter, r *http.Request) error {
	l, err := listing.Params{Orders: []string{"name"}, NoLabels: true}.Parse(r, baseURL(r))
	if err != nil {
		return err
	}
	bodies := []flagBody{}
	err = a.store.View(r.Context(), func(tx platform.Tx) error {
		req := newRequest(tx, r)
		bodies = bodies[:0]
		set, err := tx.FeatureFlags()
		for name := range featureFlags {
			bodies = append(bodies, presentFlag(req, flagIn(set, name)))
		}
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(bodies, func(a, b flagBody) int { return strings.Compare(a.Name, b.Name) })
	if l.Query.Desc {
		slices.Reverse(bodies)
	}
	total := len(bodies)
	from := min((l.Query.Page-1)*l.Query.PerPage, total)
	l.Write(w, total, bodies[from:min(from+l.Query.PerPage, total)], nil)
	return nil
}

func (a *API) getFlag(w http.ResponseWriter, r *http.Request) error {
	return a.show(w, r, func(req *request) (any, error) {
		f, err := flagNamed(req.tx, web.Param(r, "name"))
		return presentFlag(req, f), err
	})
}

func (a *API) setFlag(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Enabled *bool            `json:"enabled"`
		Message optional[string] `json:"custom_error_message"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return a.perform(w, r, http.StatusOK, func(req *request) (any, error) {
		f, err := flagNamed(req.tx, web.Param(r, "name"))
		if err != nil {
			return nil, err
		}
		if body.Enabled != nil {
			f.Enabled = *body.Enabled
		}
		if body.Message.set {
			f.CustomErrorMessage = body.Message.value
		}
		err = a.platform.SetFeatureFlag(req.tx, &f)
		return presentFlag(req, f), err
	})
}
