package services

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/cfapi"
	"ingot/internal/base/web"
	"ingot/internal/console/apps"
	"ingot/internal/console/page"
)

type appServicesData struct {
	Bound      []appService
	Unbound    []Row // of the space
	MayDevelop bool
	Bind       string
	Changed    bool // a service was bound or unbound just now, and the app runs
}

type appService struct {
	binding
	Service Row
}

// appServices is GET /console/apps/GUID/services.
func (c pages) appServices(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	return apps.ShowTab(c.Console, w, r, s, "services", func(r *http.Request, call *page.Caller,
		d *apps.Data) (any, error) {
		said := r.URL.Query().Get("said")
		data := &appServicesData{Bind: page.Command("cf", "bind-service", d.App.Name, "SERVICE")}
		data.Changed = d.App.Started() && (said == "bound" || said == "unbound")
		var bound []binding
		var in []Row
		err := page.Together(
			func() (err error) {
				bound, err = bindingsOf(call, url.Values{"app_guids": {d.App.GUID}, "type": {"app"}})
				return err
			},
			func() (err error) {
				in, err = instancesOf(call, url.Values{"space_guids": {d.SpaceGUID}})
				return err
			},
			func() error { return d.LoadChanged(call) },
			func() (err error) { data.MayDevelop, err = mayDevelop(call, d.SpaceGUID); return err },
		)
		if err != nil {
			return nil, err
		}
		for _, row := range in {
			of := slices.IndexFunc(bound, func(b binding) bool { return b.Relationships.Instance.GUID() == row.GUID })
			if of < 0 {
				data.Unbound = append(data.Unbound, row)
				continue
			}
			b := bound[of]
			b.Command = page.Command("cf", "unbind-service", d.App.Name, row.Name)
			data.Bound = append(data.Bound, appService{b, row})
		}
		return data, nil
	})
}

// bindToApp is POST /console/apps/GUID/services/bind, with the fields service, a guid, and name.
func (c pages) bindToApp(w http.ResponseWriter, r *http.Request, s *page.Session) error {
	guid := web.Param(r, "guid")
	body := map[string]any{"type": "app", "relationships": map[string]any{"app": cfapi.Relate(guid),
		"service_instance": cfapi.Relate(r.PostForm.Get("service"))}}
	if name := strings.TrimSpace(r.PostForm.Get("name")); name != "" {
		body["name"] = name
	}
	if err := c.Platform(r, s).Do(http.MethodPost, "/v3/service_credential_bindings", body, nil); err != nil {
		return err
	}
	return page.GoTo(w, r, "/apps/"+url.PathEscape(guid)+"/services", "bound")
}
