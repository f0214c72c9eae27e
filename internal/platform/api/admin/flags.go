package admin

import (
	"net/http"
	"slices"
	"strings"

	"ingot/internal/base/web"
	"ingot/internal/platform"
	"ingot/internal/platform/api/listing"
	"ingot/internal/platform/api/rest"
)

func (a *API) flagRoutes(g *web.Group) {
	g.Handle(http.MethodGet, "/v3/feature_flags", rest.Read, a.listFlags)
	g.Handle(http.MethodGet, "/v3/feature_flags/{name}", rest.Read, a.getFlag)
	g.Handle(http.MethodPatch, "/v3/feature_flags/{name}", rest.Admin, a.setFlag)
}

type flagBody struct {
	Name               string     `json:"name"`
	Enabled            bool       `json:"enabled"`
	Updated            *string    `json:"updated_at"`
	CustomErrorMessage *string    `json:"custom_error_message"`
	Links              rest.Links `json:"links"`
}

func presentFlag(req *rest.Request, f platform.FeatureFlag) flagBody {
	b := flagBody{Name: f.Name, Enabled: f.Enabled, Links: rest.Links{"self": req.Link("/feature_flags/", f.Name)}}
	if !f.Updated.IsZero() {
		at := rest.Timestamp(f.Updated)
		b.Updated = &at
	}
	if f.CustomErrorMessage != "" {
		b.CustomErrorMessage = &f.CustomErrorMessage
	}
	return b
}

func (a *API) listFlags(w http.ResponseWriter, r *http.Request) error {
	l, err := listing.Params{Orders: []string{"name"}, NoLabels: true}.Parse(r, rest.BaseURL(r))
	if err != nil {
		return err
	}
	bodies := []flagBody{}
	err = a.Store.View(r.Context(), func(tx platform.Tx) error {
		req := rest.NewRequest(tx, r)
		bodies = bodies[:0]
		all, err := rest.Flags(tx)
		for _, f := range all {
			bodies = append(bodies, presentFlag(req, f))
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
	return a.Show(w, r, func(req *rest.Request) (any, error) {
		f, err := rest.Flag(req.Tx, web.Param(r, "name"))
		return presentFlag(req, f), err
	})
}

func (a *API) setFlag(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Enabled *bool                 `json:"enabled"`
		Message rest.Optional[string] `json:"custom_error_message"`
	}
	if err := web.DecodeStrict(r, &body); err != nil {
		return err
	}
	return a.Perform(w, r, http.StatusOK, func(req *rest.Request) (any, error) {
		f, err := rest.Flag(req.Tx, web.Param(r, "name"))
		if err != nil {
			return nil, err
		}
		if body.Enabled != nil {
			f.Enabled = *body.Enabled
		}
		if body.Message.Set {
			f.CustomErrorMessage = body.Message.Value
		}
		err = a.Platform.SetFeatureFlag(req.Tx, &f)
		return presentFlag(req, f), err
	})
}
