package api

import (
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
)

func (a *API) flagRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/feature_flags", web.Scope(readers...), a.listFlags)
	g.Handle(http.MethodGet, "/v3/feature_flags/{name}", web.Scope(readers...), a.getFlag)
	g.Handle(http.MethodPatch, "/v3/feature_flags/{name}", web.Scope(scopeAdmin), a.setFlag)
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
