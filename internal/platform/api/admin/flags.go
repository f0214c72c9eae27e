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
	g.Handle(http.MethodGet, "/v3/feature_flags/{name}", rest.Read, rest.Viewer(a.Server, flag, getFlag))
	g.Handle(http.MethodPatch, "/v3/feature_flags/{name}", rest.Admin, rest.Changer(a.Server, rest.Body, flag, a.setFlag))
}

type flagBody struct {
	Name               string     `json:"name"`
	Enabled            bool       `json:"enabled"`
	Updated            *string    `json:"updated_at"`
	CustomErrorMessage *string    `json:"custom_error_message"`
	Links              rest.Links `json:"links"`
}

func presentFlag(req *rest.Request, f *platform.FeatureFlag) flagBody {
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
	bodies, err := rest.View(a.Server, r, func(req *rest.Request) ([]flagBody, error) {
		all, err := rest.Flags(req.Tx)
		bodies := make([]flagBody, 0, len(all))
		for _, f := range all {
			bodies = append(bodies, presentFlag(req, &f))
		}
		return bodies, err
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

// flag returns the feature flag of the path.
func flag(req *rest.Request) (*platform.FeatureFlag, error) {
	f, err := rest.Flag(req.Tx, req.Param("name"))
	return &f, err
}

func getFlag(req *rest.Request, f *platform.FeatureFlag) (any, error) {
	return presentFlag(req, f), nil
}

type flagRequest struct {
	Enabled *bool                 `json:"enabled"`
	Message rest.Optional[string] `json:"custom_error_message"`
}

func (a *API) setFlag(req *rest.Request, f *platform.FeatureFlag, body *flagRequest) (any, error) {
	web.Set(&f.Enabled, body.Enabled)
	body.Message.Into(&f.CustomErrorMessage)
	err := a.Platform.SetFeatureFlag(req.Tx, f)
	return presentFlag(req, f), err
}
