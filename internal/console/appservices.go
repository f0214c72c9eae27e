package console

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"ingot/internal/base/web"
)

type appServicesData struct {
	Bound      []appService
	Unbound    []serviceRow // of the space
	MayDevelop bool
	Bind       string
}

type appService struct {
	binding
	Service serviceRow
}

// appServices is GET /console/apps/GUID/services.
func (c *Console) appServices(w http.ResponseWriter, r *http.Request, s *Session) error {
	return c.appTab(w, r, s, "services", func(_ *http.Request, call *caller, d *appData) (any, error) {
		data := &appServicesData{Bind: command("cf", "bind-service", d.App.Name, "SERVICE")}
		var bound []binding
		var in []serviceRow
		err := together(
			func() (err error) {
				bound, err = call.bindings(url.Values{"app_guids": {d.App.GUID}, "type": {"app"}})
				return err
			},
			func() (err error) {
				in, err = call.instancesOf(url.Values{"space_guids": {d.SpaceGUID}})
				return err
			},
			func() (err error) { data.MayDevelop, err = call.mayDevelop(d.SpaceGUID); return err },
		)
		if err != nil {
			return nil, err
		}
		for _, row := range in {
			of := slices.IndexFunc(bound, func(b binding) bool { return b.Relationships.Instance.Data.GUID == row.GUID })
			if of < 0 {
				data.Unbound = append(data.Unbound, row)
				continue
			}
			b := bound[of]
			b.Command = command("cf", "unbind-service", d.App.Name, row.Name)
			data.Bound = append(data.Bound, appService{b, row})
		}
		return data, nil
	})
}

// bindToApp is POST /console/apps/GUID/services/bind, with the fields service, a guid, and name.
func (c *Console) bindToApp(w http.ResponseWriter, r *http.Request, s *Session) error {
	guid := web.Param(r, "guid")
	body := map[string]any{"type": "app", "relationships": map[string]any{"app": related(guid), "service_instance": related(r.PostForm.Get("service"))}}
	if name := strings.TrimSpace(r.PostForm.Get("name")); name != "" {
		body["name"] = name
	}
	if err := c.platform(r, s).do(http.MethodPost, "/v3/service_credential_bindings", body, nil); err != nil {
		return err
	}
	return backTo(w, r, guid, "services", "bound")
}

// unbindFromApp is POST /console/apps/GUID/services/GUID/unbind.
func (c *Console) unbindFromApp(w http.ResponseWriter, r *http.Request, s *Session) error {
	if err := c.platform(r, s).do(http.MethodDelete, "/v3/service_credential_bindings/"+url.PathEscape(web.Param(r, "binding")), nil, nil); err != nil {
		return err
	}
	return backTo(w, r, web.Param(r, "guid"), "services", "unbound")
}
